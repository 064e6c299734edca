/* SPDX-License-Identifier: Apache-2.0 */
/* Routes as objects: the fronts of the builders, freeing and comparing. */
#include "allocator.h"
#include "builders.h"
#include "digest.h"
#include "error.h"
#include "runs.h"

static cpr_status build(cpr_builder *builder, const cpr_route_request *request,
                        const cpr_allocator *allocator, cpr_route **route, cpr_error *error) {
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    cpr_route *made;
    if (builder(request, &chosen, &made, outcome) != CPR_OK) {
        return outcome->status;
    }
    made->boundaries_digest = cpr_boundaries_digest(&request->cu_seqlens);
    *route = made;
    return cpr_succeed(outcome);
}

cpr_status cpr_route_build(const cpr_route_request *request, const cpr_allocator *allocator,
                           cpr_route **route, cpr_error *error) {
    return build(cpr_build_by_intervals, request, allocator, route, error);
}

cpr_status cpr_route_build_definition(const cpr_route_request *request, const cpr_allocator *allocator,
                                      cpr_route **route, cpr_error *error) {
    return build(cpr_build_by_definition, request, allocator, route, error);
}

cpr_status cpr_route_build_per_token(const cpr_route_request *request, const cpr_allocator *allocator,
                                     cpr_route **route, cpr_error *error) {
    return build(cpr_build_per_token, request, allocator, route, error);
}

void cpr_route_free(cpr_route *route) {
    if (route == NULL) {
        return;
    }
    const cpr_allocator allocator = route->allocator;
    cpr_release(&allocator, route->send.runs, route->send.count, sizeof *route->send.runs);
    cpr_release(&allocator, route->recv.runs, route->recv.count, sizeof *route->recv.runs);
    cpr_release(&allocator, route, 1, sizeof *route);
}

static bool lists_equal(const cpr_run_list *a, const cpr_run_list *b) {
    if (a->count != b->count || a->rows != b->rows || a->identity != b->identity) {
        return false;
    }
    for (int64_t i = 0; i < a->count; i++) {
        if (!cpr_run_equal(&a->runs[i], &b->runs[i])) {
            return false;
        }
    }
    return true;
}

bool cpr_route_equal(const cpr_route *a, const cpr_route *b) {
    return a->source == b->source && a->target == b->target && a->geometry.cp_size == b->geometry.cp_size &&
           a->geometry.cp_rank == b->geometry.cp_rank && a->total_tokens == b->total_tokens &&
           a->boundaries_digest == b->boundaries_digest && lists_equal(&a->send, &b->send) &&
           lists_equal(&a->recv, &b->recv);
}
