/* SPDX-License-Identifier: Apache-2.0 */
#include "crossing.h"
#include <string.h>

bool crossing_make(crossing *x, int64_t ranks, int64_t tokens, scratch *s) {
    *x = (crossing){.ranks = ranks, .tokens = tokens};
    for (int side = CPR_SEND; side <= CPR_RECV; side++) {
        x->places[side] = scratch_bytes(s, (size_t)tokens * sizeof *x->places[side]);
        if (!x->places[side])
            return false;
    }
    return true;
}

void crossing_put(crossing *x, cpr_side side, int64_t rank, const int64_t *tokens, int64_t count) {
    for (int64_t row = 0; row < count; row++)
        if (tokens[row] >= 0)
            x->places[side][tokens[row]] = (oracle_place){rank, row};
}

int64_t crossing_list(const crossing *x, cpr_side side, int64_t rank, int64_t *splits, int64_t *rows) {
    const oracle_place *own = x->places[side], *other = x->places[side == CPR_SEND ? CPR_RECV : CPR_SEND];
    int64_t count = 0;
    memset(splits, 0, (size_t)x->ranks * sizeof *splits);
    for (int64_t token = 0; token < x->tokens; token++)
        if (own[token].rank == rank)
            splits[other[token].rank]++;
    for (int64_t peer = 0; peer < x->ranks; peer++)
        for (int64_t token = 0; token < x->tokens && splits[peer] > 0; token++)
            if (own[token].rank == rank && other[token].rank == peer)
                rows[count++] = own[token].row;
    return count;
}
