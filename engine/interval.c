/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast path: a route as the intersection of two layouts.
 *
 * Layouts cut either the sequences or the whole stream (layout.h). Two that cut the same repeat one frame's runs in every frame
 * (same_frames.c). Zigzag and contiguous, the pair that is in use, is written without a search (zigzag_contiguous.c). What is left
 * is here: one side of the route has chunks of all sequences, the other one the stream in one or two long chunks.
 *
 *     chunks of the stream      |------------ a ------------|------------ b ----
 *     chunks of the sequences   |-- 0 --|-- 1 --|-0-|-1-|--- 0 ---|--- 1 ---|
 *     runs                      |-------|-------|---|---|---|-----|---------|
 *
 * Each side walks what its rank holds, in ascending order of tokens, and asks for their chunks in closed form: who has it, and
 * its row. A run ends where our chunk or theirs does, whichever ends first. Both layouts ascend in tokens, but for tails
 * that come after all heads; so the runs of a peer are found in the order of their target rows, those among the tails apart,
 * and a stable sort by peer and half puts the list in order (listing.h).
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

static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Adds the run of our tokens up to `end`, which lie in a chunk of theirs, and leaves what is beyond. */
CPR_IN_LINE void find_run(bool send, cpr_piece *ours, const cpr_piece *theirs, int64_t end,
                          cpr_listing *listing, cpr_take_run *take) {
    const int64_t their_row = theirs->row + (ours->begin - theirs->begin);
    const cpr_run run = {
        .peer = theirs->rank,
        .source_row = send ? ours->row : their_row,
        .target_row = send ? their_row : ours->row,
        .length = end - ours->begin,
    };
    cpr_listing_add(listing, run, take);
    ours->begin = end;
    ours->row += run.length;
}

/* The chunk of the stream that we are at. */
typedef struct stream_chunk {
    const cpr_cutting *cutting;
    cpr_frame stream;
    cpr_piece chunk;
} stream_chunk;

static inline stream_chunk first_of_stream(const cpr_cutting *cutting) {
    const cpr_frame stream = cpr_frame_cut(cutting, 0, cutting->total_tokens);
    return (stream_chunk){cutting, stream, cpr_frame_chunk(cutting, &stream, 0)};
}

/* Adds the runs of a piece of ours. Pieces ascend; most end in the chunk of theirs that the one before them ended in. */
CPR_IN_LINE void find_runs_of_piece(bool send, cpr_piece ours, stream_chunk *theirs, cpr_listing *listing,
                                    cpr_take_run *take) {
    while (ours.end > theirs->chunk.end) {
        if (ours.begin < theirs->chunk.end) {
            find_run(send, &ours, &theirs->chunk, theirs->chunk.end, listing, take);
        }
        theirs->chunk = cpr_frame_locate(theirs->cutting, &theirs->stream, ours.begin);
    }
    find_run(send, &ours, &theirs->chunk, ours.end, listing, take);
}

/* Where we hold chunks of the sequences, and they the stream: mostly, the next run is in the same chunk of theirs. */
CPR_IN_LINE void find_in_stream(const void *subject, cpr_listing *outer, cpr_take_run *take) {
    const crossed_layouts *crossing = subject;
    const cpr_cutting cutting = crossing->ours;
    const int64_t head = cpr_chunk_of_half(&cutting, crossing->rank, 0);
    const int64_t tail = cpr_chunk_of_half(&cutting, crossing->rank, 1);
    const bool send = crossing->side == CPR_SEND;
    cpr_listing listing = *outer; /* in registers */
    stream_chunk theirs = first_of_stream(&crossing->theirs);
    cpr_frames sequences = cpr_frames_of(&cutting, crossing->cu_seqlens);
    while (cpr_frames_next(&sequences)) {
        const cpr_frame sequence = sequences.frame;
        find_runs_of_piece(send, cpr_frame_chunk(&cutting, &sequence, head), &theirs, &listing, take);
        if (cutting.halves == 2) {
            find_runs_of_piece(send, cpr_frame_chunk(&cutting, &sequence, tail), &theirs, &listing, take);
        }
    }
    *outer = listing;
}

/* Where we hold the stream, and they chunks of the sequences: the next run is in the next chunk of theirs. */
CPR_IN_LINE void find_in_sequences(const void *subject, cpr_listing *outer, cpr_take_run *take) {
    const crossed_layouts *crossing = subject;
    const cpr_cutting *cutting = &crossing->theirs;
    const bool send = crossing->side == CPR_SEND;
    const cpr_frame stream = cpr_frame_cut(&crossing->ours, 0, cutting->total_tokens);
    cpr_listing listing = *outer; /* in registers */
    cpr_frames sequences = cpr_frames_of(cutting, crossing->cu_seqlens);
    for (int64_t half = 0; half < crossing->ours.halves; half++) {
        const int64_t own = cpr_chunk_of_half(&crossing->ours, crossing->rank, half);
        cpr_piece ours = cpr_frame_chunk(&crossing->ours, &stream, own);
        while (ours.begin < ours.end) {
            if (ours.begin >= sequences.frame.end) {
                cpr_frames_seek(&sequences, ours.begin);
            }
            const cpr_frame sequence = sequences.frame;
            const int64_t end = least(ours.end, sequence.end);
            int64_t chunk = (ours.begin - sequence.begin) / sequence.chunk_length;
            while (ours.begin < end) {
                const cpr_piece theirs = cpr_frame_chunk(cutting, &sequence, chunk++);
                find_run(send, &ours, &theirs, least(theirs.end, end), &listing, take);
            }
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
    return crossing->ours.by_sequence
               ? cpr_list_runs_in_line(find_in_stream, crossing, &order, allocator, list)
               : cpr_list_runs_in_line(find_in_sequences, crossing, &order, allocator, list);
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
