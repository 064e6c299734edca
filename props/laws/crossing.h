/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has which token before and after an exchange, and the messages that follow from it: by peer, and in a message in the
 * order of the stream. For shapes whose ranks need not hold equally much, and may hold padding.
 */
#ifndef CPROUTE_PROPS_CROSSING_H
#define CPROUTE_PROPS_CROSSING_H

#include "oracle.h"
#include "scratch.h"

typedef struct crossing {
    int64_t ranks, tokens;
    oracle_place *places[2]; /* of every token: [CPR_SEND] before, [CPR_RECV] after */
} crossing;

/* False without memory. */
bool crossing_make(crossing *x, int64_t ranks, int64_t tokens, scratch *s);

/* On that side, a rank's rows are these tokens; -1 is padding. */
void crossing_put(crossing *x, cpr_side side, int64_t rank, const int64_t *tokens, int64_t count);

/* Split sizes of a rank, `ranks` of them, and its local rows by peer. Returns how many rows. */
int64_t crossing_list(const crossing *x, cpr_side side, int64_t rank, int64_t *splits, int64_t *rows);

#endif
