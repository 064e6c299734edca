/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One micro-batch of the layer: numbers for all tokens, spread over the ranks as the definition of zigzag reads, and what one
 * rank makes of them.
 */
#ifndef CPROUTE_PROPS_DELTA_WORLD_H
#define CPROUTE_PROPS_DELTA_WORLD_H

#include "delta_engine.h"
#include "kit/law.h"
#include "scratch.h"

/* Numbers for all tokens in order, and for the parameters. */
typedef struct delta_sheets {
    scalar *outputs, *row_grads, *parameter_grads;
} delta_sheets;

/* The same for each rank. */
typedef struct delta_shards {
    scalar **outputs, **row_grads, **parameter_grads;
} delta_shards;

typedef struct delta_world {
    const delta_case *c;
    const delta_pack *pack;
    int64_t number_of_batch;
    delta_layer layer;
    int64_t tokens, rows;       /* rows: of a rank */
    int64_t *token_of;          /* of each rank's each row */
    scalar *rows_in, *grads_in; /* for all tokens: what comes in, and the gradients of what goes out */
    scalar **rank_rows, **rank_grads;
    scratch *memory;
} delta_world;

/* Parameters that the case's salt gives. NULL without memory. */
scalar *delta_world_parameters(const delta_case *c, const arithmetic *numbers, scratch *memory);

/* Makes the world of one legal micro-batch. False with the verdict "not applicable" without memory. */
bool delta_world_make(delta_world *w, const delta_case *c, int64_t batch, const arithmetic *numbers,
                      const scalar *parameters, scratch *memory, verdict *v);

/* What one rank makes of it, in a kind of its own. */
bool delta_world_reference(const delta_world *w, const arithmetic *numbers, delta_sheets *sheets, verdict *v);

/* Shards filled with a value that no result is. */
bool delta_world_shards(const delta_world *w, delta_shards *shards, verdict *v);

/* Still filled with it? */
bool delta_world_untouched(const delta_world *w, const delta_shards *shards, const char *when, verdict *v);

/* Both directions, which must succeed. */
bool delta_world_forward(const delta_world *w, const delta_engine *engine, delta_group *group,
                         const delta_shards *shards, verdict *v);
bool delta_world_backward(const delta_world *w, const delta_engine *engine, delta_group *group,
                          const delta_shards *shards, verdict *v);

/* A group for a case whose micro-batches are all legal. False, with the verdict, where one is not or there is no memory. */
bool delta_world_group(const delta_case *c, delta_group **group, verdict *v);

/* Is what ranks have what one rank has, within bounds? `bound` NULL: exactly. */
bool delta_world_same_outputs(const delta_world *w, const delta_shards *got, const delta_sheets *wanted,
                              const delta_sheets *bound, verdict *v);
bool delta_world_same_grads(const delta_world *w, const delta_shards *got, const delta_sheets *wanted,
                            const delta_sheets *bound, verdict *v);

/* Does the error of a call say what is wanted, in every detail? */
bool delta_refused(const delta_error *got, const delta_error *wanted, const char *call, verdict *v);

#endif
