/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_scenario.h"

typedef struct batch {
    int32_t entries[SCENARIO_SEQUENCES_MAX + 1];
    cpr_packed_params params;
    int64_t rows;
} batch;

static cpr_tensor tensor_of(const batch *b, const scenario *s, uint64_t identity) {
    return (cpr_tensor){
        .handle = identity,
        .storage = identity,
        .stride = 1,
        .device_index = -1,
        .has_generation = true,
        .view = cpr_cu_seqlens_int32(b->entries, s->sequences + 1),
    };
}

/* No two batches of a step are the same. */
static void make_batch(batch *b, const scenario *s, uint64_t number) {
    const uint64_t identity = 2 * (s->step * SCENARIO_BATCHES + number) + 1;
    b->entries[0] = 0;
    for (int64_t i = 0; i < s->sequences; i++) {
        const int64_t chunk = 1 + (i == 0 ? (int64_t)number : i % 7);
        b->entries[i + 1] = b->entries[i] + (int32_t)(2 * s->cp_size * chunk);
    }
    b->rows = b->entries[s->sequences];
    b->params = (cpr_packed_params){
        .q_padded = tensor_of(b, s, identity),
        .kv_padded = tensor_of(b, s, identity + 1),
        .has_q_padded = true,
        .has_kv_padded = true,
    };
}

static cpr_lookup lookup_of(const batch *b, const scenario *s, const cpr_tensor *tensor, bool back) {
    return (cpr_lookup){
        .tensor = *tensor,
        .rows = b->rows,
        .geometry = {.cp_size = s->cp_size, .cp_rank = 1},
        .source = back ? CPR_CONTIGUOUS : CPR_ZIGZAG,
        .target = back ? CPR_ZIGZAG : CPR_CONTIGUOUS,
        .guard = s->guard,
    };
}

static cpr_status resolve(cpr_cache *cache, const batch *b, const scenario *s, cpr_tensor *resolved) {
    return cpr_cache_resolve(cache, &b->params, b->rows, s->cp_size, CPR_ZIGZAG, s->guard, resolved, NULL,
                             NULL);
}

static cpr_status use_once(cpr_cache *cache, const batch *b, const scenario *s, bool back) {
    cpr_tensor resolved;
    const cpr_route *route;
    cpr_status status = resolve(cache, b, s, &resolved);
    if (status != CPR_OK)
        return status;
    const cpr_lookup lookup = lookup_of(b, s, &resolved, back);
    status = cpr_cache_get(cache, &lookup, &route, NULL, NULL);
    if (status == CPR_OK)
        cpr_route_release(route);
    return status;
}

static cpr_status prebuild(cpr_cache *cache, const batch *b, const scenario *s) {
    cpr_tensor resolved;
    const cpr_status status = resolve(cache, b, s, &resolved);
    if (status != CPR_OK)
        return status;
    const cpr_lookup lookup = lookup_of(b, s, &resolved, false);
    return cpr_cache_prebuild(cache, &lookup, NULL);
}

static cpr_status run_batch(cpr_cache *cache, const batch *b, const scenario *s) {
    cpr_status status = prebuild(cache, b, s);
    for (int use = 0; use < SCENARIO_LAYERS * SCENARIO_PASSES * 2 && status == CPR_OK; use++)
        status = use_once(cache, b, s, use % 2 != 0);
    return status;
}

cpr_status scenario_run(cpr_cache *cache, const scenario *s) {
    cpr_status status = CPR_OK;
    for (uint64_t number = 0; number < SCENARIO_BATCHES && status == CPR_OK; number++) {
        batch b;
        make_batch(&b, s, number);
        status = run_batch(cache, &b, s);
        cpr_cache_tensor_freed(cache, b.params.q_padded.handle);
        cpr_cache_tensor_freed(cache, b.params.kv_padded.handle);
    }
    return status;
}
