/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for the CUDA runtime, NCCL and the kernel, so that the host code of the GPU part runs on any machine. Ranks are threads.
 * Device memory is malloc's, so sanitizers see what is done to it. A stream is a queue whose work is done when somebody asks for it,
 * as late as a device may, and messages wait in it for the other rank. What CUDA or NCCL would answer by undefined behaviour or
 * by waiting for ever (a communicator used after its abort, memory freed under work, a capture that is not joined) ends the process.
 * Windows of other ranks are plain memory, and a conversion without a route does what its kernel does, by one thread, waiting for others
 * from one asking to the next. It knows the calls that the GPU part makes and no others, and tells nothing about speed.
 */
#ifndef CPROUTE_PROPS_CUDA_DOUBLE_H
#define CPROUTE_PROPS_CUDA_DOUBLE_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>

/* Ranks that talk to each other. */
typedef struct double_world double_world;
double_world *double_world_make(int ranks);
void double_world_free(double_world *world);
ncclComm_t double_comm_make(double_world *world, int rank);
void double_comm_free(ncclComm_t comm);

/* Ranks can write to each other's windows. */
void double_world_reachable(double_world *world);

/* A communicator that does not block: each group call goes on for so many askings. */
void double_comm_slow(ncclComm_t comm, int askings);

/* From now on the communicator has met this. */
void double_comm_meets(ncclComm_t comm, ncclResult_t result);

bool double_comm_aborted(ncclComm_t comm);

/* In this thread, CUDA call number `at` from now, counted from 0, fails with `result`; -1: none. Neither is cudaGetDevice counted, nor
 * queries, of which there may be any number; */
void double_fail_call(int64_t at, cudaError_t result);

/* they all fail so from now on, as they do after a kernel has failed. */
void double_fail_queries(cudaError_t result);

/* Has it failed? */
bool double_failed_call(void);

/* Memory, streams and events of this thread that are not freed. */
int64_t double_held(void);

/* A kernel of the caller's own: call(context) once the stream gets there, and then free(context). */
cudaError_t double_enqueue(cudaStream_t stream, void (*call)(void *context), void *context);

/* NVTX ranges of this thread since it was last asked: ">name" where one begins, "<" where it ends; the
 * first 2 KB. Valid until it is asked again. */
const char *double_ranges(void);

/* How often this thread waited for the device, and how often it allocated. */
int64_t double_synchronisations(void);
int64_t double_allocations(void);

#endif
