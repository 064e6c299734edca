/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that are compiled for units of 16, 8, 4, 2 and 1 bytes. */
#ifndef CPROUTE_CUDA_UNIT_KERNELS_H
#define CPROUTE_CUDA_UNIT_KERNELS_H

#include <cuda_runtime.h>

/* kernel_of is called with a unit of that size, for its type. */
template <class KernelOf> static const void *cpr_kernel_for_unit(size_t unit_bytes, KernelOf kernel_of) {
    switch (unit_bytes) {
    case 16:
        return kernel_of(uint4());
    case 8:
        return kernel_of(uint2());
    case 4:
        return kernel_of(0U);
    case 2:
        return kernel_of(static_cast<unsigned short>(0));
    default:
        return kernel_of(static_cast<unsigned char>(0));
    }
}

/* Loads them all to the current device. CUDA would load a kernel when it is first started, and may wait for all that runs there: also for
 * a kernel that waits for another rank, where the same may go on. */
static inline cudaError_t cpr_load_kernels(const void *(*kernel_for)(size_t unit_bytes)) {
    cudaError_t result = cudaSuccess;
    for (size_t unit_bytes = 16; unit_bytes > 0 && result == cudaSuccess; unit_bytes /= 2) {
        cudaFuncAttributes loaded;
        result = cudaFuncGetAttributes(&loaded, kernel_for(unit_bytes));
    }
    return result;
}

#endif
