/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a cached route depends on, as far as a guard trusts it. Under the version guard that is the tensors' states,
 * under the content guard the boundaries themselves.
 */
#ifndef CPROUTE_CACHE_KEY_H
#define CPROUTE_CACHE_KEY_H

#include "cproute/cproute.h"

/* The state of a tensor. Without padding, so that states compare as bytes. */
typedef struct cache_state {
    uint64_t handle, storage, generation;
    int64_t storage_offset, stride, count, device_index;
    int32_t device, dtype; /* dtype CACHE_ABSENT: no such tensor, all else is 0 */
} cache_state;

/* What is asked about the boundaries. Without padding too. */
typedef struct cache_question {
    int64_t cp_size, cp_rank, tp_size;
    int32_t source, target;
    int32_t guard;   /* version or content, never the default */
    int32_t verdict; /* 1: only whether the boundaries are legal, and agree */
} cache_question;

enum { CACHE_STATES_MAX = 4, CACHE_ABSENT = -1 };

typedef struct cache_key {
    cache_question question;
    cpr_cu_seqlens boundaries; /* content guard: the key; version guard: what is built from */
    int64_t state_count;       /* version guard: the tensors that are trusted; content guard: 0 */
    cache_state states[CACHE_STATES_MAX];
    uint64_t
        hash; /* version guard: of the first handle, so that all of a tensor is in one place; content guard: of
                      question and boundaries. */
} cache_key;

bool cache_readable(const cpr_cu_seqlens *boundaries);

/* The guard that a lookup of that tensor gets. */
cpr_guard cache_guard_of(const cpr_tensor *tensor, cpr_guard guard);

/* NULL: no such tensor. */
cache_state cache_state_of(const cpr_tensor *tensor);

/* The key of a lookup without its hash. */
void cache_key_of_lookup(const cpr_lookup *lookup, cache_key *key);

/* Sets the hash. False where the boundaries are the key, and cannot be read or do not start at 0; others that are illegal have a hash
 * and are never stored. */
bool cache_key_hash(cache_key *key);

/* Where the route that was last found for a tensor and a question is remembered. */
uint64_t cache_key_place(uint64_t handle, const cache_question *question);

/* The same answer is right for both. */
bool cache_key_equal(const cache_key *a, const cache_key *b);

/* As equal, but false where contents would have to be compared without their empty sequences. */
bool cache_key_same(const cache_key *a, const cache_key *b);

/* The same question about the same tensors under the version guard, in whatever state they are. */
bool cache_key_same_place(const cache_key *a, const cache_key *b);

/* Does the key trust the identity `handle`? */
bool cache_key_trusts(const cache_key *key, uint64_t handle);

/* The same entries one by one, whatever the strides. */
bool cache_boundaries_same(const cpr_cu_seqlens *a, const cpr_cu_seqlens *b);

/* Bytes of a dense copy of boundaries that were read. */
int64_t cache_boundaries_bytes(const cpr_cu_seqlens *boundaries);

/* Copies into `memory` and makes *boundaries a view of it. */
void cache_boundaries_copy(cpr_cu_seqlens *boundaries, void *memory);

/* The sequences of boundaries that start at 0, without empty ones: `end` is where the next one ends, at `entry`. */
typedef struct cache_sequences {
    const cpr_cu_seqlens *boundaries;
    int64_t entry, end;
} cache_sequences;

cache_sequences cache_sequences_of(const cpr_cu_seqlens *boundaries);
bool cache_sequences_next(cache_sequences *sequences);

#endif
