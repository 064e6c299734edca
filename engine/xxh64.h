/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XXH64 of 64-bit words, each taken as its 8 bytes from the lowest on, so that machines of any byte order agree.
 * Words are all that the library hashes, and of those the algorithm is short enough to have it here and build with nothing
 * but a compiler. Source: the xxHash specification, https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.
 */
#ifndef CPROUTE_XXH64_H
#define CPROUTE_XXH64_H

#include <stdint.h>

typedef struct cpr_xxh64 {
    uint64_t lanes[4];
    uint64_t stripe[4]; /* words that wait for the stripe to be full */
    uint64_t seed;
    uint64_t words;
} cpr_xxh64;

#define CPR_XXH64_PRIME_1 UINT64_C(0x9E3779B185EBCA87)
#define CPR_XXH64_PRIME_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define CPR_XXH64_PRIME_3 UINT64_C(0x165667B19E3779F9)
#define CPR_XXH64_PRIME_4 UINT64_C(0x85EBCA77C2B2AE63)
#define CPR_XXH64_PRIME_5 UINT64_C(0x27D4EB2F165667C5)

static inline uint64_t cpr_xxh64_rotated(uint64_t word, int bits) {
    return (word << bits) | (word >> (64 - bits));
}

static inline uint64_t cpr_xxh64_round(uint64_t lane, uint64_t word) {
    return cpr_xxh64_rotated(lane + word * CPR_XXH64_PRIME_2, 31) * CPR_XXH64_PRIME_1;
}

static inline cpr_xxh64 cpr_xxh64_begin(uint64_t seed) {
    return (cpr_xxh64){
        .lanes = {seed + CPR_XXH64_PRIME_1 + CPR_XXH64_PRIME_2, seed + CPR_XXH64_PRIME_2, seed,
                  seed - CPR_XXH64_PRIME_1},
        .seed = seed,
    };
}

/* Four words at once, where no others wait. */
static inline void cpr_xxh64_add_stripe(cpr_xxh64 *state, const uint64_t stripe[4]) {
    for (int i = 0; i < 4; i++) {
        state->lanes[i] = cpr_xxh64_round(state->lanes[i], stripe[i]);
    }
    state->words += 4;
}

static inline void cpr_xxh64_add(cpr_xxh64 *state, uint64_t word) {
    state->stripe[state->words % 4] = word;
    if (++state->words % 4 == 0) {
        state->words -= 4;
        cpr_xxh64_add_stripe(state, state->stripe);
    }
}

static inline uint64_t cpr_xxh64_end(const cpr_xxh64 *state) {
    static const int rotations[4] = {1, 7, 12, 18};
    uint64_t hash = 0;
    for (int i = 0; i < 4; i++) {
        hash += cpr_xxh64_rotated(state->lanes[i], rotations[i]);
    }
    for (int i = 0; i < 4; i++) {
        hash = (hash ^ cpr_xxh64_round(0, state->lanes[i])) * CPR_XXH64_PRIME_1 + CPR_XXH64_PRIME_4;
    }
    if (state->words < 4) {
        hash = state->seed + CPR_XXH64_PRIME_5;
    }
    hash += 8 * state->words;
    for (uint64_t i = 0; i < state->words % 4; i++) {
        hash ^= cpr_xxh64_round(0, state->stripe[i]);
        hash = cpr_xxh64_rotated(hash, 27) * CPR_XXH64_PRIME_1 + CPR_XXH64_PRIME_4;
    }
    hash = (hash ^ (hash >> 33)) * CPR_XXH64_PRIME_2;
    hash = (hash ^ (hash >> 29)) * CPR_XXH64_PRIME_3;
    return hash ^ (hash >> 32);
}

/* Of `count` numbers. */
static inline uint64_t cpr_xxh64_of(const int64_t *numbers, int64_t count, uint64_t seed) {
    cpr_xxh64 state = cpr_xxh64_begin(seed);
    for (int64_t i = 0; i < count; i++) {
        cpr_xxh64_add(&state, (uint64_t)numbers[i]);
    }
    return cpr_xxh64_end(&state);
}

#endif
