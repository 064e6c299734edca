/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The route of a window: the runs of the CP rank, cut where windows end.
 *
 *     own rows    |--- window ---|--- ours ----|--- window ---|
 *     a run                 |------------------------|
 *     at the peer        |--------- window --------|--- window -------|
 *     ours of it                 |------------|
 *
 * Layouts that ascend list a message in the order of the stream, of the source rows and of the target rows alike, so
 * cutting keeps the order, and only messages are to be put in the order of group ranks.
 */
#include "allocator.h"
#include "builders.h"
#include "digest.h"
#include "error.h"
#include "listing.h"
#include "request.h"
#include "runs.h"
#include "tensor_ranks.h"

/* Whose window, and how long windows are. */
typedef struct window {
    const cpr_tensor_ranks *tp;
    int64_t begin, rows;
    cpr_side side;
} window;

static int64_t peer_row(const cpr_run *run, cpr_side side) {
    return side == CPR_SEND ? run->target_row : run->source_row;
}

static void find_runs_of_run(const window *own, const cpr_run *run, cpr_listing *listing,
                             cpr_take_run *take) {
    const int64_t first = cpr_run_local_row(run, own->side);
    const int64_t end = first + run->length;
    const int64_t own_end = own->begin + own->rows;
    int64_t row = first > own->begin ? first : own->begin;
    const int64_t last = end < own_end ? end : own_end;
    while (row < last) {
        const int64_t theirs = peer_row(run, own->side) + (row - first);
        const int64_t their_window = theirs / own->rows;
        const int64_t left = own->rows - theirs % own->rows;
        const int64_t length = left < last - row ? left : last - row;
        const int64_t mine = row - own->begin;
        const cpr_run cut = {
            .peer = cpr_group_rank(own->tp, run->peer, their_window),
            .source_row = own->side == CPR_SEND ? mine : theirs % own->rows,
            .target_row = own->side == CPR_SEND ? theirs % own->rows : mine,
            .length = length,
        };
        cpr_listing_add(listing, cut, take);
        row += length;
    }
}

/* What is cut, and by whose window. */
typedef struct cut_subject {
    const window *own;
    const cpr_run_list *whole;
} cut_subject;

static void find_runs(const void *subject, cpr_listing *listing, cpr_take_run *take) {
    const cut_subject *cut = subject;
    for (int64_t i = 0; i < cut->whole->count; i++) {
        find_runs_of_run(cut->own, &cut->whole->runs[i], listing, take);
    }
}

static bool cut_list(const window *own, int64_t group_size, const cpr_run_list *whole,
                     const cpr_allocator *allocator, cpr_run_list *list) {
    const cut_subject subject = {own, whole};
    const cpr_run_order order = {.side = own->side, .peers = group_size, .tails_row = INT64_MAX};
    return cpr_list_runs(find_runs, &subject, &order, allocator, list);
}

static cpr_status check_ascending(cpr_layout source, cpr_layout target, cpr_error *error) {
    const cpr_layout layouts[] = {source, target};
    for (int64_t i = 0; i < 2; i++) {
        if (layouts[i] == CPR_HEADS_THEN_TAILS) {
            return cpr_fail(error, CPR_BAD_LAYOUT, i, (int)layouts[i], CPR_LAYOUT_COUNT);
        }
    }
    return CPR_OK;
}

static cpr_status check_request(const cpr_route_request *request, const cpr_tensor_ranks *tp,
                                const cpr_allocator *allocator, cpr_error *error) {
    int64_t total_tokens;
    if (cpr_tensor_ranks_check(tp, request->geometry, error) != CPR_OK ||
        cpr_layouts_validate(request->source, request->target, error) != CPR_OK ||
        check_ascending(request->source, request->target, error) != CPR_OK ||
        cpr_request_validate(request, &total_tokens, error) != CPR_OK ||
        cpr_group_order_check(tp, request->geometry.cp_size, allocator, error) != CPR_OK) {
        return error->status;
    }
    return CPR_OK;
}

/* Cuts a route of the CP rank. NULL without memory. */
static cpr_route *cut_route(const cpr_route *whole, const cpr_tensor_ranks *tp,
                            const cpr_allocator *allocator) {
    cpr_route *made = cpr_allocate(allocator, 1, sizeof *made);
    if (made == NULL) {
        return NULL;
    }
    *made = (cpr_route){
        .source = whole->source,
        .target = whole->target,
        .geometry = cpr_group_geometry(tp, whole->geometry),
        .total_tokens = whole->total_tokens,
        .allocator = *allocator,
    };
    const int64_t rows = whole->send.rows / cpr_tp_size(tp);
    const window send = {tp, tp->tp_rank * rows, rows, CPR_SEND};
    const window recv = {tp, tp->tp_rank * rows, rows, CPR_RECV};
    const int64_t ranks = made->geometry.cp_size;
    if (!cut_list(&send, ranks, &whole->send, allocator, &made->send) ||
        !cut_list(&recv, ranks, &whole->recv, allocator, &made->recv)) {
        cpr_route_free(made);
        return NULL;
    }
    return made;
}

cpr_status cpr_route_build_fused(const cpr_route_request *request, const cpr_tensor_ranks *tp,
                                 const cpr_allocator *allocator, cpr_route **route, cpr_error *error) {
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    cpr_route_request of_cp_rank = *request;
    of_cp_rank.tp_size = cpr_tp_size(tp);
    cpr_route *whole;
    if (check_request(&of_cp_rank, tp, &chosen, outcome) != CPR_OK ||
        cpr_build_by_intervals(&of_cp_rank, &chosen, &whole, outcome) != CPR_OK) {
        return outcome->status;
    }
    cpr_route *made = cut_route(whole, tp, &chosen);
    cpr_route_free(whole);
    if (made == NULL) {
        return cpr_fail_no_memory(outcome);
    }
    made->boundaries_digest =
        cpr_grouped_digest(cpr_boundaries_digest(&request->cu_seqlens), request->geometry.cp_size, tp);
    *route = made;
    return cpr_succeed(outcome);
}
