/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks through a cache script with a real cache and the strict model side by side, and compares them at every step. A law
 * says what it watches; what others watch is theirs to judge.
 */
#ifndef CPROUTE_PROPS_CACHE_WALK_H
#define CPROUTE_PROPS_CACHE_WALK_H

#include "cache_engine.h"
#include "cache_model.h"
#include "kit/law.h"
#include "ledger.h"

typedef enum cache_watch {
    WATCH_ANSWERS = 1,  /* routes and errors are right for the true contents */
    WATCH_HITS = 2,     /* what can be reused is, and counted so */
    WATCH_BOUNDS = 4,   /* entries, memory and held identities */
    WATCH_CAPTURES = 8, /* captures and replays */
    WATCH_VERDICTS = 16,
    WATCH_WANTS = 32, /* what a text case wants of a step */
    WATCH_ALL = 63,
    WATCH_NO_MEMORY = 64 /* every step is tried with each of its allocations failing first */
} cache_watch;

typedef struct cache_observation {
    int64_t step;
    const cache_op *op;
    bool skipped; /* on what is not there */
    cpr_error error;
    bool hit;
    bool stale;             /* of other contents, as the version guard may be */
    const cpr_route *route; /* NULL: none, or none was asked for */
    cpr_cache_stats stats;  /* after it */
} cache_observation;

typedef struct cache_walk_options {
    const cache_engine *engine;
    unsigned watch;
    /* A cache that others use too, and where identities begin. Then there is no model: only what is wrong whatever others do
     * is judged, and operations on the cache as a whole do nothing. */
    cpr_cache *shared;
    uint64_t first_identity;
    /* Told after every step; may be NULL. */
    void (*observe)(void *context, const cache_observation *seen);
    void *context;
} cache_walk_options;

/* Judges the whole script. */
void cache_walk(const cache_case *c, const cache_walk_options *options, verdict *v);

/* The question that a script's operation asks of that tensor. */
cpr_lookup cache_lookup_of(const cache_op *op, const cpr_tensor *tensor, cpr_guard guard);

#endif
