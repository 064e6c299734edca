/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast path: a route as the intersection of two layouts.
 *
 * One side of a route is found by walking the pieces that this rank holds in its own layout, in ascending order of
 * tokens. Where a token lies in the other layout (rank, row, and how far its chunk reaches) is known in closed form
 * (layout.h), so each step is a run: the rest of our piece or the rest of their chunk, whichever ends first.
 *
 *     ours     |-------- piece --------|         |---- ...
 *     theirs  ---- chunk ----|---- chunk ----|---- chunk ----
 *     runs     |-------------|---------|         |---- ...
 *
 * Sending, ours is the source; receiving, ours is the target. Both layouts ascend in tokens, but for tails that come
 * after all heads; so the runs of a peer are found in the order of their target rows, those among the tails
 * apart, and a stable sort by peer and half puts the list in order (listing.h). Between zigzag and contiguous there is nothing
 * to sort (zigzag_contiguous.c).
 *
 * Time is O(entries + runs), whatever the number of tokens and ranks.
 */
#include "interval.h"
#include "allocator.h"
#include "builders.h"
#include "error.h"
#include "layout.h"
#include "listing.h"
#include "request.h"
#include "same_frames.h"
#include "zigzag_contiguous.h"

/* Both layouts, as this rank sees them on one side of the route. */
typedef struct crossed_layouts {
    const cpr_cu_seqlens *cu_seqlens;
    cpr_side side;
    int64_t rank;
    cpr_cutting ours, theirs;
} crossed_layouts;

static inline cpr_run run_between(const crossed_layouts *crossing, const cpr_piece *ours,
                                  const cpr_piece *theirs) {
    const int64_t end = ours->end < theirs->end ? ours->end : theirs->end;
    const int64_t their_row = theirs->row + (ours->begin - theirs->begin);
    const bool send = crossing->side == CPR_SEND;
    return (cpr_run){
        .peer = theirs->rank,
        .source_row = send ? ours->row : their_row,
        .target_row = send ? their_row : ours->row,
        .length = end - ours->begin,
    };
}

static inline void find_runs_of_piece(const crossed_layouts *crossing, cpr_piece ours, cpr_chunks *theirs,
                                      cpr_listing *listing, cpr_take_run *take) {
    while (ours.begin < ours.end) {
        cpr_chunks_seek(theirs, ours.begin);
        const cpr_run run = run_between(crossing, &ours, &theirs->chunk);
        cpr_listing_add(listing, run, take);
        ours.begin += run.length;
        ours.row += run.length;
    }
}

static inline void find_runs(const void *subject, cpr_listing *outer, cpr_take_run *take) {
    const crossed_layouts crossing = *(const crossed_layouts *)subject;
    cpr_listing listing = *outer; /* in registers */
    cpr_frames frames = cpr_frames_of(&crossing.ours, crossing.cu_seqlens);
    cpr_chunks theirs = cpr_chunks_of(&crossing.theirs, crossing.cu_seqlens);
    while (cpr_frames_next(&frames)) {
        for (int64_t half = 0; half < crossing.ours.halves; half++) {
            const int64_t chunk = cpr_chunk_of_half(&crossing.ours, crossing.rank, half);
            const cpr_piece ours = cpr_frame_chunk(&crossing.ours, &frames.frame, chunk);
            find_runs_of_piece(&crossing, ours, &theirs, &listing, take);
        }
    }
    *outer = listing;
}

static bool intersect(const crossed_layouts *crossing, const cpr_allocator *allocator, cpr_run_list *list) {
    const cpr_cutting *target = crossing->side == CPR_SEND ? &crossing->theirs : &crossing->ours;
    const cpr_run_order order = {
        .side = crossing->side,
        .peers = crossing->ours.ranks,
        .tails_row = target->tails_apart ? target->total_tokens / target->chunks : INT64_MAX,
        .local_rows_ascend = !crossing->ours.tails_apart,
    };
    return cpr_list_runs_in_line(find_runs, crossing, &order, allocator, list);
}

static bool list_crossing(const crossed_layouts *send, cpr_route *route) {
    const crossed_layouts recv = {send->cu_seqlens, CPR_RECV, send->rank, send->theirs, send->ours};
    return intersect(send, &route->allocator, &route->send) &&
           intersect(&recv, &route->allocator, &route->recv);
}

static bool list_same_frames(const crossed_layouts *send, cpr_route *route) {
    const cpr_same_frames sent = {send->cu_seqlens, CPR_SEND, send->rank, send->ours, send->theirs};
    const cpr_same_frames received = {send->cu_seqlens, CPR_RECV, send->rank, send->theirs, send->ours};
    return cpr_list_of_same_frames(&sent, &route->allocator, &route->send) &&
           cpr_list_of_same_frames(&received, &route->allocator, &route->recv);
}

static bool list_zigzag_contiguous(const crossed_layouts *send, cpr_route *route) {
    const bool zigzag_sends = cpr_is_cut_in_zigzag(&send->ours);
    const cpr_zigzag_contiguous pair = {
        .cu_seqlens = send->cu_seqlens,
        .ranks = send->ours.ranks,
        .rank = send->rank,
        .rows = route->total_tokens / send->ours.ranks,
        .by_chunks = zigzag_sends ? send->ours.by_chunks : send->theirs.by_chunks,
        .zigzag_sends = zigzag_sends,
    };
    cpr_run_list *zigzag = zigzag_sends ? &route->send : &route->recv;
    cpr_run_list *contiguous = zigzag_sends ? &route->recv : &route->send;
    return cpr_list_of_zigzag_rank(&pair, &route->allocator, zigzag) &&
           cpr_list_of_contiguous_rank(&pair, &route->allocator, contiguous);
}

static bool list_sides(const cpr_route_request *request, cpr_route *route) {
    const cpr_geometry geometry = route->geometry;
    const cpr_cutting source = cpr_cutting_of(route->source, geometry.cp_size, route->total_tokens);
    const cpr_cutting target = cpr_cutting_of(route->target, geometry.cp_size, route->total_tokens);
    const crossed_layouts send = {&request->cu_seqlens, CPR_SEND, geometry.cp_rank, source, target};
    if (source.by_sequence == target.by_sequence) {
        return list_same_frames(&send, route);
    }
    const bool zigzag = cpr_is_cut_in_zigzag(&source) || cpr_is_cut_in_zigzag(&target);
    const bool windows = cpr_is_cut_in_windows(&source) || cpr_is_cut_in_windows(&target);
    return zigzag && windows ? list_zigzag_contiguous(&send, route) : list_crossing(&send, route);
}

cpr_route *cpr_route_of_rank(const cpr_route_request *request, int64_t rank, int64_t total_tokens,
                             const cpr_allocator *allocator) {
    cpr_route *made = cpr_allocate(allocator, 1, sizeof *made);
    if (made == NULL) {
        return NULL;
    }
    *made = (cpr_route){
        .source = request->source,
        .target = request->target,
        .geometry = {.cp_size = request->geometry.cp_size, .cp_rank = rank},
        .total_tokens = total_tokens,
        .allocator = *allocator,
    };
    if (!list_sides(request, made)) {
        cpr_route_free(made);
        return NULL;
    }
    return made;
}

cpr_status cpr_build_by_intervals(const cpr_route_request *request, const cpr_allocator *allocator,
                                  cpr_route **route, cpr_error *error) {
    int64_t total_tokens;
    if (cpr_request_validate(request, &total_tokens, error) != CPR_OK) {
        return error->status;
    }
    cpr_route *made = cpr_route_of_rank(request, request->geometry.cp_rank, total_tokens, allocator);
    if (made == NULL) {
        return cpr_fail_no_memory(error);
    }
    *route = made;
    return CPR_OK;
}
