/* SPDX-License-Identifier: Apache-2.0 */
#include "explain_script.h"
#include "guards/guard.h"
#include "laws/cache_walk.h"
#include "script_answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_COLUMN = 48, OUTCOME_COLUMN = 7, LINE_BYTES = 512 };

static const char *const outcome_names[] = {[GUARD_NOT_ASKED] = "",
                                            [GUARD_MISS] = "miss",
                                            [GUARD_HIT] = "hit",
                                            [GUARD_STALE] = "STALE",
                                            [GUARD_REFUSES] = "refuse"};

/* Errors are of this library's guards; published keys only refuse. */
typedef struct column {
    guard_outcome outcomes[CACHE_OPS_MAX];
    cpr_status errors[CACHE_OPS_MAX];
} column;

static void note(void *context, const cache_observation *seen) {
    column *to = context;
    to->errors[seen->step] = seen->error.status;
    if (!script_asks(seen->op->kind) || seen->skipped)
        to->outcomes[seen->step] = GUARD_NOT_ASKED;
    else if (seen->error.status != CPR_OK)
        to->outcomes[seen->step] = GUARD_REFUSES;
    else
        to->outcomes[seen->step] = seen->stale ? GUARD_STALE : seen->hit ? GUARD_HIT : GUARD_MISS;
}

static void fill(const guard *g, const cache_case *c, cache_case *own, column *to, verdict *v) {
    memset(to, 0, sizeof *to);
    if (!g->ours) {
        guard_trace(g, c, to->outcomes);
        return;
    }
    cache_case_copy(own, c);
    own->guard = g->ours;
    const unsigned wants = c->guard == g->ours ? WATCH_WANTS : 0;
    cache_walk(own,
               &(cache_walk_options){
                   .engine = &the_cache_engine,
                   .watch = (WATCH_ALL & ~(unsigned)WATCH_WANTS) | wants,
                   .observe = note,
                   .context = to,
               },
               v);
}

static void print_head(void) {
    for (size_t g = 0; g < guard_count; g++)
        printf("  %c  %s: %s\n", (char)('A' + g), guards[g].name, guards[g].meaning);
    printf("%*s", STEP_COLUMN, "");
    for (size_t g = 0; g + 1 < guard_count; g++)
        printf(" %-*c", OUTCOME_COLUMN - 1, (char)('A' + g));
    printf(" %c\n", (char)('A' + guard_count - 1));
}

static void print_errors(const column *columns, int64_t step) {
    const char *told = "";
    for (size_t g = 0; g < guard_count; g++) {
        const char *name = cpr_status_name(columns[g].errors[step]);
        if (columns[g].outcomes[step] == GUARD_REFUSES && columns[g].errors[step] != CPR_OK &&
            strcmp(told, name) != 0)
            printf("     %c: %s\n", (char)('A' + g), told = name);
    }
}

static void print_step(const cache_case *c, const column *columns, int64_t step) {
    char text[LINE_BYTES], line[LINE_BYTES + 32];
    bool asked = false;
    cache_op_format(c, &c->ops[step], text, sizeof text);
    snprintf(line, sizeof line, "%3lld  %s", (long long)step + 1, text);
    for (size_t g = 0; g < guard_count; g++)
        asked = asked || columns[g].outcomes[step] != GUARD_NOT_ASKED;
    if (!asked) {
        printf("%s\n", line);
        return;
    }
    if (strlen(line) > STEP_COLUMN)
        printf("%s\n%*s", line, STEP_COLUMN, "");
    else
        printf("%-*s", STEP_COLUMN, line);
    for (size_t g = 0; g + 1 < guard_count; g++)
        printf(" %-*s", OUTCOME_COLUMN - 1, outcome_names[columns[g].outcomes[step]]);
    printf(" %s\n", outcome_names[columns[guard_count - 1].outcomes[step]]);
    print_errors(columns, step);
}

bool explain_script(const cache_case *c) {
    column *columns = calloc(guard_count, sizeof *columns);
    cache_case *own = calloc(1, sizeof *own);
    bool good = columns && own;
    for (size_t g = 0; good && g < guard_count; g++) {
        verdict v = {.outcome = LAW_PASSED, .reason = ""};
        fill(&guards[g], c, own, &columns[g], &v);
        if (v.outcome == LAW_FAILED)
            printf("%s: %s (%s)\n", guards[g].name, v.reason, v.details);
        good = v.outcome != LAW_FAILED;
    }
    if (columns && own) {
        print_head();
        for (int64_t i = 0; i < c->op_count; i++)
            print_step(c, columns, i);
    }
    free(columns);
    free(own);
    return good;
}
