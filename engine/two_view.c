/* SPDX-License-Identifier: Apache-2.0 */
/* Routes between zigzag and contiguous as one object for both directions. */
#include "allocator.h"
#include "error.h"
#include "runs.h"

static cpr_status check_layouts(const cpr_route *route, cpr_error *error) {
    if (route->source != CPR_ZIGZAG && route->source != CPR_CONTIGUOUS) {
        return cpr_fail(error, CPR_BAD_LAYOUT, 0, (int)route->source, CPR_ZIGZAG);
    }
    const cpr_layout other = route->source == CPR_ZIGZAG ? CPR_CONTIGUOUS : CPR_ZIGZAG;
    return route->target == other ? CPR_OK
                                  : cpr_fail(error, CPR_BAD_LAYOUT, 1, (int)route->target, (int)other);
}

static bool expand_rows(const cpr_route *route, cpr_side side, const cpr_allocator *allocator,
                        int64_t **rows) {
    const cpr_run_list *list = cpr_route_side(route, side);
    if (list->identity) {
        return true;
    }
    *rows = cpr_allocate(allocator, list->rows, sizeof **rows);
    return *rows != NULL && cpr_route_rows(route, side, CPR_INT64, *rows, list->rows, NULL) == CPR_OK;
}

static bool expand_splits(const cpr_route *route, cpr_side side, const cpr_allocator *allocator,
                          int64_t **splits) {
    const int64_t ranks = route->geometry.cp_size;
    *splits = cpr_allocate(allocator, ranks, sizeof **splits);
    return *splits != NULL && cpr_route_splits(route, side, *splits, ranks, NULL) == CPR_OK;
}

cpr_status cpr_two_view_make(const cpr_route *route, const cpr_allocator *allocator, cpr_two_view **view,
                             cpr_error *error) {
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (check_layouts(route, outcome) != CPR_OK) {
        return outcome->status;
    }
    cpr_two_view *made = cpr_allocate(&chosen, 1, sizeof *made);
    if (made == NULL) {
        return cpr_fail_no_memory(outcome);
    }
    *made = (cpr_two_view){
        .geometry = route->geometry,
        .boundaries_digest = route->boundaries_digest,
        .rows = route->send.rows,
        .allocator = chosen,
    };
    const cpr_side zigzag = route->source == CPR_ZIGZAG ? CPR_SEND : CPR_RECV;
    const cpr_side contiguous = route->source == CPR_ZIGZAG ? CPR_RECV : CPR_SEND;
    if (!expand_rows(route, zigzag, &chosen, &made->zigzag_index) ||
        !expand_splits(route, zigzag, &chosen, &made->zigzag_split_sizes) ||
        !expand_rows(route, contiguous, &chosen, &made->contiguous_index) ||
        !expand_splits(route, contiguous, &chosen, &made->contiguous_split_sizes)) {
        cpr_two_view_free(made);
        return cpr_fail_no_memory(outcome);
    }
    *view = made;
    return cpr_succeed(outcome);
}

void cpr_two_view_free(cpr_two_view *view) {
    if (view == NULL) {
        return;
    }
    const cpr_allocator allocator = view->allocator;
    cpr_release(&allocator, view->zigzag_index, view->rows, sizeof *view->zigzag_index);
    cpr_release(&allocator, view->zigzag_split_sizes, view->geometry.cp_size,
                sizeof *view->zigzag_split_sizes);
    cpr_release(&allocator, view->contiguous_index, view->rows, sizeof *view->contiguous_index);
    cpr_release(&allocator, view->contiguous_split_sizes, view->geometry.cp_size,
                sizeof *view->contiguous_split_sizes);
    cpr_release(&allocator, view, 1, sizeof *view);
}
