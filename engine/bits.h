/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the numbers 0 .. count-1 were there already, a bit each. */
#ifndef CPROUTE_BITS_H
#define CPROUTE_BITS_H

#include "cproute/cproute.h"

typedef struct cpr_bits {
    uint64_t *words;
    int64_t word_count;
    const cpr_allocator *allocator;
} cpr_bits;

/* For count > 0. False without memory. */
bool cpr_bits_begin(cpr_bits *bits, int64_t count, const cpr_allocator *allocator);
void cpr_bits_end(cpr_bits *bits);

/* Adds a number; false if it was there. */
static inline bool cpr_bits_add(cpr_bits *bits, int64_t number) {
    const uint64_t bit = UINT64_C(1) << (number % 64);
    const bool added = (bits->words[number / 64] & bit) == 0;
    bits->words[number / 64] |= bit;
    return added;
}

#endif
