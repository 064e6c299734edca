/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One case for a law about the layer that consumes routes: its sizes, and micro-batches, each with a group size, a mode and
 * boundaries of its own. The layer and the group live through all of them.
 */
#ifndef CPROUTE_PROPS_DELTA_CASE_H
#define CPROUTE_PROPS_DELTA_CASE_H

#include "choice.h"
#include "consumer/delta.h"
#include <stdio.h>

enum {
    DELTA_BATCHES = 3,
    DELTA_ENTRIES = 17, /* of one micro-batch's cu_seqlens */
    DELTA_TOKENS = 48,  /* of one drawn micro-batch */
};

typedef struct delta_pack {
    delta_mode mode;
    int64_t cp_size;
    int64_t entries;
    int64_t cu[DELTA_ENTRIES];
} delta_pack;

typedef struct delta_case {
    delta_shape shape;
    uint64_t salt; /* what all numbers are drawn from */
    int64_t batches;
    delta_pack batch[DELTA_BATCHES];
} delta_case;

/* Total: every stream of choices makes a case, a legal one: P to 8, or in headwise the largest one below that divides the heads. */
void delta_case_draw(choices *choices, delta_case *c);

/* The bytes that draw it. False where there are none: text cases may be larger, or wrong. */
bool delta_case_encode(const delta_case *c, uint8_t *bytes, size_t capacity, size_t *length);

/* What a call must answer, from the rules and their order, and from nothing that the code under test says. */
delta_error delta_expected(const delta_shape *shape, const delta_pack *pack);

/* As calls take it. */
delta_batch delta_batch_of(const delta_pack *pack);

void delta_case_show(FILE *out, const delta_case *c);
void delta_case_write_text(FILE *out, const delta_case *c, const char *law, const char *note);

#endif
