/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_rows.h"

namespace {

const unsigned THREADS = 256;
const size_t MAX_BLOCKS = 4096;

unsigned blocks_for(size_t items) {
    const size_t blocks = (items + THREADS - 1) / THREADS;
    return static_cast<unsigned>(blocks < 1 ? 1 : blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS);
}

__device__ size_t first_item() {
    return static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ size_t items_per_step() {
    return static_cast<size_t>(gridDim.x) * blockDim.x;
}

/* The finaliser of splitmix64. */
__device__ uint64_t mixed(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

__device__ unsigned char paint_of(int64_t token, size_t byte, uint64_t salt) {
    const uint64_t word =
        mixed(mixed(static_cast<uint64_t>(token) + salt * 0x9e3779b97f4a7c15ULL) + byte / 8);
    return static_cast<unsigned char>(word >> (8 * (byte % 8)));
}

__device__ void note_wrong(gpu_count *count, size_t at) {
    atomicAdd(&count->wrong, 1ULL);
    atomicMin(&count->first, static_cast<unsigned long long>(at));
}

__global__ void reset_kernel(gpu_count *count) {
    count->wrong = 0;
    count->first = ~0ULL;
}

__global__ void paint_kernel(unsigned char *rows, const int64_t *tokens, size_t bytes, size_t row_bytes,
                             uint64_t salt) {
    for (size_t i = first_item(); i < bytes; i += items_per_step())
        rows[i] = paint_of(tokens[i / row_bytes], i % row_bytes, salt);
}

__global__ void check_kernel(const unsigned char *rows, const int64_t *tokens, size_t bytes, size_t row_bytes,
                             uint64_t salt, gpu_count *wrong) {
    for (size_t i = first_item(); i < bytes; i += items_per_step())
        if (rows[i] != paint_of(tokens[i / row_bytes], i % row_bytes, salt))
            note_wrong(wrong, i);
}

__global__ void check_bytes_kernel(const unsigned char *bytes, size_t size, unsigned char value,
                                   gpu_count *wrong) {
    for (size_t i = first_item(); i < size; i += items_per_step())
        if (bytes[i] != value)
            note_wrong(wrong, i);
}

__global__ void compare_kernel(const unsigned char *bytes, const unsigned char *wanted, size_t size,
                               gpu_count *wrong) {
    for (size_t i = first_item(); i < size; i += items_per_step())
        if (bytes[i] != wanted[i])
            note_wrong(wrong, i);
}

__global__ void random_kernel(uint64_t *numbers, size_t count, uint64_t seed) {
    for (size_t i = first_item(); i < count; i += items_per_step())
        numbers[i] = mixed(mixed(seed) + i);
}

__global__ void dot_kernel(const uint64_t *a, const uint64_t *b, size_t count, unsigned long long *sum) {
    unsigned long long mine = 0;
    for (size_t i = first_item(); i < count; i += items_per_step())
        mine += a[i] * b[i];
    atomicAdd(sum, mine);
}

} // namespace

cudaError_t gpu_count_reset(gpu_count *count, cudaStream_t stream) {
    reset_kernel<<<1, 1, 0, stream>>>(count);
    return cudaGetLastError();
}

cudaError_t gpu_paint(void *rows, const int64_t *tokens, int64_t count, size_t row_bytes, uint64_t salt,
                      cudaStream_t stream) {
    const size_t bytes = static_cast<size_t>(count) * row_bytes;
    if (bytes == 0)
        return cudaSuccess;
    paint_kernel<<<blocks_for(bytes), THREADS, 0, stream>>>(static_cast<unsigned char *>(rows), tokens, bytes,
                                                            row_bytes, salt);
    return cudaGetLastError();
}

cudaError_t gpu_check(const void *rows, const int64_t *tokens, int64_t count, size_t row_bytes, uint64_t salt,
                      gpu_count *wrong, cudaStream_t stream) {
    const size_t bytes = static_cast<size_t>(count) * row_bytes;
    if (bytes == 0)
        return cudaSuccess;
    check_kernel<<<blocks_for(bytes), THREADS, 0, stream>>>(static_cast<const unsigned char *>(rows), tokens,
                                                            bytes, row_bytes, salt, wrong);
    return cudaGetLastError();
}

cudaError_t gpu_check_bytes(const void *bytes, size_t size, unsigned char value, gpu_count *wrong,
                            cudaStream_t stream) {
    if (size == 0)
        return cudaSuccess;
    check_bytes_kernel<<<blocks_for(size), THREADS, 0, stream>>>(static_cast<const unsigned char *>(bytes),
                                                                 size, value, wrong);
    return cudaGetLastError();
}

cudaError_t gpu_compare(const void *bytes, const void *wanted, size_t size, gpu_count *wrong,
                        cudaStream_t stream) {
    if (size == 0)
        return cudaSuccess;
    compare_kernel<<<blocks_for(size), THREADS, 0, stream>>>(
        static_cast<const unsigned char *>(bytes), static_cast<const unsigned char *>(wanted), size, wrong);
    return cudaGetLastError();
}

cudaError_t gpu_random(uint64_t *numbers, int64_t count, uint64_t seed, cudaStream_t stream) {
    if (count == 0)
        return cudaSuccess;
    const size_t items = static_cast<size_t>(count);
    random_kernel<<<blocks_for(items), THREADS, 0, stream>>>(numbers, items, seed);
    return cudaGetLastError();
}

cudaError_t gpu_dot(const uint64_t *a, const uint64_t *b, int64_t count, unsigned long long *sum,
                    cudaStream_t stream) {
    if (count == 0)
        return cudaSuccess;
    const size_t items = static_cast<size_t>(count);
    dot_kernel<<<blocks_for(items), THREADS, 0, stream>>>(a, b, items, sum);
    return cudaGetLastError();
}
