/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensors that a cache script works on, as a framework has them: objects with identities, memory with addresses that are used
 * again, version counters that views share. The world knows the true contents at every time; caches see what a
 * framework could tell them.
 */
#ifndef CPROUTE_PROPS_CACHE_WORLD_H
#define CPROUTE_PROPS_CACHE_WORLD_H

#include "kit/cache_case.h"

/* Tensors that live at once: one per name, and one that is being replaced. */
enum { WORLD_TENSORS = CACHE_NAMES_MAX + 1 };

typedef struct world_storage {
    int64_t users; /* tensors; 0: free */
    uint64_t address;
    uint64_t untracked; /* writes that no version counted */
    int64_t count;
    int64_t values[CACHE_ENTRIES_MAX];
} world_storage;

typedef struct world_counter {
    int64_t users;
    uint64_t version;
    uint64_t set; /* how often it was forced */
} world_counter;

typedef struct world_tensor {
    int64_t users; /* names; 0: free */
    uint64_t identity;
    int storage, counter; /* indices */
    int64_t offset, stride, count;
    cpr_dtype dtype;
    cpr_device device;
    int64_t device_index;
    bool inference;
} world_tensor;

/* What a name held before it was freed. */
typedef struct world_ghost {
    uint64_t identity, address;
} world_ghost;

typedef struct world {
    world_tensor tensors[WORLD_TENSORS];
    world_storage storages[WORLD_TENSORS];
    world_counter counters[WORLD_TENSORS];
    int named[CACHE_NAMES_MAX];            /* the tensor of a name, -1: none */
    uint64_t params[CACHE_NAMES_MAX];      /* the parameters object of a name */
    uint64_t params_from[CACHE_NAMES_MAX]; /* the one that it is a clone of; 0: none */
    world_ghost ghosts[CACHE_NAMES_MAX];
    uint64_t last_identity, last_address, last_params;
    /* Told when a tensor dies; may be NULL. */
    void (*freed)(void *context, uint64_t identity);
    /* Is an identity kept from being used again? May be NULL. */
    bool (*held)(void *context, uint64_t identity);
    void *context;
} world;

/* Identities begin after `first_identity`, so that worlds can share a cache. */
void world_begin(world *w, uint64_t first_identity);

/* Carries out what happens to tensors. Operations on the cache, or on what is not there, do nothing. */
void world_step(world *w, const cache_op *op);

/* Frees what is left. */
void world_end(world *w);

/* NULL if the name has none. */
const world_tensor *world_named(const world *w, uint8_t name);

/* True entries of a tensor, as many as `count`. */
void world_entries(const world *w, const world_tensor *t, int64_t entries[CACHE_ENTRIES_MAX]);

uint64_t world_version(const world *w, const world_tensor *t);
uint64_t world_untracked(const world *w, const world_tensor *t);
uint64_t world_address(const world *w, const world_tensor *t); /* of its first entry */

/* The tensor as the cache gets it, over memory of exactly the bytes that may be read; those of a device are a dense copy. A blind one
 * cannot be read. False without memory. */
typedef struct world_view {
    void *block;
    cpr_tensor tensor;
} world_view;
bool world_view_make(const world *w, const world_tensor *t, bool blind, world_view *view);
void world_view_free(world_view *view);

#endif
