/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sequence in 2P chunks, in closed form. A *place* is a chunk as some rank holds it; where zigzag and contiguous put
 * chunk c of the sequence:
 *
 *     zigzag      rank c, first          or, from P on, rank 2P-1-c, second
 *     contiguous  rank c/2, first if c is even, else second
 *
 * Under an even TP size a chunk is cut in tp_size/2 segments, and TP rank t of a CP rank has segment t mod tp_size/2 of its
 * first or second chunk.
 */
#include "allocator.h"
#include "error.h"
#include "layout.h"
#include "request.h"
#include "tensor_ranks.h"

typedef struct chunk_place {
    int64_t cp_rank;
    int64_t half; /* 0 first, 1 second */
} chunk_place;

static bool is_mirrored(cpr_layout layout) {
    return cpr_length_rules_of(layout).total_by_2p;
}

static chunk_place place_of(cpr_layout layout, int64_t cp_size, int64_t chunk) {
    if (!is_mirrored(layout)) {
        return (chunk_place){chunk / 2, chunk % 2};
    }
    const bool second = chunk >= cp_size;
    return (chunk_place){second ? 2 * cp_size - 1 - chunk : chunk, second};
}

static int64_t chunk_at(cpr_layout layout, int64_t cp_size, chunk_place place) {
    if (!is_mirrored(layout)) {
        return 2 * place.cp_rank + place.half;
    }
    return place.half == 0 ? place.cp_rank : 2 * cp_size - 1 - place.cp_rank;
}

/* Which place of the other layout holds what a place of this one holds. */
static chunk_place crossed(cpr_layout from, cpr_layout to, int64_t cp_size, chunk_place place) {
    return place_of(to, cp_size, chunk_at(from, cp_size, place));
}

/* By peer. Both layouts number the chunks of a rank as the sequence does, so two for one peer are in the target's order. */
static void put_in_order(cpr_chunk_move moves[2]) {
    if (moves[0].peer > moves[1].peer) {
        const cpr_chunk_move first = moves[0];
        moves[0] = moves[1];
        moves[1] = first;
    }
}

/* Both chunks of a CP rank without TP. */
static void plan_chunks(const cpr_tensor_ranks *tp, cpr_geometry geometry, cpr_layout ours, cpr_layout theirs,
                        cpr_chunk_move moves[2]) {
    for (int64_t half = 0; half < 2; half++) {
        const chunk_place own = {geometry.cp_rank, half};
        const chunk_place other = crossed(ours, theirs, geometry.cp_size, own);
        moves[half] = (cpr_chunk_move){cpr_group_rank(tp, other.cp_rank, 0), half};
    }
    put_in_order(moves);
}

/* The one segment of a TP rank. */
static cpr_chunk_move plan_segment(const cpr_tensor_ranks *tp, cpr_geometry geometry, cpr_layout ours,
                                   cpr_layout theirs) {
    const int64_t segments = cpr_tp_size(tp) / 2; /* of a chunk */
    const chunk_place own = {geometry.cp_rank, tp->tp_rank / segments};
    const chunk_place other = crossed(ours, theirs, geometry.cp_size, own);
    const int64_t tp_rank = other.half * segments + tp->tp_rank % segments;
    return (cpr_chunk_move){cpr_group_rank(tp, other.cp_rank, tp_rank), 0};
}

static cpr_status check_rows(int64_t rows, cpr_geometry geometry, const cpr_tensor_ranks *tp,
                             cpr_layout source, cpr_layout target, cpr_error *error) {
    const int64_t boundaries[] = {0, rows};
    const cpr_route_request request = {
        .cu_seqlens = cpr_cu_seqlens_int64(boundaries, 2),
        .rows = CPR_ROWS_UNCHECKED,
        .geometry = geometry,
        .source = source,
        .target = target,
        .tp_size = cpr_tp_size(tp),
    };
    int64_t total_tokens;
    return cpr_request_validate(&request, &total_tokens, error);
}

/* Chunks are 2P of the sequence, also where both layouts are contiguous. */
static cpr_status check_chunks(int64_t rows, cpr_geometry geometry, const cpr_tensor_ranks *tp,
                               cpr_error *error) {
    const int64_t tp_size = cpr_tp_size(tp);
    if (tp_size > 1 && tp_size % 2 != 0) {
        return cpr_fail(error, CPR_NOT_DIVISIBLE_CP_TP, -1, tp_size, 2);
    }
    const int64_t chunks = 2 * geometry.cp_size;
    if (tp_size == 1 && geometry.cp_size > 1 && rows % chunks != 0) {
        return cpr_fail(error, CPR_NOT_DIVISIBLE_2CP, 0, rows, chunks);
    }
    return CPR_OK;
}

cpr_status cpr_chunk_plan_make(int64_t rows, cpr_geometry geometry, const cpr_tensor_ranks *tp,
                               cpr_layout source, cpr_layout target, const cpr_allocator *allocator,
                               cpr_chunk_plan *plan, cpr_error *error) {
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (cpr_tensor_ranks_check(tp, geometry, outcome) != CPR_OK ||
        check_rows(rows, geometry, tp, source, target, outcome) != CPR_OK ||
        check_chunks(rows, geometry, tp, outcome) != CPR_OK ||
        cpr_group_order_check(tp, geometry.cp_size, &chosen, outcome) != CPR_OK) {
        return outcome->status;
    }
    cpr_chunk_plan made = {.geometry = cpr_group_geometry(tp, geometry)};
    made.chunks = cpr_tp_size(tp) == 1 && geometry.cp_size > 1 ? 2 : 1;
    made.chunk_rows = rows / made.geometry.cp_size / made.chunks;
    if (made.geometry.cp_size == 1) {
        /* A lone rank keeps the sequence. */
    } else if (made.chunks == 2) {
        plan_chunks(tp, geometry, source, target, made.send);
        plan_chunks(tp, geometry, target, source, made.recv);
    } else {
        made.send[0] = plan_segment(tp, geometry, source, target);
        made.recv[0] = plan_segment(tp, geometry, target, source);
    }
    *plan = made;
    return cpr_succeed(outcome);
}
