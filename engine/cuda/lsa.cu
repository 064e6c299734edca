/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows are registered without NCCL_WIN_COLL_SYMMETRIC: that flag starts NCCL's own kernels over multicast memory, which stays off.
 */
#include "lsa.h"

#if NCCL_VERSION_CODE >= 22800 && __has_include(<nccl_device.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <nccl_device.h>
#pragma GCC diagnostic pop
#define CPROUTE_HAS_LSA 1
#endif

#ifdef CPROUTE_HAS_LSA

static __global__ void find_bases(ncclWindow_t window, int ranks, void **bases) {
    for (int rank = static_cast<int>(threadIdx.x); rank < ranks; rank += static_cast<int>(blockDim.x)) {
        bases[rank] = ncclGetLsaPointer(window, 0, rank);
    }
}

extern "C" int cpr_lsa_team_size(ncclComm_t comm) {
    return ncclTeamLsa(comm).nRanks;
}

extern "C" ncclResult_t cpr_lsa_register(ncclComm_t comm, void *memory, size_t bytes, void **window) {
    *window = nullptr;
    return ncclCommWindowRegister(comm, memory, bytes, reinterpret_cast<ncclWindow_t *>(window),
                                  NCCL_WIN_DEFAULT);
}

extern "C" ncclResult_t cpr_lsa_deregister(ncclComm_t comm, void *window) {
    return ncclCommWindowDeregister(comm, static_cast<ncclWindow_t>(window));
}

/* A window lies on the device; what NCCL gives in its place does not. */
extern "C" bool cpr_lsa_is_mapped(const void *window) {
    cudaPointerAttributes attributes;
    const bool known = window != nullptr && cudaPointerGetAttributes(&attributes, window) == cudaSuccess;
    (void)cudaGetLastError();
    return known && attributes.type == cudaMemoryTypeDevice;
}

extern "C" cudaError_t cpr_lsa_bases(void *window, int ranks, void **bases, cudaStream_t stream) {
    ncclWindow_t typed = static_cast<ncclWindow_t>(window);
    void *arguments[] = {&typed, &ranks, &bases};
    return cudaLaunchKernel(reinterpret_cast<const void *>(find_bases), dim3(1), dim3(32), arguments, 0,
                            stream);
}

#else

extern "C" int cpr_lsa_team_size(ncclComm_t) {
    return 0;
}

extern "C" ncclResult_t cpr_lsa_register(ncclComm_t, void *, size_t, void **window) {
    *window = nullptr;
    return ncclSuccess;
}

extern "C" ncclResult_t cpr_lsa_deregister(ncclComm_t, void *) {
    return ncclSuccess;
}

extern "C" bool cpr_lsa_is_mapped(const void *) {
    return false;
}

extern "C" cudaError_t cpr_lsa_bases(void *, int, void **, cudaStream_t) {
    return cudaErrorNotSupported;
}

#endif
