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
 * apart, and a stable sort by peer and half puts the list in order.
 *
 * Time is O(entries + runs), memory O(runs), whatever the number of tokens and ranks.
 */
#include "allocator.h"
#include "builders.h"
#include "error.h"
#include "found_runs.h"
#include "layout.h"
#include "request.h"

/* Both layouts, as this rank sees them on one side of the route. */
typedef struct crossed_layouts {
    const cpr_cu_seqlens *cu_seqlens;
    cpr_side side;
    int64_t rank;
    cpr_cutting ours, theirs;
} crossed_layouts;

static cpr_run run_between(cpr_side side, const cpr_piece *ours, const cpr_piece *theirs) {
    const int64_t end = ours->end < theirs->end ? ours->end : theirs->end;
    return (cpr_run){
        .peer = theirs->rank,
        .source_row = side == CPR_SEND ? ours->row : theirs->row,
        .target_row = side == CPR_SEND ? theirs->row : ours->row,
        .length = end - ours->begin,
    };
}

static bool find_runs_of_piece(const crossed_layouts *crossing, cpr_piece piece, cpr_frames *their_frames,
                               cpr_found_runs *found) {
    while (piece.begin < piece.end) {
        cpr_frames_seek(their_frames, piece.begin);
        const cpr_piece theirs = cpr_frame_locate(&crossing->theirs, &their_frames->frame, piece.begin);
        const cpr_run run = run_between(crossing->side, &piece, &theirs);
        if (!cpr_found_runs_add(found, &run)) {
            return false;
        }
        piece.begin += run.length;
        piece.row += run.length;
    }
    return true;
}

static bool find_runs(const crossed_layouts *crossing, cpr_found_runs *found) {
    cpr_frames their_frames = cpr_frames_of(&crossing->theirs, crossing->cu_seqlens);
    cpr_frames our_frames = cpr_frames_of(&crossing->ours, crossing->cu_seqlens);
    while (cpr_frames_next(&our_frames)) {
        for (int64_t half = 0; half < crossing->ours.halves; half++) {
            const int64_t chunk = cpr_chunk_of_half(&crossing->ours, crossing->rank, half);
            const cpr_piece piece = cpr_frame_chunk(&crossing->ours, &our_frames.frame, chunk);
            if (!find_runs_of_piece(crossing, piece, &their_frames, found)) {
                return false;
            }
        }
    }
    return true;
}

static bool intersect(const crossed_layouts *crossing, const cpr_allocator *allocator, cpr_run_list *list) {
    const cpr_cutting *target = crossing->side == CPR_SEND ? &crossing->theirs : &crossing->ours;
    const int64_t tails_row = target->tails_apart ? target->total_tokens / target->chunks : INT64_MAX;
    cpr_found_runs found;
    cpr_found_runs_begin(&found, allocator);
    const bool made =
        find_runs(crossing, &found) && cpr_found_runs_list(&found, crossing->side, tails_row, list);
    cpr_found_runs_end(&found);
    return made;
}

cpr_status cpr_build_by_intervals(const cpr_route_request *request, const cpr_allocator *allocator,
                                  cpr_route **route, cpr_error *error) {
    int64_t total_tokens;
    if (cpr_request_validate(request, &total_tokens, error) != CPR_OK) {
        return error->status;
    }
    cpr_route *made = cpr_allocate(allocator, 1, sizeof *made);
    if (made == NULL) {
        return cpr_fail_no_memory(error);
    }
    *made = (cpr_route){
        .source = request->source,
        .target = request->target,
        .geometry = request->geometry,
        .total_tokens = total_tokens,
        .allocator = *allocator,
    };
    const cpr_geometry geometry = request->geometry;
    const cpr_cutting source = cpr_cutting_of(request->source, geometry.cp_size, total_tokens);
    const cpr_cutting target = cpr_cutting_of(request->target, geometry.cp_size, total_tokens);
    const crossed_layouts send = {&request->cu_seqlens, CPR_SEND, geometry.cp_rank, source, target};
    const crossed_layouts recv = {&request->cu_seqlens, CPR_RECV, geometry.cp_rank, target, source};
    if (!intersect(&send, allocator, &made->send) || !intersect(&recv, allocator, &made->recv)) {
        cpr_route_free(made);
        return cpr_fail_no_memory(error);
    }
    *route = made;
    return CPR_OK;
}
