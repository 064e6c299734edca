/* SPDX-License-Identifier: Apache-2.0 */
/* The law that is fuzzed most: one rank, all builders, and nothing that their agreement does not need. */
#include "compare.h"
#include "laws.h"
#include "subject.h"
#include <inttypes.h>

enum { EXPANDED_ROWS_MAX = 64, EXPANDED_SPLITS_MAX = 16 };

typedef struct answer {
    cpr_status status;
    cpr_error error;
    cpr_route *route;
} answer;

static answer ask(const engine_under_test *engine, builder by, const cpr_route_request *request) {
    answer a = {.route = NULL};
    a.status = engine->build[by](request, NULL, &a.route, &a.error);
    return a;
}

/* Streams that no oracle takes: it must say so, and the interval builder must not mind. */
static bool oracle_declines(const answer *a, int64_t total, const char *name, verdict *v) {
    return call_refused(a->status, &a->error,
                        (cpr_error){CPR_OVERFLOW, -1, total, CPR_ENUMERATION_MAX_TOKENS}, name, v);
}

static bool same_side(const engine_under_test *engine, const answer *answers, cpr_side side, verdict *v) {
    int64_t rows[2][EXPANDED_ROWS_MAX], splits[2][EXPANDED_SPLITS_MAX];
    const cpr_route *route = answers[BY_INTERVALS].route;
    const cpr_run_list *list = side == CPR_SEND ? &route->send : &route->recv;
    const int64_t ranks = route->geometry.cp_size;
    if (list->rows > EXPANDED_ROWS_MAX || ranks > EXPANDED_SPLITS_MAX)
        return true;
    for (int by = 0; by < 2; by++) {
        cpr_error error;
        cpr_status status = engine->rows(answers[by].route, side, CPR_INT64, rows[by], list->rows, &error);
        if (!call_ok(status, &error, "rows", v))
            return false;
        status = engine->splits(answers[by].route, side, splits[by], ranks, &error);
        if (!call_ok(status, &error, "splits", v))
            return false;
    }
    return same_numbers(rows[0], builder_names[0], rows[1], builder_names[1], list->rows, "rows",
                        "builders disagree in rows", v) &&
           same_numbers(splits[0], builder_names[0], splits[1], builder_names[1], ranks, "splits",
                        "builders disagree in splits", v);
}

static bool hold_together(const engine_under_test *engine, const answer *answers, verdict *v) {
    const cpr_route *first = answers[BY_INTERVALS].route;
    for (int by = BY_INTERVALS + 1; by < BUILDER_COUNT; by++) {
        if (!answers[by].route) /* it declined, rightly */
            continue;
        if (!same_route(first, builder_names[BY_INTERVALS], answers[by].route, builder_names[by],
                        "builders disagree", v))
            return false;
        if (!engine->equal(first, answers[by].route))
            return law_fail(v, "equal routes are called different", "%s and %s", builder_names[BY_INTERVALS],
                            builder_names[by]);
    }
    /* They are equal to the last bit, so one of them speaks for all. */
    const char *why = "";
    return engine->validate(first, NULL, &why) || law_fail(v, "a built route does not validate", "%s", why);
}

static bool agree(const route_case *c, const engine_under_test *engine, const answer *answers, verdict *v) {
    const bool legal = c->expected.status == CPR_OK;
    const int64_t total = legal ? route_case_tokens(c) : 0;
    for (int by = 0; by < BUILDER_COUNT; by++) {
        if (builder_enumerates(by) && total > CPR_ENUMERATION_MAX_TOKENS) {
            if (!oracle_declines(&answers[by], total, builder_names[by], v))
                return false;
        } else if (!as_expected(c, answers[by].status, &answers[by].error, builder_names[by], v)) {
            return false;
        }
    }
    for (int by = 1; !legal && by < BUILDER_COUNT; by++)
        if (!same_error(&answers[0].error, builder_names[0], &answers[by].error, builder_names[by],
                        "builders disagree in the error", v))
            return false;
    return !legal || (hold_together(engine, answers, v) &&
                      (total > CPR_ENUMERATION_MAX_TOKENS ||
                       (same_side(engine, answers, CPR_SEND, v) && same_side(engine, answers, CPR_RECV, v))));
}

static bool oracles_are_quick(const route_case *c) {
    if (c->expected.status != CPR_OK)
        return true;
    const int64_t total = route_case_tokens(c);
    return total > CPR_ENUMERATION_MAX_TOKENS ||
           (total <= CASE_ENUMERABLE && c->geometry.cp_size <= GROUP_MAX);
}

void judge_equivalence(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!oracles_are_quick(c)) {
        law_skip(v, "too much to list");
        return;
    }
    boundaries b = boundaries_make(c);
    answer answers[BUILDER_COUNT];
    for (int by = 0; by < BUILDER_COUNT; by++)
        answers[by] = ask(engine, (builder)by, &b.request);
    agree(c, engine, answers, v);
    for (int by = 0; by < BUILDER_COUNT; by++)
        cpr_route_free(answers[by].route);
    boundaries_free(&b);
}
