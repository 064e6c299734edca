/* SPDX-License-Identifier: Apache-2.0 */
#include "group.h"
#include "compare.h"
#include "subject.h"
#include <inttypes.h>
#include <stdlib.h>

static bool build_one(group *g, const engine_under_test *engine, const cpr_route_request *request,
                      int64_t rank, verdict *v) {
    const cpr_route_request mine = request_of_rank(request, rank);
    if (!engine_builds(engine, &mine, &g->routes[rank], v))
        return false;
    const cpr_route *route = g->routes[rank];
    const int64_t rows = route->total_tokens / g->size;
    /* What is sized by these fields below would be overrun by a route that gets them wrong. */
    return (route->geometry.cp_size == g->size && route->send.rows == rows && route->recv.rows == rows) ||
           law_fail(v, "a rank has not T/P rows",
                    "rank %" PRId64 " of %" PRId64 ", tokens %" PRId64 ": sends %" PRId64
                    ", receives %" PRId64,
                    rank, g->size, route->total_tokens, route->send.rows, route->recv.rows);
}

bool group_build(group *g, const engine_under_test *engine, const cpr_route_request *request, verdict *v) {
    g->size = request->geometry.cp_size;
    g->routes = calloc((size_t)g->size, sizeof(cpr_route *));
    if (!g->routes)
        return subject_no_memory(v);
    for (int64_t rank = 0; rank < g->size; rank++)
        if (!build_one(g, engine, request, rank, v)) {
            group_free(g);
            return false;
        }
    return true;
}

void group_free(group *g) {
    for (int64_t rank = 0; rank < g->size; rank++)
        cpr_route_free(g->routes[rank]);
    free(g->routes);
    *g = (group){0};
}

const cpr_route *const *group_routes(const group *g) {
    return (const cpr_route *const *)g->routes;
}

bool group_expand(const group *g, const engine_under_test *engine, scratch *s, group_tables *tables,
                  verdict *v) {
    const int64_t rows = g->routes[0]->send.rows;
    for (int side = CPR_SEND; side <= CPR_RECV; side++) {
        tables->splits[side] = scratch_int64(s, g->size * g->size);
        tables->rows[side] = scratch_int64(s, g->size * rows);
        if (!tables->splits[side] || !tables->rows[side])
            return subject_no_memory(v);
    }
    for (int64_t rank = 0; rank < g->size; rank++)
        for (int side = CPR_SEND; side <= CPR_RECV; side++) {
            cpr_error error;
            cpr_status status = engine->splits(g->routes[rank], (cpr_side)side,
                                               tables->splits[side] + rank * g->size, g->size, &error);
            if (!call_ok(status, &error, "splits", v))
                return false;
            status = engine->rows(g->routes[rank], (cpr_side)side, CPR_INT64,
                                  tables->rows[side] + rank * rows, rows, &error);
            if (!call_ok(status, &error, "rows", v))
                return false;
        }
    return true;
}
