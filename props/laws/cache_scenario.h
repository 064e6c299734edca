/* SPDX-License-Identifier: Apache-2.0 */
/* A training step as it uses the cache: micro-batches, each resolved and routed by every layer, in both directions, forward, in
 * recompute and backward. */
#ifndef CPROUTE_PROPS_CACHE_SCENARIO_H
#define CPROUTE_PROPS_CACHE_SCENARIO_H

#include "cproute/cproute.h"

enum { SCENARIO_BATCHES = 10, SCENARIO_LAYERS = 24, SCENARIO_PASSES = 3, SCENARIO_SEQUENCES_MAX = 4096 };

typedef struct scenario {
    cpr_guard guard;
    int64_t sequences; /* of each micro-batch */
    int64_t cp_size;
    uint64_t step; /* its tensors are new ones */
} scenario;

/* The first failure, or CPR_OK. */
cpr_status scenario_run(cpr_cache *cache, const scenario *s);

/* Lookups of one step, for routes and for verdicts each. */
enum { SCENARIO_LOOKUPS = SCENARIO_BATCHES * SCENARIO_LAYERS * SCENARIO_PASSES * 2 };

#endif
