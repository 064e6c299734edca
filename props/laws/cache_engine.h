/* SPDX-License-Identifier: Apache-2.0 */
/* What laws about the cache call: the public functions behind pointers, so that a test can put a wrong one in the place of any. */
#ifndef CPROUTE_PROPS_CACHE_ENGINE_H
#define CPROUTE_PROPS_CACHE_ENGINE_H

#include "cproute/cproute.h"

typedef struct cache_engine {
    cpr_status (*get)(cpr_cache *cache, const cpr_lookup *lookup, const cpr_route **route, bool *hit,
                      cpr_error *error);
    cpr_status (*prebuild)(cpr_cache *cache, const cpr_lookup *lookup, cpr_error *error);
    cpr_status (*resolve)(cpr_cache *cache, const cpr_packed_params *params, int64_t rows, int64_t cp_size,
                          cpr_layout layout, cpr_guard guard, cpr_tensor *resolved, bool *hit,
                          cpr_error *error);
    void (*invalidate)(cpr_cache *cache, uint64_t handle);
    void (*tensor_freed)(cpr_cache *cache, uint64_t handle);
    void (*capture_released)(cpr_cache *cache, uint64_t handle);
    void (*clear)(cpr_cache *cache);
    cpr_status (*set_limits)(cpr_cache *cache, int64_t max_entries, int64_t max_bytes, cpr_error *error);
} cache_engine;

/* The library itself. */
extern const cache_engine the_cache_engine;

#endif
