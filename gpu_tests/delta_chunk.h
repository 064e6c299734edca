/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer of consumer/layer.h on a device: what one rank computes of it. A chunk is some tokens in order and some heads: in chunkwise
 * a rank's own tokens and all heads, otherwise all tokens and the heads that it has. The kernels are plain; they sum in the order
 * in which the reference does.
 *
 * All pointers are device pointers. Rows, outputs and their gradients are stored in the kind of the chunk; everything else is numbers:
 * float, or elements of the field of consumer/scalar.h, in which the layer must be exact.
 */
#ifndef CPROUTE_GPU_TESTS_DELTA_CHUNK_H
#define CPROUTE_GPU_TESTS_DELTA_CHUNK_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum delta_kind { DELTA_FP32, DELTA_BF16, DELTA_FIELD, DELTA_KINDS } delta_kind;

enum { DELTA_NUMBER_BYTES = 4, DELTA_SLICES = 64 };

/* Names as in layer.h and chunkwise.c. */
typedef struct delta_chunk {
    delta_kind kind;
    int64_t heads, keys, values, taps;
    int64_t rank, ranks;  /* its place among those whose maps are folded */
    int64_t begin, count; /* tokens */
    int64_t halo;         /* rows of tokens before */
    int64_t segment;      /* the state is kept at every so many tokens, and found again in between */
    const int64_t *first; /* for each of its tokens, the first one of that one's sequence */
    const void *parameters;
    void *rows;        /* [halo + count] */
    void *mixed;       /* [count] */
    void *map;         /* [heads][values + keys][keys], B and then M */
    const void *maps;  /* of all ranks */
    void *entry;       /* [heads][values][keys], the state before the first token */
    void *checkpoints; /* [segments][heads][keys][values] */
    void *outputs;     /* [count] */
    const void *output_grads;
    void *entry_grad;        /* with nothing from later chunks */
    const void *entry_grads; /* of all ranks */
    void *exit_grad;         /* from later chunks */
    void *states;            /* [heads][segment][keys][values], of one segment at a time */
    void *parts;             /* [heads][segment][values + keys], likewise */
    void *mixed_grads;       /* [count] */
    void *row_grads;         /* [halo + count] */
    void *stored_row_grads;  /* [count] */
    void *parameter_parts;   /* [DELTA_SLICES] */
    void *parameter_grads;
} delta_chunk;

/* Each enqueues one kernel. In the order of a forward and a backward pass: */
cudaError_t delta_mix_rows(const delta_chunk *c, cudaStream_t stream);  /* rows -> mixed */
cudaError_t delta_find_map(const delta_chunk *c, cudaStream_t stream);  /* mixed -> map */
cudaError_t delta_fold_maps(const delta_chunk *c, cudaStream_t stream); /* maps before -> entry */
cudaError_t delta_run(const delta_chunk *c, cudaStream_t stream); /* mixed, entry -> outputs, checkpoints */
cudaError_t delta_find_grad(const delta_chunk *c, cudaStream_t stream); /* output_grads -> entry_grad */
cudaError_t delta_fold_grads(const delta_chunk *c,
                             cudaStream_t stream); /* maps, entry_grads behind -> exit_grad */
cudaError_t delta_run_back(const delta_chunk *c, cudaStream_t stream);    /* exit_grad -> mixed_grads */
cudaError_t delta_unmix_rows(const delta_chunk *c, cudaStream_t stream);  /* mixed_grads -> row_grads */
cudaError_t delta_store_grads(const delta_chunk *c, cudaStream_t stream); /* row_grads -> stored_row_grads */
cudaError_t delta_sum_parameters(const delta_chunk *c,
                                 cudaStream_t stream); /* mixed_grads -> parameter_parts -> parameter_grads */

/* to[i] = parts[count - 1][i] + ... + parts[0][i], from the last part on, as time goes backwards. Numbers of the kind. */
cudaError_t delta_sum(delta_kind kind, const void *parts, int64_t count, void *to, int64_t size,
                      cudaStream_t stream);
/* to[i] += from[i] */
cudaError_t delta_add(delta_kind kind, const void *from, void *to, int64_t size, cudaStream_t stream);

/* Some columns of `rows` rows. Row i is from[i] and to[i], or of one of them the row that the list says. All in bytes, even. */
typedef struct delta_columns {
    const void *from;
    void *to;
    size_t from_row_bytes, to_row_bytes, bytes;
    int64_t rows;
    const int64_t *from_list, *to_list; /* NULL: in order */
} delta_columns;
cudaError_t delta_move_columns(const delta_columns *c, cudaStream_t stream);

size_t delta_stored_bytes(delta_kind kind);

#ifdef __cplusplus
}
#endif

#endif
