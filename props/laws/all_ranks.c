/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "laws.h"
#include "ledger.h"
#include "subject.h"
#include <inttypes.h>

static bool same_as_alone(const engine_under_test *engine, const cpr_route_request *request,
                          const cpr_route *route, verdict *v) {
    cpr_route *alone;
    if (!engine_builds(engine, request, &alone, v))
        return false;
    const bool same = same_route(route, "built with all ranks", alone, "built alone",
                                 "a route depends on who else gets one", v);
    cpr_route_free(alone);
    return same;
}

static bool judge_group(const engine_under_test *engine, const cpr_route_request *request,
                        const cpr_route_group *group, verdict *v) {
    if (group->size != request->geometry.cp_size)
        return law_fail(v, "a group has not a route for every rank", "%" PRId64 " routes, %" PRId64 " ranks",
                        group->size, request->geometry.cp_size);
    for (int64_t rank = 0; rank < group->size; rank++) {
        const cpr_route_request mine = request_of_rank(request, rank);
        if (!same_as_alone(engine, &mine, group->routes[rank], v))
            return false;
    }
    return true;
}

/* A rank that there is not is no reason to refuse: nobody's rank is asked for. */
static bool refused_likewise(const route_case *c, const engine_under_test *engine,
                             const cpr_route_request *request, verdict *v) {
    ledger books = {0};
    const cpr_allocator allocator = ledger_allocator(&books);
    cpr_route_group untouched = {0}, *all = &untouched;
    cpr_error error;
    const cpr_status status = engine->build_group(request, &allocator, &all, &error);
    if (status == CPR_OK)
        cpr_route_group_free(all);
    else if (all != &untouched)
        law_fail(v, "an output is touched on failure", "build_group");
    return ledger_settled(&books, "build_group", v) &&
           (c->expected.status == CPR_BAD_RANK || as_expected(c, status, &error, "build_group", v));
}

void judge_all_ranks(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (c->geometry.cp_size > GROUP_MAX) {
        law_skip(v, "too many ranks to build");
        return;
    }
    boundaries b = boundaries_make(c);
    if (c->expected.status != CPR_OK) {
        refused_likewise(c, engine, &b.request, v);
    } else {
        cpr_route_group *group = NULL;
        cpr_error error;
        const cpr_status status = engine->build_group(&b.request, NULL, &group, &error);
        if (call_ok(status, &error, "build_group", v))
            judge_group(engine, &b.request, group, v);
        cpr_route_group_free(group);
    }
    boundaries_free(&b);
}
