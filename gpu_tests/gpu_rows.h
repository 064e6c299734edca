/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows on the device: painted, counted, multiplied. Every byte of a row depends on the token, its place in the row and
 * the salt, so that no two rows that matter look alike, and rows of an earlier run are wrong in this one.
 *
 * All pointers are device pointers unless they say host; launches go to `stream` and are not waited for. Launch errors come
 * back as cudaGetLastError has them.
 */
#ifndef CPROUTE_GPU_TESTS_GPU_ROWS_H
#define CPROUTE_GPU_TESTS_GPU_ROWS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many bytes were wrong, and the first of them. */
typedef struct gpu_count {
    unsigned long long wrong;
    unsigned long long first; /* UINT64_MAX: none */
} gpu_count;

cudaError_t gpu_count_reset(gpu_count *count, cudaStream_t stream);

cudaError_t gpu_paint(void *rows, const int64_t *tokens, int64_t count, size_t row_bytes, uint64_t salt,
                      cudaStream_t stream);

/* Adds to `wrong` every byte that gpu_paint would have written otherwise. */
cudaError_t gpu_check(const void *rows, const int64_t *tokens, int64_t count, size_t row_bytes, uint64_t salt,
                      gpu_count *wrong, cudaStream_t stream);

/* Adds every byte that is not `value`. */
cudaError_t gpu_check_bytes(const void *bytes, size_t size, unsigned char value, gpu_count *wrong,
                            cudaStream_t stream);

/* Adds every byte in which the two differ. */
cudaError_t gpu_compare(const void *bytes, const void *wanted, size_t size, gpu_count *wrong,
                        cudaStream_t stream);

/* Numbers that depend on the seed and their place. */
cudaError_t gpu_random(uint64_t *numbers, int64_t count, uint64_t seed, cudaStream_t stream);

/* Adds the product of two vectors to *sum, modulo 2^64: exact whatever the order. */
cudaError_t gpu_dot(const uint64_t *a, const uint64_t *b, int64_t count, unsigned long long *sum,
                    cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
