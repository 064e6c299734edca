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
 * Where GPUs can write to each other's memory, a conversion needs no route: cpr_cuda_conversion is both ways behind one interface.
 *
 * Creation is collective and synchronises; running neither synchronises nor allocates, and may be captured
 * in a CUDA graph. Nothing here waits for ever: a rank that is lost ends in an error on the others.
 *
 * Conventions are those of cproute.h. `stream` and all memory belong to the device that was current at
 * cpr_cuda_group_create, which must be current in every call. Device pointers are marked so; all others are host
 * pointers. Thread-safety: one thread at a time per group, with all its exchanges, as NCCL wants it of a communicator.
 *
 * Statuses of their own are cuda, nccl, timeout, peer_failed, unreachable and bad_direction; cproute.h has their details. The first three abort the
 * communicator (ncclCommAbort), so that what its ranks have enqueued comes to an end: it must then be neither used nor
 * destroyed. No other error does, nor does cuda with cudaErrorStreamCapture..., which says that a capture is in the way. NCCL does not
 * clear a communicator away while a graph that captured it lives: then its abort goes on in a thread of the library until the graph
 * is destroyed, and nobody waits for that. Aborting the child of ncclCommSplit with splitShare = 1 aborts its parent too.
 *
 * Calls are refused where they are wrong on this rank alone, before anything is enqueued: bad_direction, bad_row, and device (-1 | the
 * current one | the group's) where a thread has another device than the group, as new threads have. The other ranks, which have enqueued their part, learn of that by their timeout.
 *
 * No call may stand between the caller's own ncclGroupStart and ncclGroupEnd: messages would leave at the end, after they were needed.
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
    int64_t timeout_ms; /* how long other ranks may keep this one waiting; 0 or less: 60,000 */
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
 * asynchronous NCCL error or the timeout aborts the communicator, so that the stream comes to its end, and is returned; so is the timeout of a
 * kernel on it that has waited for other ranks in vain. This takes the place of cudaStreamSynchronize wherever a rank may be lost. A stream that is being captured is refused:
 * cuda (-1 | cudaErrorStreamCaptureUnsupported | 0).
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
 * works. Refuses another direction (bad_direction), NULL for a side that has rows (bad_row: 0 source, 1 target | -1 | its rows), and a source
 * and a target that overlap (bad_row: -1 | 0 | 0). While a capture that has a run of it goes on, other streams are refused
 * (cuda: -1 | cudaErrorStreamCaptureIsolation | 0).
 *
 * Fails with timeout where an earlier run of the group has been in flight for longer than that; it must be longer than
 * what streams hold takes. Some 128 runs of a group can be in flight: one more waits for the end of one of them, long before CUDA itself
 * would block where nobody can abort. None of this is so in a capture.
 *
 * NVTX domain "cproute", with Megatron-LM's names: cp_layout/thd/swap/zigzag_to_contiguous, say, and in it pack, all_to_all and
 * scatter; cpr_cuda_exchange_create has cp_layout/thd/route/..., and DIRECT conversions cp_layout/thd/direct/...
 */
CPR_API cpr_status cpr_cuda_exchange_run(cpr_cuda_exchange *exchange, cpr_direction direction,
                                         const void *source, void *target, cudaStream_t stream,
                                         cpr_error *error);

/* Device memory that it holds, in bytes. */
CPR_API size_t cpr_cuda_exchange_bytes(const cpr_cuda_exchange *exchange);

/*==============================================================================
 * MARK: - Windows
 *============================================================================*/

/* Memory of every rank that all ranks of the group can write to, where they have load/store access to each other (NVLink); else just memory
 * of this rank, so that the same program runs everywhere. Windows live until they are released as often as they were asked for, and must
 * be released before their group is freed. */
typedef struct cpr_cuda_window cpr_cuda_window;

/*
 * Collective, with the same `bytes` > 0 on every rank. `memory` (device pointer) is registered, which takes a while and is done once: if
 * all ranks ask for what they asked for before, they get the same window. It must come from ncclMemAlloc, or from an allocator that calls
 * it, and begin at a multiple of 4,096 (unreachable: -1 | 0 | cp_size). NULL: the window brings memory of its own. Fails as
 * cpr_cuda_group_create does, with overflow for no bytes, or with divergent_metadata where ranks ask for different windows.
 */
CPR_API cpr_status cpr_cuda_window_create(cpr_cuda_group *group, void *memory, size_t bytes,
                                          const cpr_allocator *allocator, cpr_cuda_window **window,
                                          cpr_error *error);

/* NULL is allowed. Nothing may write to it any more, from any rank. Not collective. */
CPR_API void cpr_cuda_window_release(cpr_cuda_window *window);

CPR_API void *cpr_cuda_window_memory(const cpr_cuda_window *window);

/* Can other ranks write to it? The same on every rank. */
CPR_API bool cpr_cuda_window_is_shared(const cpr_cuda_window *window);

/*==============================================================================
 * MARK: - Conversions, with or without a route
 *============================================================================*/

/*
 * How rows move.
 *   ROUTE   a route is built from offsets on the host, and rows are packed, exchanged by NCCL and scattered: everywhere.
 *   DIRECT  there is no route: one kernel finds the place of every row in the offsets as they lie on the device, and writes it
 *           straight into the target of the rank that it belongs to. Nothing is built, kept, packed or synchronised, and nothing can
 *           go stale. All ranks must have load/store access to each other, and targets must lie in windows.
 *   AUTO    DIRECT where every rank can take part in it, else ROUTE.
 */
typedef enum cpr_cuda_method { CPR_CUDA_AUTO = 0, CPR_CUDA_ROUTE = 1, CPR_CUDA_DIRECT = 2 } cpr_cuda_method;

typedef struct cpr_cuda_conversion_request {
    cpr_cu_seqlens
        on_device; /* for DIRECT: device = CPR_CUDA, aligned to its type. Read by each run, in stream order: entries may change
                                 between runs, as between replays of a graph; data NULL: there are none, and AUTO is ROUTE */
    cpr_cu_seqlens
        on_host; /* for ROUTE: the same entries, read whenever the route is built or checked; data NULL: there are none */
    int64_t rows; /* of one rank, in every source and target: T / P */
    size_t row_bytes;
    cpr_layout source, target;
    int64_t tp_size; /* as in cpr_route_request */
    cpr_cuda_method method;
} cpr_cuda_conversion_request;

/*
 * Runs of one conversion must be in stream order. For conversions that overlap make one each, up to 16 of DIRECT in a group; every rank
 * must then enqueue those that share a stream in the same order.
 *
 * A kernel of DIRECT waits on the device for those of the other ranks, and holds its place meanwhile. It has one block of 256 threads for every 32 KB
 * of a rank's rows, at most one for each multiprocessor; a multiprocessor of an H200 takes four. So up to four such kernels on a device, of all its groups, may
 * come up in another order on another rank; of more, ranks can each be full of those that the other ones have not begun, until the timeout. The
 * same goes for kernels of NCCL that wait for other ranks beside them. Let streams with more of them wait for each other by events.
 * Nor may a rank get some 100 runs ahead on one stream of another that begins with another stream: its host is held up, as
 * cpr_cuda_exchange_run tells, and does not come to what the other one waits for.
 */
typedef struct cpr_cuda_conversion cpr_cuda_conversion;

/*
 * Collective. Both views are read whenever the conversion runs, so what they point to must outlive it. The caller frees *conversion with
 * cpr_cuda_conversion_free. Fails as cpr_cuda_exchange_create does; DIRECT with unreachable where not every rank can write to every
 * other one; overflow (-1 | 17 | 16) for too many conversions; ROUTE as cpr_route_build does of on_host.
 */
CPR_API cpr_status cpr_cuda_conversion_create(cpr_cuda_group *group,
                                              const cpr_cuda_conversion_request *request,
                                              const cpr_allocator *allocator,
                                              cpr_cuda_conversion **conversion, cpr_error *error);

/* NULL is allowed. As cpr_cuda_exchange_free. */
CPR_API void cpr_cuda_conversion_free(cpr_cuda_conversion *conversion);

/* ROUTE or DIRECT: what was chosen. */
CPR_API cpr_cuda_method cpr_cuda_conversion_method(const cpr_cuda_conversion *conversion);

/*
 * Collective: enqueues the conversion of `source` into `target` (device pointers, request.rows rows each) on `stream`, and returns.
 * Backward is the conversion back, and the adjoint; with DIRECT it takes the offsets as they are then. Works in a capture. No
 * host-device synchronisation, no allocation. Any alignment; faster if aligned as cpr_cuda_exchange_run says.
 *
 * Source and target must not overlap: bad_row (-1 | 0 | 0). With DIRECT, the target must lie in a window of the group (unreachable: -1 | 0 | cp_size),
 * at the same place on every rank, unless it has no rows. A rank whose call is refused takes part all the same, so that the others learn of it: they find peer_failed.
 *
 * DIRECT judges offsets on the device, by the rules and in the order of cpr_route_build. If those of any rank are wrong, or ranks have different
 * ones, no row is written on any rank, and the targets stay as they were; each rank then has an error to be read with
 * cpr_cuda_conversion_check: its own, or peer_failed (first such rank | its status | 0), or divergent_metadata (first rank that
 * differs | its digest | that of rank 0). A run returns it too, of an earlier run, unless its own call is refused: this run
 * is enqueued all the same. Each error is told once; of several that nobody asked about, the last.
 *
 * ROUTE compares on_host with what its route was built from, and refuses other offsets with capture_layout_change before anything is
 * enqueued: call cpr_cuda_conversion_refill after writing them.
 */
CPR_API cpr_status cpr_cuda_conversion_run(cpr_cuda_conversion *conversion, cpr_direction direction,
                                           const void *source, void *target, cudaStream_t stream,
                                           cpr_error *error);

/* Has a run so far found anything wrong? Waits for nothing: a run that has not come to its end has found nothing yet. */
CPR_API cpr_status cpr_cuda_conversion_check(cpr_cuda_conversion *conversion, cpr_error *error);

/* Says that offsets have changed. Collective with ROUTE, which builds the route anew (graphs that captured the old one must not run any
 * more); with DIRECT there is nothing to do. */
CPR_API cpr_status cpr_cuda_conversion_refill(cpr_cuda_conversion *conversion, cpr_error *error);

/*==============================================================================
 * MARK: - All ranks on one device
 *============================================================================*/

/* A group of simulated ranks in one process on one device: the kernels of an exchange, with copies in place of NCCL. For
 * tests of any cp_size where there is one GPU. */
typedef struct cpr_cuda_simulation cpr_cuda_simulation;

/* routes[r] is the route of rank r. Fails as cpr_exchange_host does up to split_mismatch and runs, or with bad_cp_size, internal
 * (rank | 0 | 0) for a NULL route, overflow, no_memory and cuda. The caller frees *simulation with cpr_cuda_simulation_free. */
CPR_API cpr_status cpr_cuda_simulation_create(const cpr_route *const *routes, int64_t cp_size,
                                              size_t row_bytes, const cpr_allocator *allocator,
                                              cpr_cuda_simulation **simulation, cpr_error *error);

/* NULL is allowed. */
CPR_API void cpr_cuda_simulation_free(cpr_cuda_simulation *simulation);

/* As cpr_cuda_exchange_run, for all ranks: sources[r] and targets[r] (host arrays of device pointers) are rank r's. Targets must be apart
 * from what other ranks have too (bad_row: rank of the target | the other rank | 0). */
CPR_API cpr_status cpr_cuda_simulation_run(cpr_cuda_simulation *simulation, cpr_direction direction,
                                           const void *const *sources, void *const *targets,
                                           cudaStream_t stream, cpr_error *error);

/* The same for conversions without a route: up to 16 ranks, in one launch. on_device[r] are rank r's offsets; of `request` the views and the
 * method are not read. The caller frees *simulation with cpr_cuda_direct_simulation_free. Fails with what is wrong with the request, with
 * overflow, no_memory or cuda. */
typedef struct cpr_cuda_direct_simulation cpr_cuda_direct_simulation;
CPR_API cpr_status cpr_cuda_direct_simulation_create(const cpr_cuda_conversion_request *request,
                                                     const cpr_cu_seqlens *on_device, int64_t cp_size,
                                                     const cpr_allocator *allocator,
                                                     cpr_cuda_direct_simulation **simulation,
                                                     cpr_error *error);

/* NULL is allowed. Its runs must have ended. */
CPR_API void cpr_cuda_direct_simulation_free(cpr_cuda_direct_simulation *simulation);

/* As cpr_cuda_conversion_run, for all ranks; targets lie anywhere. */
CPR_API cpr_status cpr_cuda_direct_simulation_run(cpr_cuda_direct_simulation *simulation,
                                                  cpr_direction direction, const void *const *sources,
                                                  void *const *targets, cudaStream_t stream,
                                                  cpr_error *error);

/* As cpr_cuda_conversion_check, for one rank. */
CPR_API cpr_status cpr_cuda_direct_simulation_check(cpr_cuda_direct_simulation *simulation, int64_t rank,
                                                    cpr_error *error);

/*==============================================================================
 * MARK: - Kernels alone
 *============================================================================*/

/* The two kernels by themselves, for measurements and for transports of the caller's own: source rows into `message` in
 * sending order, and arrived rows from `message` to where they belong (device pointers), as cpr_pack and cpr_scatter do on the
 * host. Identities are copied. Refused as cpr_cuda_exchange_run is. */
CPR_API cpr_status cpr_cuda_pack(cpr_cuda_exchange *exchange, cpr_direction direction, const void *source,
                                 void *message, cudaStream_t stream, cpr_error *error);
CPR_API cpr_status cpr_cuda_scatter(cpr_cuda_exchange *exchange, cpr_direction direction, const void *message,
                                    void *target, cudaStream_t stream, cpr_error *error);

#ifdef __cplusplus
}
#endif

#endif
