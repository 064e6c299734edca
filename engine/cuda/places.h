/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where rows belong, in closed form: no route is built. A local row of a rank finds its token, and a token its rank and row, by one
 * binary search in the offsets where a layout cuts sequences, and by arithmetic where it does not.
 *
 * A layout cuts stretches: the sequences one by one, or the stream as a single one. A *paired* layout gives each rank 1/P of a
 * stretch in one piece; a *mirrored* one gives it two chunks of 1/2P, number r and number 2P-1-r. Mirrored chunks lie together
 * in a rank's rows, or all first ones before all second ones. Every rank has 1/P of each stretch, so the rows before a stretch
 * that begins at token b are b/P, or b/2P in each half.
 *
 * Offsets are legal here; see offsets.h. Nothing is shared with the engine's builders: this is an answer of its own.
 */
#ifndef CPROUTE_PLACES_H
#define CPROUTE_PLACES_H

#include "offsets.h"

/* A pack as one rank has it in its source layout. */
typedef struct cpr_places {
    cpr_offsets offsets;
    int64_t total; /* tokens */
    int64_t ranks, rank;
    int source, target;
} cpr_places;

/* Rows that go on together: `row` and the `length` - 1 after it, at rank `peer`. */
typedef struct cpr_place_run {
    int64_t peer;
    int64_t row;
    int64_t length;
} cpr_place_run;

typedef struct cpr_stretch {
    int64_t begin, end; /* tokens */
} cpr_stretch;

typedef struct cpr_tokens {
    int64_t first, length;
} cpr_tokens;

CPR_ANYWHERE cpr_places cpr_places_of(const cpr_offsets *offsets, const cpr_conversion_facts *facts,
                                      int64_t rank) {
    cpr_places places;
    places.offsets = *offsets;
    places.total = cpr_offset_at(offsets, offsets->count - 1);
    places.ranks = facts->ranks;
    places.rank = rank;
    /* A lone rank has the whole stream in order, whatever the layouts. */
    places.source = facts->ranks == 1 ? CPR_CONTIGUOUS : facts->source;
    places.target = facts->ranks == 1 ? CPR_CONTIGUOUS : facts->target;
    return places;
}

CPR_ANYWHERE int64_t cpr_places_rows(const cpr_places *places) {
    return places->total / places->ranks;
}

CPR_ANYWHERE bool cpr_layout_is_paired(int layout) {
    return layout == CPR_CONTIGUOUS || layout == CPR_PER_SEQUENCE_CONTIGUOUS;
}

/* The stretch of a token. Empty sequences have none: the last boundary at or below the token begins one that is not empty. */
CPR_ANYWHERE cpr_stretch cpr_stretch_of(const cpr_places *places, int layout, int64_t token) {
    cpr_stretch stretch;
    stretch.begin = 0;
    stretch.end = places->total;
    if (cpr_layout_cuts_sequences(layout)) {
        int64_t low = 0;
        int64_t end = places->offsets.count - 1;
        while (end - low > 1) {
            const int64_t middle = low + (end - low) / 2;
            if (cpr_offset_at(&places->offsets, middle) <= token) {
                low = middle;
            } else {
                end = middle;
            }
        }
        stretch.begin = cpr_offset_at(&places->offsets, low);
        stretch.end = cpr_offset_at(&places->offsets, low + 1);
    }
    return stretch;
}

/* The tokens of a rank's rows from `row` on, as far as they go on. A row times the ranks that share its stretch is a token of it. */
CPR_ANYWHERE cpr_tokens cpr_tokens_at(const cpr_places *places, int layout, int64_t rank, int64_t row) {
    const int64_t ranks = places->ranks;
    cpr_tokens tokens;
    if (cpr_layout_is_paired(layout)) {
        const cpr_stretch stretch = cpr_stretch_of(places, layout, row * ranks);
        const int64_t share = (stretch.end - stretch.begin) / ranks;
        const int64_t in_share = row - stretch.begin / ranks;
        tokens.first = stretch.begin + rank * share + in_share;
        tokens.length = share - in_share;
        return tokens;
    }
    const bool apart = layout == CPR_HEADS_THEN_TAILS;
    const int64_t half_rows = places->total / (2 * ranks);
    const bool in_tails = apart && row >= half_rows;
    const int64_t in_half = in_tails ? row - half_rows : row;
    const int64_t sharers = apart ? 2 * ranks : ranks;
    const cpr_stretch stretch = cpr_stretch_of(places, layout, in_half * sharers);
    const int64_t chunk_length = (stretch.end - stretch.begin) / (2 * ranks);
    const int64_t in_stretch = in_half - stretch.begin / sharers;
    const bool mirrored = apart ? in_tails : in_stretch >= chunk_length;
    const int64_t in_chunk = mirrored && !apart ? in_stretch - chunk_length : in_stretch;
    const int64_t chunk = mirrored ? 2 * ranks - 1 - rank : rank;
    tokens.first = stretch.begin + chunk * chunk_length + in_chunk;
    tokens.length = chunk_length - in_chunk;
    return tokens;
}

/* Where `token` and those after it belong, as far as they go on. */
CPR_ANYWHERE cpr_place_run cpr_place_of(const cpr_places *places, int layout, int64_t token) {
    const int64_t ranks = places->ranks;
    const cpr_stretch stretch = cpr_stretch_of(places, layout, token);
    const int64_t in_stretch = token - stretch.begin;
    cpr_place_run place;
    if (cpr_layout_is_paired(layout)) {
        const int64_t share = (stretch.end - stretch.begin) / ranks;
        const int64_t in_share = in_stretch % share;
        place.peer = in_stretch / share;
        place.row = stretch.begin / ranks + in_share;
        place.length = share - in_share;
        return place;
    }
    const bool apart = layout == CPR_HEADS_THEN_TAILS;
    const int64_t chunk_length = (stretch.end - stretch.begin) / (2 * ranks);
    const int64_t chunk = in_stretch / chunk_length;
    const int64_t in_chunk = in_stretch % chunk_length;
    const bool mirrored = chunk >= ranks;
    const int64_t before = stretch.begin / (apart ? 2 * ranks : ranks);
    const int64_t to_mirrored = apart ? places->total / (2 * ranks) : chunk_length;
    place.peer = mirrored ? 2 * ranks - 1 - chunk : chunk;
    place.row = before + (mirrored ? to_mirrored : 0) + in_chunk;
    place.length = chunk_length - in_chunk;
    return place;
}

/* Where a rank's `row` of the source layout belongs in the target layout. */
CPR_ANYWHERE cpr_place_run cpr_places_run_at(const cpr_places *places, int64_t row) {
    const cpr_tokens tokens = cpr_tokens_at(places, places->source, places->rank, row);
    cpr_place_run run = cpr_place_of(places, places->target, tokens.first);
    if (tokens.length < run.length) {
        run.length = tokens.length;
    }
    return run;
}

#endif
