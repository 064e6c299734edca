/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "group.h"
#include "laws.h"
#include "subject.h"
#include <inttypes.h>

static bool counts_up(const int64_t *rows, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (rows[i] != i)
            return false;
    return true;
}

static bool flags_are_true(const group *g, const group_tables *tables, verdict *v) {
    for (int64_t rank = 0; rank < g->size; rank++) {
        const cpr_run_list *lists[] = {&g->routes[rank]->send, &g->routes[rank]->recv};
        for (int side = CPR_SEND; side <= CPR_RECV; side++) {
            const int64_t count = lists[side]->rows;
            const bool identity = counts_up(tables->rows[side] + rank * count, count);
            if (lists[side]->identity != identity)
                return law_fail(v, "an identity flag is wrong",
                                "rank %" PRId64 " side %d: flag %d, rows say %d", rank, side,
                                lists[side]->identity, identity);
        }
    }
    return true;
}

void judge_identity(const route_case *c, const engine_under_test *engine, verdict *v) {
    group g;
    const cpr_route_request request = subject_request(c);
    if (!subject_listable(c, v) || !group_build(&g, engine, &request, v))
        return;
    scratch s = {0};
    group_tables tables;
    if (group_expand(&g, engine, &s, &tables, v))
        flags_are_true(&g, &tables, v);
    scratch_free(&s);
    group_free(&g);
}
