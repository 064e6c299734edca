/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "laws.h"
#include "subject.h"
#include <stdlib.h>
#include <string.h>

enum { INSERTIONS_MAX = 5, GAP_MAX = 200 };

/* An empty sequence after entry `at`: its copy. The error's index moves with the entry or the sequence that
 * it names. */
static void insert_empty(route_case *c, int64_t at, cpr_error *error) {
    memmove(&c->cu[at + 1], &c->cu[at], (size_t)(c->entries - at) * sizeof *c->cu);
    c->entries++;
    if (error->status == CPR_DECREASING)
        error->index += at < error->index;
    if (error->status == CPR_NOT_DIVISIBLE_2CP && error->index >= 0)
        error->index += at <= error->index;
}

/* One at each end, the others anywhere; the first of them at times again and again, for builders that do not walk through long gaps. */
static void insert_empties(route_case *c, cpr_error *error) {
    const uint64_t gap = salt_below(c->salt, 6, 4) == 0 ? salt_below(c->salt, 7, GAP_MAX) : 0;
    const unsigned insertions = 1 + (unsigned)salt_below(c->salt, 0, INSERTIONS_MAX);
    for (unsigned i = 0; i < insertions; i++) {
        const int64_t anywhere = (int64_t)salt_below(c->salt, 1 + i, (uint64_t)c->entries);
        const int64_t at = i == 1 ? 0 : i == 2 ? c->entries - 1 : anywhere;
        insert_empty(c, at, error);
        for (uint64_t more = 0; i == 0 && more < gap; more++)
            insert_empty(c, at, error);
    }
}

static bool same_answers(const route_case *plain, route_case *padded, const engine_under_test *engine,
                         builder by, verdict *v) {
    boundaries before = boundaries_make(plain);
    cpr_route *route = NULL, *padded_route = NULL;
    cpr_error error, padded_error;
    const cpr_status status = engine->build[by](&before.request, NULL, &route, &error);

    cpr_error wanted = error;
    insert_empties(padded, &wanted);
    boundaries after = boundaries_make(padded);
    const cpr_status padded_status = engine->build[by](&after.request, NULL, &padded_route, &padded_error);

    bool good = same_error(&padded_error, "with empty sequences", &wanted, "without, index moved",
                           "empty sequences change the answer", v);
    if (good && status == CPR_OK && padded_status == CPR_OK)
        good = same_route(padded_route, "with empty sequences", route, "without",
                          "empty sequences change the route", v);
    cpr_route_free(padded_route);
    cpr_route_free(route);
    boundaries_free(&after);
    boundaries_free(&before);
    return good;
}

static bool listable(const route_case *c) {
    return c->expected.status == CPR_OK && route_case_tokens(c) <= CASE_ENUMERABLE &&
           c->geometry.cp_size <= GROUP_MAX;
}

void judge_empty_slots(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (c->entries == 0 || c->entries + INSERTIONS_MAX + GAP_MAX > CASE_MAX_ENTRIES) {
        law_skip(v, "no entry to repeat, or no room to");
        return;
    }
    const builder by = listable(c) ? (builder)salt_below(c->salt, 9, BUILDER_COUNT) : BY_INTERVALS;
    route_case *padded = malloc(sizeof *padded);
    if (!padded) {
        subject_no_memory(v);
        return;
    }
    route_case_copy(padded, c);
    same_answers(c, padded, engine, by, v);
    free(padded);
}
