/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of other ranks that loads and stores reach, by NCCL's load/store-accessible (LSA) teams. This is all that is taken of NCCL's
 * device API: where a window lies at every rank, asked once. Barriers are our own, since NCCL's cannot be given up.
 */
#ifndef CPROUTE_LSA_H
#define CPROUTE_LSA_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ranks of this rank's team, itself counted; 0: NCCL has no teams here (2.28 is the first that has). */
int cpr_lsa_team_size(ncclComm_t comm);

/* Collective. *window is NULL where NCCL makes none. */
ncclResult_t cpr_lsa_register(ncclComm_t comm, void *memory, size_t bytes, void **window);
ncclResult_t cpr_lsa_deregister(ncclComm_t comm, void *window);

/* Without peer access NCCL's windows are no windows. */
bool cpr_lsa_is_mapped(const void *window);

/* Enqueues: bases[r] (of the device) becomes where the window of rank r begins. */
cudaError_t cpr_lsa_bases(void *window, int ranks, void **bases, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
