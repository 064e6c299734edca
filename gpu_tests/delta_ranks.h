/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer of consumer/layer.h on the GPUs of a stage, in the three modes of consumer/delta.h: what a rank computes is
 * delta_chunk.h's, what ranks tell each other is here. Rows lie in zigzag on every rank. Forward and backward only enqueue work, and
 * allocate nothing.
 */
#ifndef CPROUTE_GPU_TESTS_DELTA_RANKS_H
#define CPROUTE_GPU_TESTS_DELTA_RANKS_H

#include "delta_chunk.h"
#include "pack.h"
#include "stage.h"

#include "consumer/delta.h"

/* Chunkwise's conversions of rows as wide as inputs, or as outputs, between zigzag and contiguous. from[i] and to[i] belong to rank
 * first + i. Whatever makes them takes the place of this. */
typedef struct delta_converter {
    bool (*run)(void *context, bool inputs, bool to_contiguous, void *const *from, void *const *to);
    void *context;
} delta_converter;

/* What stands around everything that moves rows between ranks, to be timed or counted. */
typedef struct delta_watch {
    bool (*moves)(void *context, bool begin);
    void *context;
} delta_watch;

typedef struct delta_plan {
    delta_kind kind;
    delta_shape shape;
    delta_mode mode;
    int64_t segment;           /* of delta_chunk */
    const pack *pack;          /* read while it is opened */
    const void *parameters;    /* on the host: numbers of the kind */
    delta_converter converter; /* of chunkwise */
    delta_watch watch;         /* moves NULL: nobody watches */
} delta_plan;

enum { DELTA_MOST_ALLOCATIONS = 32 * MAX_RANKS };

typedef struct delta_ranks {
    const stage *stage;
    delta_plan plan;
    int64_t tokens, rows;             /* rows: of a rank */
    size_t input_bytes, output_bytes; /* of a row */
    delta_chunk chunks[MAX_RANKS];    /* of the ranks that this process is */
    int64_t *first;                   /* for all tokens */
    int64_t *token_of;                /* the tokens of rank 0 in zigzag, of rank 1, ... */
    void *parameters;
    /* Of rank first + i. */
    void *output_grads[MAX_RANKS];
    /* what all ranks have told: */
    void *maps[MAX_RANKS], *entry_grads[MAX_RANKS], *parameter_grads[MAX_RANKS];
    void *returned[MAX_RANKS];                   /* gradients of rows in the halos of others */
    void *sent[MAX_RANKS], *received[MAX_RANKS]; /* rows, or columns of them; not of chunkwise */
    int64_t allocations;
    void *memory[DELTA_MOST_ALLOCATIONS];
    void *shared[MAX_RANKS][2]; /* what conversions write to */
} delta_ranks;

/* Waits. delta_ranks_close may always follow. Heads that P does not divide are for other modes than headwise. */
bool delta_ranks_open(delta_ranks *r, const stage *s, const delta_plan *plan);
void delta_ranks_close(delta_ranks *r);

/* rows[i] and outputs[i] belong to rank first + i. On a direct stage, conversions write to outputs, and to row_grads below. */
bool delta_ranks_forward(delta_ranks *r, void *const *rows, void *const *outputs);

/* After forward, of what that was given. parameter_grads[i] are whole on every rank, numbers of the kind. */
bool delta_ranks_backward(delta_ranks *r, void *const *output_grads, void *const *row_grads,
                          void *const *parameter_grads);

#endif
