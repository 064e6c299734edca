/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of one layout into another: by an exchange on a real stage, by a simulation on a simulated one, with or without a route. */
#ifndef CPROUTE_GPU_TESTS_CONVERSION_H
#define CPROUTE_GPU_TESTS_CONVERSION_H

#include "device_offsets.h"
#include "pack.h"
#include "stage.h"

/* One route in the buffers of one transport; forward and backward. */
typedef struct conversion {
    const stage *stage;
    const cpr_route *routes[MAX_RANKS]; /* of the ranks that this process is, by rank */
    bool cached;                        /* they are the cache's */
    size_t row_bytes;
    cpr_cuda_exchange *exchange;     /* of a real stage */
    cpr_cuda_simulation *simulation; /* of a simulated one */
    /* Of a direct stage, in the place of these; for each rank of this process, offsets of its own. */
    cpr_cuda_conversion *direct;
    cpr_cuda_direct_simulation *direct_simulation;
    device_offsets offsets[MAX_RANKS];
} conversion;

/* Collective, as cpr_cuda_exchange_create. conversion_close may always follow. */
bool conversion_open(conversion *c, const stage *s, const pack *p, cpr_layout source, cpr_layout target,
                     size_t row_bytes);
/* The same, with routes out of a cache, where they were built before or are now; a direct stage needs none. */
bool conversion_open_cached(conversion *c, const stage *s, cpr_cache *cache, const pack *p, cpr_layout source,
                            cpr_layout target, size_t row_bytes);
void conversion_close(conversion *c);

/* from[i] and to[i] belong to rank first + i. Not waited for. */
bool conversion_run(const conversion *c, cpr_direction direction, void *const *from, void *const *to);

/* Does one kernel write straight into the targets? A conversion without a route goes by one where ranks cannot reach each other. */
bool conversion_is_direct(const conversion *c);

/* Has a run without a route told an error on any rank? CPR_OK if not, or with a route. Waits for nothing. */
cpr_error conversion_told(const conversion *c, int64_t i);

/* Builds the route of a rank; NULL with a failure told. */
cpr_route *build_route(const stage *s, const pack *p, int64_t rank, cpr_layout source, cpr_layout target);

#endif
