/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer of layer.h on the P ranks of a context-parallel group, which live in this one process, by the library's public
 * interface alone. What it gives must be what one rank gives, whichever of three published ways it goes:
 *
 *   chunkwise   rows go from zigzag to contiguous; the convolution gets the last rows of the ranks before; each rank's chunk is an
 *               affine map of the state, and all ranks' maps are gathered and folded. Outputs go back.    Megatron-LM 3282
 *   headwise    every rank gets all tokens of some heads, so heads must be divisible by P.                Megatron-LM 2614
 *   all_gather  every rank gets all tokens of all heads, does everything, and keeps its own.
 *
 * On every rank rows, outputs and gradients lie in zigzag, as the rest of the model has them. Parameters and their gradients
 * are whole on every rank in every mode, so neither depends on the mode or on P.
 */
#ifndef CPROUTE_CONSUMER_DELTA_H
#define CPROUTE_CONSUMER_DELTA_H

#include "cproute/cproute.h"
#include "layer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum delta_mode {
    DELTA_CHUNKWISE = 0,
    DELTA_HEADWISE = 1,
    DELTA_ALL_GATHER = 2,
    DELTA_MODE_COUNT = 3
} delta_mode;

/* "chunkwise", "headwise", "all_gather"; "unknown" for other numbers. */
const char *delta_mode_name(delta_mode mode);
bool delta_mode_from_name(const char *name, delta_mode *mode);

/* In the order in which they are checked. */
typedef enum delta_status {
    DELTA_OK = 0,
    DELTA_BAD_MODE = 1,   /* the mode | DELTA_MODE_COUNT */
    DELTA_BAD_SHAPE = 2,  /* the first size that is wrong | the limit that it passes */
    DELTA_NOT_ROUTED = 3, /* `route` says why: the group, the boundaries, and time that does not divide */
    DELTA_NOT_DIVISIBLE_HEADS = 4, /* heads | P, which must divide them in headwise */
    DELTA_NO_MEMORY = 5
} delta_status;

typedef struct delta_error {
    delta_status status;
    int64_t got, wanted;
    cpr_error route; /* of DELTA_NOT_ROUTED; CPR_OK otherwise */
} delta_error;

/* "ok", "bad_mode", "bad_shape", "not_divisible_heads", "no_memory", or the name of the route's error: "not_divisible_2cp", ... */
const char *delta_error_name(const delta_error *error);

/* What stays from one micro-batch to the next: the routes, in a cache. One thread at a time. */
typedef struct delta_group delta_group;
delta_status delta_group_create(const cpr_allocator *allocator, delta_group **group, delta_error *error);
void delta_group_free(delta_group *group); /* NULL is allowed */
cpr_cache_stats delta_group_stats(delta_group *group);

/* May differ from call to call: that is dynamic CP. */
typedef struct delta_batch {
    delta_mode mode;
    int64_t cp_size;
    const int64_t *cu_seqlens;
    int64_t entries;
} delta_batch;

/*
 * Entry r of every list is rank r's array. Outputs are overwritten; on failure they are untouched. parameter_grads is
 * delta_parameters() numbers on every rank, the same on all.
 */
delta_status delta_forward(delta_group *group, const delta_layer *layer, const delta_batch *batch,
                           const scalar *const *rows, scalar *const *outputs, delta_error *error);
delta_status delta_backward(delta_group *group, const delta_layer *layer, const delta_batch *batch,
                            const scalar *const *rows, const scalar *const *output_grads,
                            scalar *const *row_grads, scalar *const *parameter_grads, delta_error *error);

#ifdef __cplusplus
}
#endif

#endif
