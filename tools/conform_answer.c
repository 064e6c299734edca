/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong about an answer, by comparing meanings: a list 0, 1, 2, ... and null are the same rows. */
#include "conform_question.h"
#include "printable.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct judge {
    const question *q;
    const hello *h;
    json_t *got, *want;
    difference *d;
} judge;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static judgement
wrong(const judge *j, const char *format, ...) {
    va_list details;
    va_start(details, format);
    int head = snprintf(j->d->signature, sizeof j->d->signature, "%s: ", question_op_names[j->q->op]);
    vsnprintf(j->d->signature + head, sizeof j->d->signature - (size_t)head, format, details);
    va_end(details);
    return ANSWER_WRONG;
}

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
tell(const judge *j, const char *format, ...) {
    va_list details;
    va_start(details, format);
    vsnprintf(j->d->details, sizeof j->d->details, format, details);
    va_end(details);
}

static const char *text_of(json_t *object, const char *field) {
    const char *text = json_string_value(json_object_get(object, field));
    return text ? text : "";
}

/*------------------------------------------------------------------------------
 * Lists of numbers
 *----------------------------------------------------------------------------*/

static bool is_identity(const json_t *list) {
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        if (!json_is_integer(item) || json_integer_value(item) != (json_int_t)i)
            return false;
    }
    return true;
}

/* False at the first entry that differs; its place and both values are told. */
static bool same_numbers(const judge *j, const char *field, const json_t *got, const json_t *want) {
    const size_t got_count = json_array_size(got), want_count = json_array_size(want);
    for (size_t i = 0; i < got_count && i < want_count; i++) {
        const json_t *g = json_array_get(got, i), *w = json_array_get(want, i);
        if (!json_is_integer(g)) {
            tell(j, "%s[%zu] is not a whole number", field, i);
            return false;
        }
        if (json_integer_value(g) != json_integer_value(w)) {
            tell(j, "%s[%zu]: got %" JSON_INTEGER_FORMAT ", want %" JSON_INTEGER_FORMAT, field, i,
                 json_integer_value(g), json_integer_value(w));
            return false;
        }
    }
    if (got_count != want_count)
        tell(j, "%s: got %zu numbers, want %zu", field, got_count, want_count);
    return got_count == want_count;
}

/* Rows: null is 0, 1, 2, ... */
static bool same_rows(const judge *j, const char *field, const json_t *got, const json_t *want) {
    const bool got_list = json_is_array(got), want_list = json_is_array(want);
    if (got_list && want_list)
        return same_numbers(j, field, got, want);
    if (!got_list && !want_list)
        return true;
    const json_t *side =
        json_object_get(j->want, !strcmp(field, "send_rows") ? "source_rows" : "target_rows");
    const bool all = want_list || json_array_size(got) == (size_t)json_integer_value(side);
    if (all && is_identity(got_list ? got : want))
        return true;
    tell(j, "%s: got %s, want %s", field, got_list ? "a list" : "null, which is 0, 1, 2, ...",
         want_list ? "another order" : "0, 1, 2, ...");
    return false;
}

/*------------------------------------------------------------------------------
 * Errors
 *----------------------------------------------------------------------------*/

/* One of ours, or an exception by its name. Whoever makes up others must not make a class of differences of each. */
static bool is_kind(const char *kind) {
    static const char exception[] = "exception:";
    cpr_status status;
    if (cpr_status_from_name(kind, &status))
        return true;
    if (strncmp(kind, exception, sizeof exception - 1) != 0)
        return false;
    const char *name = kind + sizeof exception - 1;
    size_t i = 0;
    while (isalnum((unsigned char)name[i]) || name[i] == '_' || name[i] == '.')
        i++;
    return isalpha((unsigned char)name[0]) && !name[i];
}

static const char *kind_of(const judge *j) {
    const char *kind = text_of(j->got, "error");
    if (!*kind)
        return "an error without a kind";
    if (is_kind(kind))
        return kind;
    tell(j, "error: '%.80s'", kind);
    return "an error of a kind that is none";
}

static judgement judge_error_details(const judge *j) {
    static const char *const fields[] = {"index", "got", "want"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const json_t *got = json_object_get(j->got, fields[i]), *want = json_object_get(j->want, fields[i]);
        if (json_equal(got, want))
            continue;
        tell(j, "%s: got %" JSON_INTEGER_FORMAT ", want %" JSON_INTEGER_FORMAT, fields[i],
             json_integer_value(got), json_integer_value(want));
        return wrong(j, "%s has another %s", text_of(j->want, "error"), fields[i]);
    }
    return ANSWER_RIGHT;
}

static judgement judge_error(const judge *j) {
    const json_t *rank = json_object_get(j->got, "rank"), *asked = json_object_get(j->want, "rank");
    const char *want = text_of(j->want, "error");
    if (rank && asked && !json_equal(rank, asked))
        return wrong(j, "a refusal with another rank");
    if (j->h->errors == ERRORS_ANY)
        return ANSWER_RIGHT;
    if (strcmp(text_of(j->got, "error"), want) != 0)
        return wrong(j, "%s is refused as %.40s", want, kind_of(j));
    /* Fingerprints are everybody's own. */
    const bool of_fingerprints = !strcmp(want, "divergent_metadata");
    return j->h->errors == ERRORS_KIND || of_fingerprints ? ANSWER_RIGHT : judge_error_details(j);
}

/*------------------------------------------------------------------------------
 * Answers
 *----------------------------------------------------------------------------*/

static judgement wrong_field(const judge *j, const char *field) {
    if (asks_with_text(j->q->op))
        return wrong(j, "other %s", field);
    json_t *request = json_loadb(j->q->request, j->q->request_length, 0, NULL);
    if (j->q->op == ASK_LAYOUT)
        wrong(j, "%s: other %s", text_of(request, "layout"), field);
    else
        wrong(j, "%s->%s: other %s", text_of(request, "from"), text_of(request, "to"), field);
    json_decref(request);
    return ANSWER_WRONG;
}

static judgement malformed(const judge *j, const char *field) {
    tell(j, "%s is missing, or of another type", field);
    return wrong(j, "an answer without %s", field);
}

static judgement judge_route(const judge *j) {
    static const char *const counts[] = {"rank", "source_rows", "target_rows"};
    static const char *const splits[] = {"input_splits", "output_splits"};
    static const char *const rows[] = {"send_rows", "recv_rows"};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const json_t *got = json_object_get(j->got, counts[i]), *want = json_object_get(j->want, counts[i]);
        if (!json_is_integer(got))
            return malformed(j, counts[i]);
        if (json_equal(got, want))
            continue;
        tell(j, "%s: got %" JSON_INTEGER_FORMAT ", want %" JSON_INTEGER_FORMAT, counts[i],
             json_integer_value(got), json_integer_value(want));
        return wrong_field(j, counts[i]);
    }
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        const json_t *got = json_object_get(j->got, splits[i]);
        if (!json_is_array(got))
            return malformed(j, splits[i]);
        if (!same_numbers(j, splits[i], got, json_object_get(j->want, splits[i])))
            return wrong_field(j, splits[i]);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *got = json_object_get(j->got, rows[i]);
        if (!json_is_array(got) && !json_is_null(got))
            return malformed(j, rows[i]);
        if (!same_rows(j, rows[i], got, json_object_get(j->want, rows[i])))
            return wrong_field(j, rows[i]);
    }
    return ANSWER_RIGHT;
}

static judgement judge_layout(const judge *j) {
    const json_t *got = json_object_get(j->got, "tokens"), *rank = json_object_get(j->got, "rank");
    if (!json_is_integer(rank))
        return malformed(j, "rank");
    if (!json_equal(rank, json_object_get(j->want, "rank"))) {
        tell(j, "rank: got %" JSON_INTEGER_FORMAT, json_integer_value(rank));
        return wrong_field(j, "rank");
    }
    if (!json_is_array(got))
        return malformed(j, "tokens");
    if (same_numbers(j, "tokens", got, json_object_get(j->want, "tokens")))
        return ANSWER_RIGHT;
    return wrong_field(j, "tokens");
}

static judgement judge_exchange(const judge *j) {
    const json_t *got = json_object_get(j->got, "tokens"), *want = json_object_get(j->want, "tokens");
    if (!json_is_array(got) || json_array_size(got) != json_array_size(want))
        return malformed(j, "tokens");
    for (size_t rank = 0; rank < json_array_size(want); rank++) {
        char field[32];
        snprintf(field, sizeof field, "tokens[%zu]", rank);
        if (!json_is_array(json_array_get(got, rank)))
            return malformed(j, "tokens");
        if (!same_numbers(j, field, json_array_get(got, rank), json_array_get(want, rank)))
            return wrong_field(j, "tokens");
    }
    return ANSWER_RIGHT;
}

static const char INDEX[] = "_index", SPLIT_SIZES[] = "_split_sizes";

static bool ends_in(const char *text, const char *tail) {
    const size_t length = strlen(text), tail_length = strlen(tail);
    return length > tail_length && !strcmp(text + length - tail_length, tail);
}

/* Lists of rows are null where they are 0, 1, 2, ... */
static bool names_rows(const char *field) {
    return ends_in(field, "_rows") || ends_in(field, INDEX);
}

/* How many rows an index has that is not written out: as many as its side sends and receives. */
static size_t rows_of_index(const judge *j, const char *field) {
    char splits[80];
    size_t i, rows = 0;
    json_t *item;
    snprintf(splits, sizeof splits, "%.*s%s", (int)(strlen(field) - strlen(INDEX)), field, SPLIT_SIZES);
    json_array_foreach(json_object_get(j->want, splits), i, item) {
        rows += (size_t)json_integer_value(item);
    }
    return rows;
}

/* Only an index may be null where it is right. */
static judgement judge_rows_member(const judge *j, const char *field, const json_t *got, const json_t *want) {
    if (!json_is_array(got) && !json_is_null(got))
        return malformed(j, field);
    if (json_is_array(got) && json_is_array(want))
        return same_numbers(j, field, got, want) ? ANSWER_RIGHT : wrong_field(j, field);
    const bool as_many = !json_is_array(got) || json_array_size(got) == rows_of_index(j, field);
    if (as_many && is_identity(json_is_array(got) ? got : want))
        return ANSWER_RIGHT;
    tell(j, "%s: got %s, want %s", field, json_is_null(got) ? "null, which is 0, 1, 2, ..." : "a list",
         json_is_null(want) ? "0, 1, 2, ..." : "another order");
    return wrong_field(j, field);
}

static judgement judge_member(const judge *j, const char *field, const json_t *want) {
    const json_t *got = json_object_get(j->got, field);
    if (json_is_integer(want)) {
        if (!json_is_integer(got))
            return malformed(j, field);
        tell(j, "%s: got %" JSON_INTEGER_FORMAT ", want %" JSON_INTEGER_FORMAT, field,
             json_integer_value(got), json_integer_value(want));
        return json_equal(got, want) ? ANSWER_RIGHT : wrong_field(j, field);
    }
    if (names_rows(field))
        return judge_rows_member(j, field, got, want);
    if (!json_is_array(got))
        return malformed(j, field);
    return same_numbers(j, field, got, want) ? ANSWER_RIGHT : wrong_field(j, field);
}

/* Every member that is wanted. */
static judgement judge_members(const judge *j) {
    if (j->q->op == ASK_OUTCOME && !*text_of(j->got, "status")) /* which is all that it says */
        return malformed(j, "status");
    const char *field;
    json_t *want;
    judgement result = ANSWER_RIGHT;
    json_object_foreach(j->want, field, want) {
        if (result == ANSWER_RIGHT && strcmp(field, "status") != 0)
            result = judge_member(j, field, want);
    }
    return result;
}

static bool is_step_answer(const char *answer) {
    static const char *const answers[] = {"hit", "miss", "ok", "nothing"};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (!strcmp(answer, answers[i]))
            return true;
    return !strncmp(answer, "error:", 6) && is_kind(answer + 6);
}

/* What a step of a script was answered, as a class of differences. */
static judgement wrong_step(const judge *j, size_t step, const char *got, const char *want) {
    tell(j, "answer %zu: got %.60s, want %.60s", step, got, want);
    if (!strcmp(got, "hit") && !strcmp(want, "miss"))
        return wrong(j, "a hit on what has changed");
    if (!strcmp(got, "hit") && !strncmp(want, "error:", 6))
        return wrong(j, "a hit on what is refused as %s", want + 6);
    if (!strcmp(got, "miss") && !strcmp(want, "hit"))
        return wrong(j, "a needless build");
    return wrong(j, "%s instead of %.40s", is_step_answer(got) ? got : "an answer that is none", want);
}

static judgement judge_script(const judge *j) {
    const json_t *got = json_object_get(j->got, "answers"), *want = json_object_get(j->want, "answers");
    if (!json_is_array(got))
        return malformed(j, "answers");
    for (size_t i = 0; i < json_array_size(want); i++) {
        const char *own = json_string_value(json_array_get(got, i)),
                   *right = json_string_value(json_array_get(want, i));
        const bool refused = own && !strncmp(own, "error:", 6) && !strncmp(right, "error:", 6);
        if (!own)
            return malformed(j, "answers");
        if (strcmp(own, right) != 0 && !(refused && j->h->errors == ERRORS_ANY))
            return wrong_step(j, i, own, right);
    }
    return json_array_size(got) == json_array_size(want) ? ANSWER_RIGHT : malformed(j, "answers");
}

static judgement judge_answer(const judge *j) {
    switch (j->q->op) {
    case ASK_ROUTE:
        return judge_route(j);
    case ASK_LAYOUT:
        return judge_layout(j);
    case ASK_EXCHANGE:
        return judge_exchange(j);
    case ASK_CACHE:
        return judge_script(j);
    default:
        return judge_members(j);
    }
}

static judgement judge_objects(const judge *j) {
    const char *status = text_of(j->got, "status");
    const bool refused = !strcmp(status, "error"), must_refuse = json_object_get(j->want, "error") != NULL;
    if (!json_is_object(j->got)) {
        tell(j, "it is not an object");
        return wrong(j, "an answer that is no object");
    }
    if (!strcmp(status, "unsupported")) {
        wrong(j, "it has no answer");
        return ANSWER_UNSUPPORTED;
    }
    if (*status && !refused && strcmp(status, "ok") != 0) {
        tell(j, "'%.40s'", status);
        return wrong(j, "an answer of unknown status");
    }
    if (refused && must_refuse)
        return judge_error(j);
    if (refused)
        return wrong(j, "what is legal is refused as %.40s", kind_of(j));
    if (must_refuse)
        return wrong(j, "%s is accepted", text_of(j->want, "error"));
    return judge_answer(j);
}

/* A line of JSON that is beyond what is read here. The next line answers the next question all the same. */
static const char *beyond_reading(const json_error_t *error) {
    switch (json_error_code(error)) {
    case json_error_numeric_overflow:
        return "an answer with a number beyond 64 bits";
    case json_error_duplicate_key:
        return "an answer with a member that is there twice";
    case json_error_stack_overflow:
        return "an answer that is nested too deep";
    default:
        return NULL;
    }
}

static judgement judge_unread(const judge *j, const json_error_t *error, const char *line, size_t length) {
    const char *beyond = beyond_reading(error);
    if (beyond) {
        tell(j, "%s", error->text);
        return wrong(j, "%s", beyond);
    }
    tell(j, "%s: %.*s", error->text, (int)(length < 80 ? length : 80), line);
    wrong(j, "an answer that is not JSON");
    return ANSWER_NONE;
}

judgement answer_judge(const question *q, const hello *h, const char *line, size_t length, difference *d) {
    *d = (difference){0};
    if (length + 1 == q->want_length && !memcmp(line, q->want, length))
        return ANSWER_RIGHT;
    json_error_t error;
    judge j = {.q = q, .h = h, .d = d};
    j.got = json_loadb(line, length, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    j.want = j.got ? json_loadb(q->want, q->want_length, 0, NULL) : NULL;
    judgement result = ANSWER_RIGHT;
    if (!j.got)
        result = judge_unread(&j, &error, line, length);
    else if (j.want)
        result = judge_objects(&j);
    make_printable(d->signature);
    make_printable(d->details);
    json_decref(j.got);
    json_decref(j.want);
    return result;
}
