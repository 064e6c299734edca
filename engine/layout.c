/* SPDX-License-Identifier: Apache-2.0 */
/* What the layouts are, and the intervals of one rank. */
#include "layout.h"

#include "allocator.h"
#include "cu_seqlens.h"
#include "error.h"
#include "names.h"
#include "request.h"

static const char *const LAYOUT_NAMES[CPR_LAYOUT_COUNT] = {
    [CPR_ZIGZAG] = "zigzag",
    [CPR_CONTIGUOUS] = "contiguous",
    [CPR_PER_SEQUENCE_CONTIGUOUS] = "per_sequence_contiguous",
    [CPR_FLAT_ZIGZAG] = "flat_zigzag",
    [CPR_HEADS_THEN_TAILS] = "heads_then_tails",
};

typedef struct layout_traits {
    bool by_sequence, tails, tails_apart;
} layout_traits;

static const layout_traits TRAITS[CPR_LAYOUT_COUNT] = {
    [CPR_ZIGZAG] = {.by_sequence = true, .tails = true},
    [CPR_CONTIGUOUS] = {.by_sequence = false},
    [CPR_PER_SEQUENCE_CONTIGUOUS] = {.by_sequence = true},
    [CPR_FLAT_ZIGZAG] = {.by_sequence = false, .tails = true},
    [CPR_HEADS_THEN_TAILS] = {.by_sequence = true, .tails = true, .tails_apart = true},
};

const char *cpr_layout_name(cpr_layout layout) {
    return cpr_name_of(LAYOUT_NAMES, CPR_LAYOUT_COUNT, layout);
}

bool cpr_layout_from_name(const char *name, cpr_layout *layout) {
    const int found = cpr_named(LAYOUT_NAMES, CPR_LAYOUT_COUNT, name);
    if (found < 0) {
        return false;
    }
    *layout = (cpr_layout)found;
    return true;
}

cpr_cutting cpr_cutting_of(cpr_layout layout, int64_t ranks, int64_t total_tokens) {
    /* A lone rank holds the whole stream in order, so nothing is cut, whatever the layout. */
    const layout_traits traits = TRAITS[ranks == 1 ? CPR_CONTIGUOUS : layout];
    const int64_t halves = traits.tails ? 2 : 1;
    const cpr_exact_divisor by_ranks = cpr_exact_divisor_of(ranks);
    const cpr_exact_divisor by_chunks = traits.tails ? cpr_exact_divisor_doubled(by_ranks) : by_ranks;
    return (cpr_cutting){
        .total_tokens = total_tokens,
        .ranks = ranks,
        .halves = halves,
        .chunks = ranks * halves,
        .by_sequence = traits.by_sequence,
        .tails_apart = traits.tails_apart,
        .tails_row = traits.tails_apart ? total_tokens / (ranks * halves) : 0,
        .by_ranks = by_ranks,
        .by_chunks = by_chunks,
        .by_heads = traits.tails_apart ? by_chunks : by_ranks,
    };
}

cpr_length_rules cpr_length_rules_of(cpr_layout layout) {
    return (cpr_length_rules){
        .every_sequence_by_2p = TRAITS[layout].by_sequence,
        .total_by_2p = TRAITS[layout].tails,
    };
}

/* Intervals in local order; only counted while `items` is NULL. */
typedef struct interval_writer {
    cpr_interval *items;
    int64_t count;
    int64_t end; /* of the last one */
} interval_writer;

static void append_interval(interval_writer *writer, const cpr_piece *piece) {
    if (writer->count == 0 || piece->begin != writer->end) {
        writer->count++;
        if (writer->items != NULL) {
            writer->items[writer->count - 1].begin = piece->begin;
        }
    }
    writer->end = piece->end;
    if (writer->items != NULL) {
        writer->items[writer->count - 1].end = piece->end;
    }
}

typedef struct rank_share {
    const cpr_cutting *cutting;
    const cpr_cu_seqlens *cu_seqlens;
    int64_t rank;
} rank_share;

/* The halves [first_half, end_half) of every frame in turn. */
static void append_halves(interval_writer *writer, const rank_share *share, int64_t first_half,
                          int64_t end_half) {
    cpr_frames frames = cpr_frames_of(share->cutting, share->cu_seqlens);
    while (cpr_frames_next(&frames)) {
        for (int64_t half = first_half; half < end_half; half++) {
            const int64_t chunk = cpr_chunk_of_half(share->cutting, share->rank, half);
            const cpr_piece piece = cpr_frame_chunk(share->cutting, &frames.frame, chunk);
            append_interval(writer, &piece);
        }
    }
}

/* Returns how many there are. */
static int64_t write_intervals(const rank_share *share, cpr_interval *items) {
    interval_writer writer = {.items = items};
    const int64_t halves_together = share->cutting->tails_apart ? 1 : share->cutting->halves;
    for (int64_t half = 0; half < share->cutting->halves; half += halves_together) {
        append_halves(&writer, share, half, half + halves_together);
    }
    return writer.count;
}

static cpr_intervals *allocate_intervals(const cpr_allocator *allocator, int64_t count) {
    cpr_intervals *intervals = cpr_allocate(allocator, 1, sizeof *intervals);
    if (intervals == NULL) {
        return NULL;
    }
    *intervals = (cpr_intervals){.allocator = *allocator};
    if (count > 0) {
        intervals->items = cpr_allocate(allocator, count, sizeof *intervals->items);
        if (intervals->items == NULL) {
            cpr_intervals_free(intervals);
            return NULL;
        }
    }
    intervals->count = count;
    return intervals;
}

cpr_status cpr_layout_intervals(const cpr_cu_seqlens *cu_seqlens, int64_t rows, cpr_geometry geometry,
                                cpr_layout layout, const cpr_allocator *allocator, cpr_intervals **intervals,
                                cpr_error *error) {
    const cpr_route_request request = {
        .cu_seqlens = *cu_seqlens, .rows = rows, .geometry = geometry, .source = layout, .target = layout};
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    int64_t total_tokens;
    if (cpr_request_validate(&request, &total_tokens, outcome) != CPR_OK) {
        return outcome->status;
    }
    const cpr_cutting cutting = cpr_cutting_of(layout, geometry.cp_size, total_tokens);
    const rank_share share = {.cutting = &cutting, .cu_seqlens = cu_seqlens, .rank = geometry.cp_rank};
    cpr_intervals *made = allocate_intervals(&chosen, write_intervals(&share, NULL));
    if (made == NULL) {
        return cpr_fail_no_memory(outcome);
    }
    write_intervals(&share, made->items);
    made->rows = total_tokens / geometry.cp_size;
    *intervals = made;
    return cpr_succeed(outcome);
}

void cpr_intervals_free(cpr_intervals *intervals) {
    if (intervals == NULL) {
        return;
    }
    const cpr_allocator allocator = intervals->allocator;
    cpr_release(&allocator, intervals->items, intervals->count, sizeof *intervals->items);
    cpr_release(&allocator, intervals, 1, sizeof *intervals);
}
