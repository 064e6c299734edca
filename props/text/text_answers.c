/* SPDX-License-Identifier: Apache-2.0 */
#include "text_answers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*------------------------------------------------------------------------------
 * What the engine answers. Every answer is a list of numbers for one rank.
 *----------------------------------------------------------------------------*/

typedef struct question {
    text_case *c;
    text_builder_fn *build;
    int64_t rank;
    int which; /* as the table of answers has it */
} question;

typedef bool (*answer_fn)(const question *q, int64_list *answer, cpr_error *error);

static bool append_all(int64_list *list, const int64_t *items, int64_t count, cpr_error *error) {
    for (int64_t i = 0; i < count; i++) {
        if (!int64_list_append(list, items[i])) {
            *error = (cpr_error){CPR_NO_MEMORY, -1, 0, 0};
            return false;
        }
    }
    return true;
}

static bool tokens_answer(const question *q, int64_list *answer, cpr_error *error) {
    return text_case_share(q->c, (cpr_layout)q->which, q->rank, answer, error) == CPR_OK;
}

static int64_t side_rows(const cpr_route *route, cpr_side side) {
    return side == CPR_SEND ? route->send.rows : route->recv.rows;
}

static bool splits_of(const cpr_route *route, cpr_side side, int64_list *answer, cpr_error *error) {
    int64_t count = route->geometry.cp_size;
    int64_t *splits = malloc((size_t)count * sizeof *splits);
    *error = (cpr_error){CPR_NO_MEMORY, -1, 0, 0};
    bool good = splits && cpr_route_splits(route, side, splits, count, error) == CPR_OK &&
                append_all(answer, splits, count, error);
    free(splits);
    return good;
}

static bool rows_of(const cpr_route *route, cpr_side side, int64_list *answer, cpr_error *error) {
    int64_t count = side_rows(route, side);
    int64_t *rows = malloc(((size_t)count + 1) * sizeof *rows);
    *error = (cpr_error){CPR_NO_MEMORY, -1, 0, 0};
    bool good = rows && cpr_route_rows(route, side, CPR_INT64, rows, count, error) == CPR_OK &&
                append_all(answer, rows, count, error);
    free(rows);
    return good;
}

static bool runs_of(const cpr_route *route, cpr_side side, int64_list *answer, cpr_error *error) {
    const cpr_run_list *list = side == CPR_SEND ? &route->send : &route->recv;
    bool good = true;
    for (int64_t i = 0; i < list->count && good; i++) {
        const cpr_run *run = &list->runs[i];
        const int64_t fields[] = {run->peer, run->source_row, run->target_row, run->length};
        good = append_all(answer, fields, 4, error);
    }
    return good;
}

static bool asked_identity(const question *q, int64_list *answer, cpr_error *error) {
    cpr_route *route = NULL;
    if (text_case_route(q->c, q->build, q->rank, text_case_from(q->c), text_case_to(q->c), &route, error) !=
        CPR_OK)
        return false;
    const int64_t flags[] = {route->send.identity, route->recv.identity};
    cpr_route_free(route);
    return append_all(answer, flags, 2, error);
}

typedef bool (*side_fn)(const cpr_route *route, cpr_side side, int64_list *answer, cpr_error *error);

static bool side_answer(const question *q, cpr_layout from, cpr_layout to, side_fn side, int64_list *answer,
                        cpr_error *error) {
    cpr_route *route = NULL;
    if (text_case_route(q->c, q->build, q->rank, from, to, &route, error) != CPR_OK)
        return false;
    bool good = side(route, (cpr_side)q->which, answer, error);
    cpr_route_free(route);
    return good;
}

static bool asked_splits(const question *q, int64_list *answer, cpr_error *error) {
    return side_answer(q, text_case_from(q->c), text_case_to(q->c), splits_of, answer, error);
}

static bool asked_rows(const question *q, int64_list *answer, cpr_error *error) {
    return side_answer(q, text_case_from(q->c), text_case_to(q->c), rows_of, answer, error);
}

static bool asked_runs(const question *q, int64_list *answer, cpr_error *error) {
    return side_answer(q, text_case_from(q->c), text_case_to(q->c), runs_of, answer, error);
}

static bool zigzag_to_contiguous_splits(const question *q, int64_list *answer, cpr_error *error) {
    return side_answer(q, CPR_ZIGZAG, CPR_CONTIGUOUS, splits_of, answer, error);
}

static bool contiguous_to_zigzag_rows(const question *q, int64_list *answer, cpr_error *error) {
    return side_answer(q, CPR_CONTIGUOUS, CPR_ZIGZAG, rows_of, answer, error);
}

static bool shape(const question *q, int64_list *answer, cpr_error *error) {
    return text_shape_answer(q->c, (shape_answer)q->which, q->rank, answer, error);
}

enum { MAX_LISTED = 1 << 24 };

/* What makes an answer long. */
typedef enum answer_size { BY_ROW, BY_RANK, BY_RUN } answer_size;

static const struct {
    const char *name;
    answer_fn answer;
    int which;
    bool built; /* the builders answer it, each for itself */
    answer_size size;
} answers[] = {
    {"zigzag", tokens_answer, CPR_ZIGZAG, false, BY_ROW},
    {"contiguous", tokens_answer, CPR_CONTIGUOUS, false, BY_ROW},
    {"per_sequence_contiguous", tokens_answer, CPR_PER_SEQUENCE_CONTIGUOUS, false, BY_ROW},
    {"flat_zigzag", tokens_answer, CPR_FLAT_ZIGZAG, false, BY_ROW},
    {"heads_then_tails", tokens_answer, CPR_HEADS_THEN_TAILS, false, BY_ROW},
    {"z2c_send_splits", zigzag_to_contiguous_splits, CPR_SEND, true, BY_RANK},
    {"c2z_send_order", contiguous_to_zigzag_rows, CPR_SEND, true, BY_ROW},
    {"input_splits", asked_splits, CPR_SEND, true, BY_RANK},
    {"output_splits", asked_splits, CPR_RECV, true, BY_RANK},
    {"send_rows", asked_rows, CPR_SEND, true, BY_ROW},
    {"recv_rows", asked_rows, CPR_RECV, true, BY_ROW},
    {"identity", asked_identity, 0, true, BY_RUN},
    {"send_runs", asked_runs, CPR_SEND, true, BY_RUN},
    {"recv_runs", asked_runs, CPR_RECV, true, BY_RUN},
    {"real_rows_per_rank", shape, SHAPE_REAL_ROWS, false, BY_ROW},
    {"real_tokens", shape, SHAPE_REAL_TOKENS, false, BY_ROW},
    {"successor", shape, SHAPE_SUCCESSORS, false, BY_ROW},
    {"local_offsets", shape, SHAPE_LOCAL_OFFSETS, false, BY_ROW},
    {"flat", shape, SHAPE_FLAT, false, BY_ROW},
    {"zigzag_index", shape, SHAPE_ZIGZAG_INDEX, false, BY_ROW},
    {"zigzag_split_sizes", shape, SHAPE_ZIGZAG_SPLITS, false, BY_ROW},
    {"contiguous_index", shape, SHAPE_CONTIGUOUS_INDEX, false, BY_ROW},
    {"contiguous_split_sizes", shape, SHAPE_CONTIGUOUS_SPLITS, false, BY_ROW},
    {"fused_send_rows", shape, SHAPE_FUSED_SEND_ROWS, false, BY_ROW},
    {"fused_recv_rows", shape, SHAPE_FUSED_RECV_ROWS, false, BY_ROW},
    {"fused_input_splits", shape, SHAPE_FUSED_INPUT_SPLITS, false, BY_RANK},
    {"fused_output_splits", shape, SHAPE_FUSED_OUTPUT_SPLITS, false, BY_RANK},
    {"chunk_send", shape, SHAPE_CHUNK_SEND, false, BY_RUN},
    {"chunk_recv", shape, SHAPE_CHUNK_RECV, false, BY_RUN},
    {"padded_cu", shape, SHAPE_PADDED_CU, false, BY_RUN},
    {"pad_contiguous_splits", shape, SHAPE_PAD_CONTIGUOUS_SPLITS, false, BY_RANK},
    {"pad_zigzag_splits", shape, SHAPE_PAD_ZIGZAG_SPLITS, false, BY_RANK},
    {"pad_contiguous_rows", shape, SHAPE_PAD_CONTIGUOUS_ROWS, false, BY_ROW},
    {"pad_zigzag_rows", shape, SHAPE_PAD_ZIGZAG_ROWS, false, BY_ROW},
    {"pad_contiguous_gather", shape, SHAPE_PAD_CONTIGUOUS_GATHER, false, BY_ROW},
    {"pad_zigzag_gather", shape, SHAPE_PAD_ZIGZAG_GATHER, false, BY_ROW},
};
enum { ANSWER_COUNT = sizeof answers / sizeof *answers };

const char *text_answer_of_shape(shape_answer which) {
    size_t i = 0;
    while (i + 1 < ANSWER_COUNT && (answers[i].answer != shape || answers[i].which != (int)which))
        i++;
    return answers[i].name;
}

/*------------------------------------------------------------------------------
 * What the case says: a list with an entry a rank, or an object with some ranks as keys
 *----------------------------------------------------------------------------*/

static bool flatten(const json_t *value, int64_list *numbers) {
    size_t i;
    json_t *item;
    if (json_is_integer(value))
        return int64_list_append(numbers, json_integer_value(value));
    if (!json_is_array(value))
        return false;
    json_array_foreach(value, i, item) {
        if (!flatten(item, numbers))
            return false;
    }
    return true;
}

static void judge_list(const char *name, const char *by, int64_t rank, const int64_list *got,
                       const int64_list *want, verdict *v) {
    int64_t shared = got->count < want->count ? got->count : want->count, i = 0;
    while (i < shared && got->items[i] == want->items[i])
        i++;
    if (i < shared)
        law_fail(v, "not the right answer",
                 "%s of rank %" PRId64 " by %s: entry %" PRId64 ": got %" PRId64 ", want %" PRId64, name,
                 rank, by, i, got->items[i], want->items[i]);
    else if (got->count != want->count)
        law_fail(v, "not the right answer",
                 "%s of rank %" PRId64 " by %s: got %" PRId64 " entries, want %" PRId64, name, rank, by,
                 got->count, want->count);
}

static int64_t ranks_answered(const text_case *c, size_t which) {
    return answers[which].answer == shape ? text_shape_ranks(c, (shape_answer)answers[which].which)
                                          : c->cp_size;
}

/* An answer that lists rows or ranks cannot be asked of a case that has too many of them. */
static bool is_listable(const text_case *c, size_t which) {
    bool by_rank = answers[which].size == BY_RANK;
    int64_t listed =
        by_rank ? ranks_answered(c, which) : text_case_tokens(c) / (c->cp_size > 0 ? c->cp_size : 1);
    return answers[which].size == BY_RUN || listed <= MAX_LISTED;
}

static void judge_rank(text_case *c, size_t which, int64_t rank, const json_t *value, verdict *v) {
    static const struct {
        const char *name;
        text_builder_fn *build;
    } builders[] = {{"interval", cpr_route_build},
                    {"per-token", cpr_route_build_per_token},
                    {"definition", cpr_route_build_definition}};
    int64_list want = {0};
    if (!is_listable(c, which)) {
        law_fail(v, "the case is too large for this answer", "%s: %d rows or ranks are the limit",
                 answers[which].name, MAX_LISTED);
        return;
    }
    if (!flatten(value, &want))
        law_fail(v, "an answer is no list of numbers", "%s of rank %" PRId64, answers[which].name, rank);
    size_t asked = answers[which].built && text_case_is_enumerable(c) ? 3 : 1;
    for (size_t b = 0; b < asked && v->outcome != LAW_FAILED; b++) {
        question q = {.c = c, .build = builders[b].build, .rank = rank, .which = answers[which].which};
        int64_list got = {0};
        cpr_error error;
        if (answers[which].answer(&q, &got, &error))
            judge_list(answers[which].name, builders[b].name, rank, &got, &want, v);
        else
            law_fail(v, "an answer cannot be compared", "%s of rank %" PRId64 ": %s", answers[which].name,
                     rank, cpr_status_name(error.status));
        int64_list_free(&got);
    }
    int64_list_free(&want);
}

static bool rank_from_key(const char *key, int64_t *rank) {
    char *end;
    *rank = strtoll(key, &end, 10);
    return *key && !*end;
}

static void judge_answer(text_case *c, size_t which, json_t *value, verdict *v) {
    size_t i;
    json_t *item;
    const char *key;
    if (json_is_array(value)) {
        if ((int64_t)json_array_size(value) != ranks_answered(c, which)) {
            law_fail(v, "an answer is not for every rank", "%s has %zu entries", answers[which].name,
                     json_array_size(value));
            return;
        }
        json_array_foreach(value, i, item) judge_rank(c, which, (int64_t)i, item, v);
        return;
    }
    if (!json_is_object(value)) {
        law_fail(v, "an answer is neither a list nor an object", "%s", answers[which].name);
        return;
    }
    json_object_foreach(value, key, item) {
        int64_t rank;
        if (rank_from_key(key, &rank))
            judge_rank(c, which, rank, item, v);
        else
            law_fail(v, "an answer for no rank", "%s of '%s'", answers[which].name, key);
    }
}

void text_case_judge_answers(text_case *c, verdict *v) {
    const char *name;
    json_t *value;
    json_object_foreach(c->expected, name, value) {
        size_t which = 0;
        while (which < ANSWER_COUNT && strcmp(name, answers[which].name) != 0)
            which++;
        if (which < ANSWER_COUNT)
            judge_answer(c, which, value, v);
        else if (strcmp(name, "error") != 0)
            law_fail(v, "an answer of unknown meaning", "%s", name);
        else if (c->expect == CPR_OK || !text_case_error_details(c, &(cpr_error){CPR_OK, -1, 0, 0}))
            law_fail(v, "an answer about the error that is none",
                     "index, got and want of an error are wanted");
    }
}
