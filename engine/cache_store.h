/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of a cache: found by key in O(1), bounded, the least recently used ones evicted, captured ones kept.
 * It knows nothing of threads and builds nothing. What leaves it is put on a list, `gone`, for the caller to bury
 * once no lock is held.
 */
#ifndef CPROUTE_CACHE_STORE_H
#define CPROUTE_CACHE_STORE_H

#include "cache_key.h"

enum { CACHE_PLACES = 256 };

typedef struct cache_link {
    struct cache_link *before, *after;
} cache_link;

typedef struct cache_entry {
    cache_link link; /* in `recent`, or in `kept` while captured; first, so that a link is its entry */
    struct cache_entry *next; /* in the bucket, or on a list of those that are gone */
    cache_key key;            /* contents that are the key lie behind the entry, in its block */
    const cpr_route *route;   /* shared; NULL for a verdict */
    int64_t rows;             /* of the packed buffer */
    int64_t block_bytes;
    int64_t bytes; /* block and route */
    int64_t captures;
    bool superseded; /* captured, but its tensor was seen in another state since: never found again */
} cache_entry;

/* A tensor whose route is used in a graph. */
typedef struct cache_capture {
    struct cache_capture *next;
    cache_entry *entry;
    uint64_t handle;
} cache_capture;

typedef struct cache_buckets {
    cache_entry **heads;
    int64_t count; /* a power of two */
} cache_buckets;

typedef struct cache_store {
    cpr_allocator allocator;
    int64_t max_entries, max_bytes;
    cache_buckets buckets;
    cache_entry *places[CACHE_PLACES]; /* the entry last found for a tensor and a question */
    cache_link recent, kept;           /* rings; the most recently used comes after the head */
    cache_capture *captures;
    int64_t entries, bytes;
    int64_t kept_entries, kept_bytes; /* of them, captured */
    int64_t verdicts;                 /* of them, trusting several tensors */
    uint64_t evictions;
} cache_store;

/* Enough for that many entries. No heads without memory. */
cache_buckets cache_buckets_new(int64_t max_entries, const cpr_allocator *allocator);
void cache_buckets_free(cache_buckets buckets, const cpr_allocator *allocator);

/* False without memory. */
bool cache_store_open(cache_store *store, int64_t max_entries, int64_t max_bytes,
                      const cpr_allocator *allocator);

/* It must be empty. */
void cache_store_close(cache_store *store);

/* A new entry with that key, its contents copied; not stored yet. NULL without memory. */
cache_entry *cache_entry_new(const cache_key *key, const cpr_allocator *allocator);

/* Frees entry and route, not its captures. NULL is allowed. */
void cache_entry_free(cache_entry *entry, const cpr_allocator *allocator);

/* What was last found in a place if it still is right, seen without hashing. NULL if not. */
cache_entry *cache_store_remembered(const cache_store *store, uint64_t place, const cache_key *key);

/* NULL if there is none. */
cache_entry *cache_store_find(const cache_store *store, const cache_key *key);

/* It was found: it is the most recently used one, and remembered in that place. */
void cache_store_touch(cache_store *store, cache_entry *entry, uint64_t place);

/* Is there room once all is evicted that can be? */
bool cache_store_fits(const cache_store *store, const cache_entry *entry);

/* Replaces what the tensor's earlier states left, also in the place where it is remembered, and evicts. It must fit. */
void cache_store_insert(cache_store *store, cache_entry *entry, uint64_t place, cache_entry **gone);

/* Keeps the entry for a graph that uses the route of that tensor. Takes over `capture` and returns NULL, or gives it back
 * where the tensor was known already. */
cache_capture *cache_store_keep(cache_store *store, cache_entry *entry, uint64_t handle,
                                cache_capture *capture);

void cache_store_release(cache_store *store, uint64_t handle, cache_entry **gone);

/* Entries that trust an identity. */
void cache_store_distrust(cache_store *store, uint64_t handle, cache_entry **gone);

/* Takes over *spare if it has more buckets, and gives back those that it had. */
void cache_store_limit(cache_store *store, int64_t max_entries, int64_t max_bytes, cache_buckets *spare,
                       cache_entry **gone);

void cache_store_clear(cache_store *store, cache_entry **gone);

#endif
