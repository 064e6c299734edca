/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cproute on GPUs: rows of a route moved by NCCL, with kernels that take runs.
 *
 *     cpr_cuda_group *group;                                      // once per communicator
 *     cpr_cuda_group_create(comm, NULL, NULL, &group, &error);
 *     cpr_cuda_exchange *exchange;                                // once per route and row size, on every rank
 *     cpr_cuda_exchange_create(group, route, row_bytes, NULL, &exchange, &error);
 *     cpr_cuda_exchange_run(exchange, CPR_FORWARD, source, target, stream, &error);   // per layer
 *     cpr_cuda_exchange_run(exchange, CPR_BACKWARD, gradient, out, stream, &error);
 *
 * Creation is collective and synchronises; running neither synchronises nor allocates, and may be captured
 * in a CUDA graph. Nothing here waits for ever: a rank that is lost ends in an error on the others.
 *
 * Conventions are those of cproute.h. `stream` and all memory belong to the device that was current at
 * cpr_cuda_group_create, which must be current in every call. Device pointers are marked so; all others are host
 * pointers. Thread-safety: one thread at a time per group, with all its exchanges, as NCCL wants it of a communicator.
 *
 * Statuses of their own are cuda, nccl, timeout and peer_failed; cproute.h has their details. The first three abort the
 * communicator (ncclCommAbort), so that what its ranks have enqueued comes to an end: it must then be neither used nor
 * destroyed. No other error does.
 *
 * NCCL connects two ranks when they first talk, which is in cpr_cuda_group_create, and with a communicator that blocks it does so in a
 * call that no timeout ends. Where a rank may be lost that early, make it with ncclConfig_t.blocking = 0; both kinds are taken.
 *
 * Sources: Megatron-LM pull requests 3282 and 5664 (pack, all-to-all, scatter; names of the NVTX ranges).
 */
#ifndef CPROUTE_CPROUTE_CUDA_H
#define CPROUTE_CPROUTE_CUDA_H

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "cproute/cproute.h"

#ifdef __cplusplus
extern "C" {
#endif

/*==============================================================================
 * MARK: - Groups
 *============================================================================*/

/* The ranks of a communicator, and what has gone wrong among them. A group that failed stays failed: every later call
 * on it or its exchanges returns the same error, and only freeing is of use. */
typedef struct cpr_cuda_group cpr_cuda_group;

typedef struct cpr_cuda_group_options {
    int64_t timeout_ms; /* how long other ranks may keep this one waiting; 0: 60,000 */
} cpr_cuda_group_options;

/*
 * Collective. `comm` stays the caller's and must outlive the group. The caller frees *group with cpr_cuda_group_free.
 * Fails with cuda, nccl, timeout; with no_memory, of which the others learn as peer_failed, but by their timeout if it was
 * pinned memory; or with peer_failed.
 */
CPR_API cpr_status cpr_cuda_group_create(ncclComm_t comm, const cpr_cuda_group_options *options,
                                         const cpr_allocator *allocator, cpr_cuda_group **group,
                                         cpr_error *error);

/* NULL is allowed. Its exchanges must have been freed. Not collective. */
CPR_API void cpr_cuda_group_free(cpr_cuda_group *group);

/*
 * Waits for what `stream` holds so far, at most for the timeout: it must be longer than what was enqueued takes. A CUDA error, an
 * asynchronous NCCL error or the timeout aborts the communicator, so that the stream comes to its end, and is returned. This
 * takes the place of cudaStreamSynchronize wherever a rank may be lost.
 */
CPR_API cpr_status cpr_cuda_group_wait(cpr_cuda_group *group, cudaStream_t stream, cpr_error *error);

/* Has anything gone wrong so far? Asks NCCL without waiting. An error aborts the communicator. */
CPR_API cpr_status cpr_cuda_group_check(cpr_cuda_group *group, cpr_error *error);

/* Whether the communicator was aborted on this rank. */
CPR_API bool cpr_cuda_group_aborted(const cpr_cuda_group *group);

/*==============================================================================
 * MARK: - Exchange over NCCL
 *============================================================================*/

/* Backward is the conversion target -> source, which is also the adjoint of forward: a route is a permutation of
 * all ranks' rows. So gradients of a forward conversion take the backward one. */
typedef enum cpr_direction { CPR_FORWARD = 0, CPR_BACKWARD = 1 } cpr_direction;

/* A route with its buffers on the device. Rows in flight are kept in it, so two runs of one exchange must be in stream order;
 * for conversions that overlap, make an exchange each. */
typedef struct cpr_cuda_exchange cpr_cuda_exchange;

/*
 * Collective: every rank must enter, also one whose route was refused; it passes NULL, and all others learn of it. The route
 * is trusted to hold together, as cpr_route_validate tells; it is read and not kept. The caller frees *exchange with
 * cpr_cuda_exchange_free.
 *
 * What is wrong between ranks is found here, before a byte moves, and in this order. It is the same error on every rank, except
 * that a rank with a fault of its own returns that, which the others have as peer_failed: internal (-1 | 0 | 0) for a NULL route,
 * overflow (-1 | 0 | 1 for row_bytes 0; -1 | rows | most rows that fit), no_memory, cuda.
 *   - peer_failed: first such rank | its status | 0
 *   - bad_rank: the route is not for this rank of the group: rank of the group | cp_rank of the route | rank of the group
 *   - divergent_metadata: routes or row_bytes differ: first rank that differs from rank 0 | its digest, or row_bytes | that of
 *     rank 0
 *   - split_mismatch: a * cp_size + b | rows that a sends to b | rows that b receives from a
 *   - divergent_metadata: the runs of a message differ: its receiver | digest of its runs | that of the sender's
 */
CPR_API cpr_status cpr_cuda_exchange_create(cpr_cuda_group *group, const cpr_route *route, size_t row_bytes,
                                            const cpr_allocator *allocator, cpr_cuda_exchange **exchange,
                                            cpr_error *error);

/* NULL is allowed. Waits for its runs to end, as cpr_cuda_group_wait does; graphs that captured it must not run any more. Not
 * collective. */
CPR_API void cpr_cuda_exchange_free(cpr_cuda_exchange *exchange);

/*
 * Collective: enqueues the conversion of `source` into `target` (device pointers; as many rows as the route has on that side) on
 * `stream`, and returns. Pack, grouped send/recv with every rank, scatter; a side that is an identity is neither packed nor
 * scattered but sent and received in place, and rows that stay are copied once, beside the exchange. No host-device
 * synchronisation, no allocation. Both must be aligned to row_bytes' largest power of two up to 16 for full speed; any alignment
 * works. Source and target must not overlap (bad_row: -1 | 0 | 0). NVTX domain "cproute", ranges "pack", "all_to_all", "scatter";
 * cpr_cuda_exchange_create has "build".
 */
CPR_API cpr_status cpr_cuda_exchange_run(cpr_cuda_exchange *exchange, cpr_direction direction,
                                         const void *source, void *target, cudaStream_t stream,
                                         cpr_error *error);

/* Device memory that it holds, in bytes. */
CPR_API size_t cpr_cuda_exchange_bytes(const cpr_cuda_exchange *exchange);

/*==============================================================================
 * MARK: - All ranks on one device
 *============================================================================*/

/* A group of simulated ranks in one process on one device: the kernels of an exchange, with copies in place of NCCL. For
 * tests of any cp_size where there is one GPU. */
typedef struct cpr_cuda_simulation cpr_cuda_simulation;

/* routes[r] is the route of rank r. Fails as cpr_exchange_host does up to split_mismatch and runs, or with overflow, no_memory and
 * cuda. The caller frees *simulation with cpr_cuda_simulation_free. */
CPR_API cpr_status cpr_cuda_simulation_create(const cpr_route *const *routes, int64_t cp_size,
                                              size_t row_bytes, const cpr_allocator *allocator,
                                              cpr_cuda_simulation **simulation, cpr_error *error);

/* NULL is allowed. */
CPR_API void cpr_cuda_simulation_free(cpr_cuda_simulation *simulation);

/* As cpr_cuda_exchange_run, for all ranks: sources[r] and targets[r] (host arrays of device pointers) are rank r's. */
CPR_API cpr_status cpr_cuda_simulation_run(cpr_cuda_simulation *simulation, cpr_direction direction,
                                           const void *const *sources, void *const *targets,
                                           cudaStream_t stream, cpr_error *error);

/*==============================================================================
 * MARK: - Kernels alone
 *============================================================================*/

/* The two kernels by themselves, for measurements and for transports of the caller's own: source rows into `message` in
 * sending order, and arrived rows from `message` to where they belong (device pointers), as cpr_pack and cpr_scatter do on the
 * host. Identities are copied. */
CPR_API cpr_status cpr_cuda_pack(cpr_cuda_exchange *exchange, cpr_direction direction, const void *source,
                                 void *message, cudaStream_t stream, cpr_error *error);
CPR_API cpr_status cpr_cuda_scatter(cpr_cuda_exchange *exchange, cpr_direction direction, const void *message,
                                    void *target, cudaStream_t stream, cpr_error *error);

#ifdef __cplusplus
}
#endif

#endif
