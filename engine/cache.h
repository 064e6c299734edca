/* SPDX-License-Identifier: Apache-2.0 */
/* How the public functions of the cache ask it for an entry. */
#ifndef CPROUTE_CACHE_H
#define CPROUTE_CACHE_H

#include "cache_key.h"

typedef struct cache_ask {
    cache_key key; /* without its hash */
    uint64_t handle;
    uint64_t place;
    bool bypass;                     /* what the guard trusts is not there: never look, never keep */
    cpr_route_request request;       /* that a miss is built from */
    const cpr_cu_seqlens *companion; /* for a verdict: boundaries that must agree; NULL for none */
    cpr_use use;
    const cpr_route *captured;
} cache_ask;

void cache_ask_of_lookup(const cpr_lookup *lookup, cache_ask *ask);

/* Finds or makes the entry. *route is NULL for verdicts and for one rank. */
cpr_status cache_obtain(cpr_cache *cache, const cache_ask *ask, const cpr_route **route, bool *hit,
                        cpr_error *error);

/* Is `kv` legal as `q`, which is, and are its sequences the same? */
cpr_status cache_boundaries_agree(const cpr_route_request *q, const cpr_cu_seqlens *kv, cpr_error *error);

#endif
