/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of one call, and how they come by one another's rows. `sheet` is what a rank has: rows of equal width, one after the
 * other. Functions that return false have set the error.
 */
#ifndef CPROUTE_CONSUMER_RANKS_H
#define CPROUTE_CONSUMER_RANKS_H

#include "delta.h"

typedef struct ranks {
    delta_group *group;
    const delta_layer *layer;
    delta_batch batch;
    int64_t size, tokens, rows; /* P, T, T/P */
    int64_t *first;             /* of each token's sequence, the first token */
    struct memory_block *memory;
    delta_error error;
} ranks;

struct delta_group {
    cpr_allocator allocator;
    cpr_cache *cache;
};

/* Checks everything that can be wrong with a call. */
bool ranks_open(ranks *r, delta_group *group, const delta_layer *layer, const delta_batch *batch);
void ranks_close(ranks *r);

/* Sets the error; returns false. */
bool ranks_no_memory(ranks *r);

/* Zeros that live until ranks_close; NULL without memory. */
void *ranks_bytes(ranks *r, int64_t count, size_t each);
scalar *ranks_numbers(ranks *r, int64_t count);
scalar **ranks_sheets(ranks *r, int64_t rows, int64_t width);

/* Moves every rank's rows from one layout to another, by the route of each rank out of the cache. */
bool ranks_exchange(ranks *r, cpr_layout from, cpr_layout to, int64_t width, const scalar *const *source,
                    scalar *const *target);

/* Some of the columns of a zigzag sheet into, or out of, a sheet of all tokens in order that has only those. */
typedef struct columns {
    int64_t first, count, of; /* of: columns of the zigzag sheet */
} columns;
bool ranks_put(ranks *r, int64_t rank, columns c, const scalar *zigzag, scalar *stream);
bool ranks_take(ranks *r, int64_t rank, columns c, const scalar *stream, scalar *zigzag);

/* The same out of all ranks' sheets: what a rank of `c` heads has after the all-to-all. NULL without memory. */
scalar *ranks_gather(ranks *r, columns c, const scalar *const *zigzag);
bool ranks_scatter(ranks *r, columns c, const scalar *stream, scalar *const *zigzag);

/* What a mode is: the work of all ranks into sheets that are there already. */
typedef bool forward_fn(ranks *r, const scalar *const *rows, scalar *const *outputs);
typedef bool backward_fn(ranks *r, const scalar *const *rows, const scalar *const *output_grads,
                         scalar *const *row_grads, scalar *const *parameter_grads);
forward_fn chunkwise_forward, headwise_forward, all_gather_forward;
backward_fn chunkwise_backward, headwise_backward, all_gather_backward;

#endif
