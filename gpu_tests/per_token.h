/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The per-token method of Megatron-LM 3282 (merged as 5139086e) on the device, to be counted and timed beside ours: for every conversion
 * the token indices of all ranks in both layouts are made anew, sizes and checks are read back by the host at each point where the
 * published code reads one (item(), a condition on a tensor, a mask used as an index, nonzero()), rows are found by masks and sorts.
 * Reads of one number each: 14 P + 1 in one conversion of one rank.
 */
#ifndef CPROUTE_GPU_TESTS_PER_TOKEN_H
#define CPROUTE_GPU_TESTS_PER_TOKEN_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct per_token per_token;

/* For packs of up to so many tokens and boundaries. NULL without memory. */
per_token *per_token_create(int64_t max_tokens, int64_t max_entries, int64_t cp_size, cudaStream_t stream);
void per_token_free(per_token *p);

/* What one rank needs for one conversion between zigzag and contiguous; lists are on the device and last until the next call. */
typedef struct per_token_route {
    int64_t rows;
    int64_t input_splits[64], output_splits[64];
    const int64_t *send_rows, *recv_rows;
} per_token_route;

/* `cu` is on the device. Boundaries that the method refuses: cudaErrorInvalidValue. */
cudaError_t per_token_build(per_token *p, const int64_t *cu, int64_t entries, int64_t cp_rank,
                            bool to_contiguous, per_token_route *route);

/* index_select, and its counterpart; row_bytes a multiple of 8. */
cudaError_t per_token_gather(void *to, const void *from, const int64_t *rows, int64_t count,
                             int64_t row_bytes, cudaStream_t stream);
cudaError_t per_token_put(void *to, const void *from, const int64_t *rows, int64_t count, int64_t row_bytes,
                          cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
