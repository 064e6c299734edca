/* SPDX-License-Identifier: Apache-2.0 */
/* cproute explain: the three builders' answers side by side. */
#include "arguments.h"
#include "explain_script.h"
#include "files.h"
#include "findings.h"
#include "refusal.h"
#include "text/text_outcome.h"
#include "text_choice.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const option_spec *const options[] = {&option_cu,  &option_cp,    &option_rank, &option_from,
                                             &option_to,  &option_dtype, &option_rows, &option_tp,
                                             &option_law, NULL};

/* Whatever a case comes from, it can be put to a builder. */
typedef struct asked_case {
    cpr_status (*ask)(void *context, builder_fn *build, int64_t rank, cpr_route **route, cpr_error *error);
    void *context;
} asked_case;

/*------------------------------------------------------------------------------
 * An answer as lines of text
 *----------------------------------------------------------------------------*/

typedef struct answer {
    char **lines;
    size_t count, capacity;
    char *partial; /* a line that has not ended */
    size_t partial_length;
    char *title;    /* the first line of a route, which all builders should share */
    bool not_asked; /* too many tokens for this builder: nothing to compare */
} answer;

static bool add_line(answer *a, const char *text, size_t length) {
    if (a->count == a->capacity) {
        size_t capacity = a->capacity ? 2 * a->capacity : 32;
        char **lines = realloc(a->lines, capacity * sizeof *lines);
        if (!lines)
            return false;
        a->lines = lines;
        a->capacity = capacity;
    }
    char *line = malloc(length + 1);
    if (!line)
        return false;
    memcpy(line, text, length);
    line[length] = '\0';
    a->lines[a->count++] = line;
    return true;
}

static bool add_number(answer *a, const char *name, int64_t value) {
    char line[64];
    int length = snprintf(line, sizeof line, "  %s %" PRId64, name, value);
    return add_line(a, line, (size_t)length);
}

/* A writer for the engine's dumps, which come in pieces. */
static bool add_text(void *context, const char *text, size_t length) {
    answer *a = context;
    char *joined = realloc(a->partial, a->partial_length + length + 1);
    if (!joined)
        return false;
    memcpy(joined + a->partial_length, text, length);
    a->partial = joined;
    a->partial_length += length;
    char *line = joined, *end;
    size_t left = a->partial_length;
    while ((end = memchr(line, '\n', left))) {
        if (!add_line(a, line, (size_t)(end - line)))
            return false;
        left -= (size_t)(end - line) + 1;
        line = end + 1;
    }
    memmove(joined, line, left);
    a->partial_length = left;
    return true;
}

static void answer_free(answer *a) {
    for (size_t i = 0; i < a->count; i++)
        free(a->lines[i]);
    free(a->lines);
    free(a->title);
    free(a->partial);
}

static bool take_title(answer *a) {
    a->title = a->lines[0];
    a->lines[0] = strdup("ok");
    return a->lines[0];
}

static bool ask(const asked_case *c, const builder *b, int64_t rank, answer *a) {
    cpr_route *route = NULL;
    cpr_error error;
    *a = (answer){0};
    if (c->ask(c->context, b->build, rank, &route, &error) == CPR_OK) {
        bool good = cpr_route_dump(route, CPR_DUMP_TEXT, add_text, a) && a->count > 0;
        cpr_route_free(route);
        return good && take_title(a);
    }
    a->not_asked = error.status == CPR_OVERFLOW && error.wanted == CPR_ENUMERATION_MAX_TOKENS;
    if (a->not_asked)
        return add_line(a, "too many tokens to list", strlen("too many tokens to list"));
    const char *name = cpr_status_name(error.status);
    return add_line(a, name, strlen(name)) && add_number(a, "index", error.index) &&
           add_number(a, "got", error.got) && add_number(a, "want", error.wanted);
}

/*------------------------------------------------------------------------------
 * Side by side, in 98 columns
 *----------------------------------------------------------------------------*/

enum { COLUMN = 31 };

static const char *line_of(const answer *a, size_t i) {
    return i < a->count ? a->lines[i] : "";
}

/* A cell is cut where another one follows. */
static void print_row(const char *mark, const char *const cells[BUILDER_COUNT]) {
    size_t last = BUILDER_COUNT - 1;
    while (last > 0 && !*cells[last])
        last--;
    printf("%-2s", mark);
    for (size_t b = 0; b < last; b++) {
        if (strlen(cells[b]) > COLUMN)
            printf("%.*s~ ", COLUMN - 1, cells[b]);
        else
            printf("%-*s ", COLUMN, cells[b]);
    }
    printf("%s\n", cells[last]);
}

static const char *text_or_nothing(const char *text) {
    return text ? text : "";
}

static bool differs(const answer answers[BUILDER_COUNT], size_t line) {
    for (size_t b = 1; b < BUILDER_COUNT; b++) {
        if (answers[b].not_asked)
            continue;
        if (strcmp(line_of(&answers[0], line), line_of(&answers[b], line)) != 0 ||
            (line == 0 && strcmp(text_or_nothing(answers[0].title), text_or_nothing(answers[b].title)) != 0))
            return true;
    }
    return false;
}

/* In full, and with titles: cells may differ where they were cut. */
static void print_difference(const answer answers[BUILDER_COUNT], size_t line) {
    printf("first difference:\n");
    for (size_t b = 0; b < BUILDER_COUNT; b++)
        if (!answers[b].not_asked)
            printf("  %-10s %s %s\n", builders[b].name,
                   line < answers[b].count ? answers[b].lines[line] : "(has no such line)",
                   line == 0 ? text_or_nothing(answers[b].title) : "");
}

/* True if the builders agree. */
static bool print_answers(int64_t rank, const answer answers[BUILDER_COUNT]) {
    const char *cells[BUILDER_COUNT], *title = answers[0].title;
    size_t lines = 0, first_difference = SIZE_MAX;
    for (size_t b = 0; b < BUILDER_COUNT; b++) {
        lines = answers[b].count > lines ? answers[b].count : lines;
        cells[b] = builders[b].name;
    }
    printf("rank %" PRId64 "%s%s\n", rank, title ? ": " : "", text_or_nothing(title));
    print_row("", cells);
    for (size_t i = 0; i < lines; i++) {
        if (first_difference == SIZE_MAX && differs(answers, i))
            first_difference = i;
        for (size_t b = 0; b < BUILDER_COUNT; b++)
            cells[b] = line_of(&answers[b], i);
        print_row(first_difference == i ? ">" : "", cells);
    }
    if (first_difference != SIZE_MAX)
        print_difference(answers, first_difference);
    return first_difference == SIZE_MAX;
}

/* True if the builders agree. */
static bool explain_rank(const asked_case *c, int64_t rank) {
    answer answers[BUILDER_COUNT];
    bool good = true;
    for (size_t b = 0; b < BUILDER_COUNT; b++)
        good = ask(c, &builders[b], rank, &answers[b]) && good;
    if (good)
        good = print_answers(rank, answers);
    else
        fprintf(stderr, "cproute explain: out of memory\n");
    for (size_t b = 0; b < BUILDER_COUNT; b++)
        answer_free(&answers[b]);
    return good;
}

/*------------------------------------------------------------------------------
 * Cases from options
 *----------------------------------------------------------------------------*/

static cpr_status ask_inline(void *context, builder_fn *build, int64_t rank, cpr_route **route,
                             cpr_error *error) {
    arguments *a = context;
    cpr_route_request request = request_of(a, a->source, a->target);
    request.geometry.cp_rank = rank;
    if (!offsets_hand_over(&a->cu, a->dtype, &request, error))
        return error->status;
    return build(&request, NULL, route, error);
}

/* The table has numbers alone for a word that nobody knows. */
static void tell_refused_word(const asked_case *c, const arguments *a, int64_t rank) {
    cpr_route *route = NULL;
    cpr_error error;
    if (c->ask(c->context, builders[0].build, rank, &route, &error) != CPR_OK)
        refused_word_show(a, &error);
    cpr_route_free(route);
}

static int explain_inline(arguments *a) {
    int64_t first, last;
    asked_case c = {.ask = ask_inline, .context = a};
    bool agree = true;
    ranks_asked(a, &first, &last);
    tell_refused_word(&c, a, first);
    for (int64_t rank = first; rank <= last && !ferror(stdout); rank++)
        agree = explain_rank(&c, rank) && agree;
    tell_ranks_left_out(a);
    return agree ? EXIT_GOOD : EXIT_FINDINGS;
}

/*------------------------------------------------------------------------------
 * Cases from text files
 *----------------------------------------------------------------------------*/

typedef struct chosen_cases {
    text_choice choice;
    int explained;
    bool disagree;
} chosen_cases;

static cpr_status ask_text(void *context, builder_fn *build, int64_t rank, cpr_route **route,
                           cpr_error *error) {
    text_case *c = context;
    return text_case_route(c, build, rank, text_case_from(c), text_case_to(c), route, error);
}

/* As JSON: there is one of each. */
static void explain_shape(text_case *c, route_shape shape) {
    const int64_t ranks = route_shape_ranks(c, shape);
    for (int64_t rank = 0; rank < (ranks > 0 ? ranks : 1) && rank < JUDGED_RANKS_MAX; rank++) {
        cpr_error error;
        printf("%s ", route_shape_name(shape));
        if (!route_shape_write(stdout, c, shape, rank, &error))
            cpr_error_dump_json(rank, &error, write_to_file, stdout);
    }
}

/* True if the builders agree. */
static bool explain_case(text_case *text) {
    asked_case c = {.ask = ask_text, .context = text};
    const judged_ranks ranks = text_case_ranks(text);
    bool agree = true;
    for (size_t i = 0; i < ranks.count && !text->pad; i++)
        agree = explain_rank(&c, ranks.items[i]) && agree;
    if (text->pad)
        explain_shape(text, ROUTE_PAD);
    if (text->fused)
        explain_shape(text, ROUTE_FUSED);
    if (text->real_given && text->expect == CPR_OK)
        explain_shape(text, ROUTE_REAL);
    return agree;
}

static bool explain_law(const law *l, const void *subject) {
    verdict v;
    law_judge(l, subject, &v);
    if (v.outcome == LAW_FAILED)
        printf("law %s is broken: %s\n%s\n", l->id, v.reason, v.details);
    else
        printf("law %s holds\n", l->id);
    return v.outcome != LAW_FAILED;
}

static bool explain_layer(const delta_case *c) {
    bool good = true;
    delta_family.show(stdout, c, has_colour(stdout));
    for (size_t i = 0; i < law_count; i++)
        good = (laws[i].family != &delta_family || explain_law(&laws[i], c)) && good;
    return good;
}

static bool explain_text(void *context, const text_entry *entry) {
    chosen_cases *chosen = context;
    if (!text_choice_takes(&chosen->choice, entry))
        return true;
    chosen->explained++;
    if (!entry->c) {
        printf("%s:%d %s\n", entry->file, entry->line, entry->mistake);
        chosen->disagree = true;
        return true;
    }
    printf("%s:%d %s, expects %s%s%s\n", entry->file, entry->line, entry->c->id,
           cpr_status_name(entry->c->expect), entry->c->note ? ": " : "",
           entry->c->note ? entry->c->note : "");
    if (entry->c->cache) {
        chosen->disagree = !explain_script(entry->c->cache) || chosen->disagree;
        return !ferror(stdout);
    }
    if (entry->c->delta) {
        chosen->disagree = !explain_layer(entry->c->delta) || chosen->disagree;
        return !ferror(stdout);
    }
    chosen->disagree = !explain_case(entry->c) || chosen->disagree;
    return !ferror(stdout);
}

static int explain_chosen(chosen_cases *chosen) {
    const text_choice *choice = &chosen->choice;
    char mistake[4600];
    if (!text_file_visit(choice->path, explain_text, chosen, mistake, sizeof mistake))
        return wrong_use(&explain_command, "%s", mistake);
    if (!chosen->explained)
        return wrong_use(&explain_command, "%s has no case %s", choice->path,
                         choice->id ? choice->id : "at all");
    return chosen->disagree ? EXIT_FINDINGS : EXIT_GOOD;
}

static int explain_text_cases(const char *operand) {
    chosen_cases chosen = {.explained = 0};
    if (!text_choice_open(&chosen.choice, operand)) {
        fprintf(stderr, "cproute explain: out of memory\n");
        return EXIT_FINDINGS;
    }
    const int code = explain_chosen(&chosen);
    text_choice_close(&chosen.choice);
    return code;
}

/*------------------------------------------------------------------------------
 * Cases from byte inputs
 *----------------------------------------------------------------------------*/

static cpr_status ask_bytes(void *context, builder_fn *build, int64_t rank, cpr_route **route,
                            cpr_error *error) {
    cpr_route_request request = *(cpr_route_request *)context;
    request.geometry.cp_rank = rank;
    return build(&request, NULL, route, error);
}

static bool explain_subject(const law *l, const route_case *subject) {
    boundaries b = boundaries_make(subject);
    asked_case c = {.ask = ask_bytes, .context = &b.request};
    l->family->show(stdout, subject, has_colour(stdout));
    const bool agree = explain_rank(&c, subject->geometry.cp_rank);
    boundaries_free(&b);
    return agree;
}

/* Of a family without builders to set side by side: the case, and what its law says. */
static bool explain_verdict(const law *l, const void *subject) {
    l->family->show(stdout, subject, has_colour(stdout));
    return explain_law(l, subject);
}

static bool explain_of_family(const law *l, const void *subject) {
    if (l->family == &cache_family)
        return explain_script(subject);
    return l->family == &route_family ? explain_subject(l, subject) : explain_verdict(l, subject);
}

static int explain_bytes(const law *l, const char *path) {
    size_t length;
    char mistake[4600];
    char *bytes = read_whole(path, &length, mistake, sizeof mistake);
    if (!bytes)
        return wrong_use(&explain_command, "%s", mistake);
    void *subject = subject_from_bytes(l, (const uint8_t *)bytes, length);
    const bool agree = subject && explain_of_family(l, subject);
    free(subject);
    free(bytes);
    return agree ? EXIT_GOOD : EXIT_FINDINGS;
}

static int explain_run(arguments *a) {
    int code;
    if (a->operand_count > 1)
        return wrong_use(&explain_command, "one case is wanted");
    if (a->operand_count && (a->cu_given || a->cp_given))
        return wrong_use(&explain_command, "a file or --cu, not both");
    if (a->operand_count)
        return finish_output(a->law ? explain_bytes(a->law, a->operands[0])
                                    : explain_text_cases(a->operands[0]));
    if (!a->cu_given && !a->cp_given)
        return wrong_use(&explain_command, "a case is missing: FILE, or --cu and --cp");
    code = batch_needed(&explain_command, a);
    return code ? code : finish_output(explain_inline(a));
}

const command explain_command = {
    .name = "explain",
    .summary = "Shows the answers of the three builders, or of guards of a cache, side by side.",
    .operands = "FILE[:ID|:LINE] | --law LAW FILE | --cu LIST --cp P [options]",
    .details = "FILE is a file of text cases, or with --law a byte input. Where the answers\n"
               "first differ is marked. Exit status 1 says that they do. Of a case with\n"
               "tensors and a cache every step is shown, with what each guard did; of one about\n"
               "a shape of the route, such as the plan that pads, what 'route --shape' prints.",
    .options = options,
    .run = explain_run,
};
