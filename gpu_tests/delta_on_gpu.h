/* SPDX-License-Identifier: Apache-2.0 */
/* The layer on GPUs as the laws of props take it: numbers come from the host, and go back there. */
#ifndef CPROUTE_GPU_TESTS_DELTA_ON_GPU_H
#define CPROUTE_GPU_TESTS_DELTA_ON_GPU_H

#include "conversion.h"
#include "delta_ranks.h"

#include "laws/delta_engine.h"

/* From now on, in this thread: micro-batches of the stage's P go over its ranks, those of other P over simulated ones; on a real stage
 * that is for P = 1 alone, where each rank does everything. Every rank has the results of all. */
void delta_on_gpu_plays(const stage *s);

extern const delta_engine delta_on_gpu;

/* Chunkwise's conversions by routes. */
typedef struct delta_routes {
    conversion inputs, outputs;
} delta_routes;

/* Collective. Routes are out of the cache; NULL: they are built. */
bool delta_routes_open(delta_routes *d, const stage *s, cpr_cache *cache, const pack *p,
                       const delta_shape *shape, delta_kind kind);
void delta_routes_close(delta_routes *d);
delta_converter delta_routes_converter(delta_routes *d);

#endif
