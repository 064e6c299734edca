/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

typedef struct listing {
    int64_t *tokens;
    int64_t count;
} listing;

static void list_span(listing *out, int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; token++)
        out->tokens[out->count++] = token;
}

/* Chunk number k of [begin, end) cut in 2P. */
static void list_chunk(listing *out, int64_t cp_size, int64_t begin, int64_t end, int64_t k) {
    const int64_t chunk = (end - begin) / (2 * cp_size);
    list_span(out, begin + k * chunk, begin + (k + 1) * chunk);
}

oracle_pack oracle_pack_of(const route_case *c) {
    return (oracle_pack){c->cu, c->entries, c->geometry.cp_size};
}

int64_t oracle_total(const oracle_pack *pack) {
    return pack->cu[pack->entries - 1];
}

int64_t oracle_rows(const oracle_pack *pack) {
    return oracle_total(pack) / pack->cp_size;
}

void oracle_tokens(const oracle_pack *pack, cpr_layout layout, int64_t rank, int64_t *tokens) {
    const int64_t *cu = pack->cu;
    const int64_t sequences = pack->entries - 1, cp = pack->cp_size, total = oracle_total(pack);
    const int64_t mirrored = 2 * cp - 1 - rank;
    listing out = {tokens, 0};

    if (cp == 1) {
        list_span(&out, 0, total);
        return;
    }
    switch (layout) {
    case CPR_ZIGZAG:
        for (int64_t s = 0; s < sequences; s++) {
            list_chunk(&out, cp, cu[s], cu[s + 1], rank);
            list_chunk(&out, cp, cu[s], cu[s + 1], mirrored);
        }
        break;
    case CPR_CONTIGUOUS:
        list_span(&out, rank * (total / cp), (rank + 1) * (total / cp));
        break;
    case CPR_PER_SEQUENCE_CONTIGUOUS:
        for (int64_t s = 0; s < sequences; s++) {
            list_chunk(&out, cp, cu[s], cu[s + 1], 2 * rank);
            list_chunk(&out, cp, cu[s], cu[s + 1], 2 * rank + 1);
        }
        break;
    case CPR_FLAT_ZIGZAG:
        list_chunk(&out, cp, 0, total, rank);
        list_chunk(&out, cp, 0, total, mirrored);
        break;
    case CPR_HEADS_THEN_TAILS:
        for (int64_t s = 0; s < sequences; s++)
            list_chunk(&out, cp, cu[s], cu[s + 1], rank);
        for (int64_t s = 0; s < sequences; s++)
            list_chunk(&out, cp, cu[s], cu[s + 1], mirrored);
        break;
    case CPR_LAYOUT_COUNT:
        break;
    }
}

/* The stretch of the stream that a layout cuts in 2P chunks. */
typedef struct stretch {
    int64_t begin;
    int64_t chunk;
} stretch;

/* The last sequence that begins at or before divisor * position: with divisor 1 the one that holds a token,
 * with P or 2P the one that holds a row of a rank that has 1/P or 1/2P of every sequence. Later equal
 * boundaries are empty sequences before it. */
static stretch stretch_at(const oracle_pack *pack, cpr_layout layout, int64_t position, int64_t divisor) {
    const int64_t chunks = 2 * pack->cp_size;
    if (layout == CPR_FLAT_ZIGZAG)
        return (stretch){0, oracle_total(pack) / chunks};
    int64_t s = 0;
    while (pack->cu[s + 1] / divisor <= position)
        s++;
    return (stretch){pack->cu[s], (pack->cu[s + 1] - pack->cu[s]) / chunks};
}

oracle_place oracle_place_of(const oracle_pack *pack, cpr_layout layout, int64_t token) {
    const int64_t cp = pack->cp_size, rows = oracle_rows(pack);
    if (cp == 1)
        return (oracle_place){0, token};
    if (layout == CPR_CONTIGUOUS)
        return (oracle_place){token / rows, token % rows};

    const stretch at = stretch_at(pack, layout, token, 1);
    const int64_t k = (token - at.begin) / at.chunk, offset = (token - at.begin) % at.chunk;
    if (layout == CPR_PER_SEQUENCE_CONTIGUOUS)
        return (oracle_place){k / 2, at.begin / cp + (k % 2) * at.chunk + offset};

    const bool tail = k >= cp;
    const int64_t rank = tail ? 2 * cp - 1 - k : k;
    if (layout == CPR_HEADS_THEN_TAILS)
        return (oracle_place){rank, (tail ? rows / 2 : 0) + at.begin / (2 * cp) + offset};
    return (oracle_place){rank, at.begin / cp + (tail ? at.chunk : 0) + offset};
}

int64_t oracle_token_at(const oracle_pack *pack, cpr_layout layout, oracle_place place) {
    const int64_t cp = pack->cp_size, rows = oracle_rows(pack);
    if (cp == 1)
        return place.row;
    if (layout == CPR_CONTIGUOUS)
        return place.rank * rows + place.row;

    if (layout == CPR_HEADS_THEN_TAILS) {
        const bool tail = place.row >= rows / 2;
        const int64_t row = place.row - (tail ? rows / 2 : 0);
        const stretch at = stretch_at(pack, layout, row, 2 * cp);
        const int64_t k = tail ? 2 * cp - 1 - place.rank : place.rank;
        return at.begin + k * at.chunk + (row - at.begin / (2 * cp));
    }
    const stretch at = stretch_at(pack, layout, place.row, cp);
    const int64_t in_stretch = place.row - at.begin / cp;
    const bool second = in_stretch >= at.chunk;
    const int64_t offset = in_stretch - (second ? at.chunk : 0);
    const int64_t k = layout == CPR_PER_SEQUENCE_CONTIGUOUS ? 2 * place.rank + second
                      : second                              ? 2 * cp - 1 - place.rank
                                                            : place.rank;
    return at.begin + k * at.chunk + offset;
}

bool oracle_ascends(cpr_layout layout, int64_t cp_size) {
    return layout != CPR_HEADS_THEN_TAILS || cp_size == 1;
}
