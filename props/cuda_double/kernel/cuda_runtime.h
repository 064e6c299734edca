/* SPDX-License-Identifier: Apache-2.0 */
/* What nvcc brings and direct.cu takes, for a processor. */
#ifndef CPROUTE_PROPS_KERNEL_CUDA_RUNTIME_H
#define CPROUTE_PROPS_KERNEL_CUDA_RUNTIME_H

#include <cstdint>
#include <cuda_runtime_api.h>

#undef __launch_bounds__
#undef __grid_constant__
#define __launch_bounds__(...)
#define __grid_constant__

struct kernel_index {
    unsigned x, y;
};
extern kernel_index threadIdx, blockIdx, gridDim;

int __syncthreads_and(int holds);
uint64_t kernel_clock_ns();

/* Memory that a block's threads share. */
int64_t *kernel_entries();
void *kernel_state(size_t size);

static inline void __syncthreads() {
    (void)__syncthreads_and(1);
}

static inline void __threadfence_system() {
}

void kernel_lets_others_go_on();

template <class Unit> static inline Unit __ldcs(const Unit *from) {
    kernel_lets_others_go_on();
    return *from;
}

static inline void atomicMin(long long *least, long long value) {
    *least = value < *least ? value : *least;
}

static inline void atomicAdd(unsigned long long *sum, unsigned long long value) {
    *sum += value;
}

template <class Kernel>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *, Kernel, int, size_t) {
    return cudaErrorNotSupported;
}

#endif
