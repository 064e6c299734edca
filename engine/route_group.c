/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of all ranks: what is the same for all of them is found out once. */
#include "allocator.h"
#include "digest.h"
#include "error.h"
#include "interval.h"
#include "request.h"

/* Routes of the ranks in turn. False without memory; then some are missing from the end. */
static bool build_routes(const cpr_route_request *request, int64_t total_tokens, cpr_route_group *group) {
    const uint64_t digest = cpr_boundaries_digest(&request->cu_seqlens);
    for (int64_t rank = 0; rank < group->size; rank++) {
        group->routes[rank] = cpr_route_of_rank(request, rank, total_tokens, &group->allocator);
        if (group->routes[rank] == NULL) {
            group->size = rank;
            return false;
        }
        group->routes[rank]->boundaries_digest = digest;
    }
    return true;
}

static void free_routes(cpr_route_group *group, int64_t places) {
    for (int64_t rank = 0; rank < group->size; rank++) {
        cpr_route_free(group->routes[rank]);
    }
    const cpr_allocator allocator = group->allocator;
    cpr_release(&allocator, group->routes, places, sizeof(cpr_route *));
    cpr_release(&allocator, group, 1, sizeof *group);
}

/* NULL without memory. */
static cpr_route_group *build_group(const cpr_route_request *request, int64_t total_tokens,
                                    const cpr_allocator *allocator) {
    cpr_route_group *made = cpr_allocate(allocator, 1, sizeof *made);
    if (made == NULL) {
        return NULL;
    }
    const int64_t ranks = request->geometry.cp_size;
    *made = (cpr_route_group){.allocator = *allocator};
    made->routes = cpr_allocate(allocator, ranks, sizeof(cpr_route *));
    if (made->routes != NULL) {
        made->size = ranks;
        if (build_routes(request, total_tokens, made)) {
            return made;
        }
    }
    free_routes(made, ranks);
    return NULL;
}

cpr_status cpr_route_group_build(const cpr_route_request *request, const cpr_allocator *allocator,
                                 cpr_route_group **group, cpr_error *error) {
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    cpr_route_request of_any_rank = *request;
    of_any_rank.geometry.cp_rank = 0;
    int64_t total_tokens;
    if (cpr_request_validate(&of_any_rank, &total_tokens, outcome) != CPR_OK) {
        return outcome->status;
    }
    cpr_route_group *made = build_group(&of_any_rank, total_tokens, &chosen);
    if (made == NULL) {
        return cpr_fail_no_memory(outcome);
    }
    *group = made;
    return cpr_succeed(outcome);
}

void cpr_route_group_free(cpr_route_group *group) {
    if (group != NULL) {
        free_routes(group, group->size);
    }
}
