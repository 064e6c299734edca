/* SPDX-License-Identifier: Apache-2.0 */
/* What exchanges need of their group. */
#ifndef CPROUTE_CUDA_GROUP_H
#define CPROUTE_CUDA_GROUP_H

#include <nvtx3/nvToolsExt.h>

#include "cproute/cproute_cuda.h"
#include "direct.h"
#include "in_flight.h"
#include "ranges.h"
#include "verdict.h"
#include "window.h"

struct cpr_cuda_group {
    ncclComm_t comm;
    int rank, size;
    int device; /* that was current when it was made */
    int64_t timeout_ms;
    bool aborted;
    cpr_error failure;         /* CPR_OK so far */
    cudaStream_t stream;       /* on which ranks talk at creations */
    cpr_rank_record *sent;     /* one for each rank; pinned, so NCCL reads and writes it */
    cpr_rank_record *received; /* likewise, in the same block */
    cpr_error *findings;       /* likewise */
    cpr_direct_watch *watch;   /* likewise, of kernels that wait for other ranks */
    cpr_cuda_reach reach;
    cpr_in_flight in_flight;
    nvtxDomainHandle_t ranges;
    cpr_allocator allocator;
};

/* CPR_OK, or what made the group unusable before or, as NCCL says, meanwhile. */
cpr_status cpr_cuda_group_usable(cpr_cuda_group *group, cpr_error *error);

/* Is its device current? Else device: -1 | the current one, -1 for none | its own. */
cpr_status cpr_cuda_group_is_here(const cpr_cuda_group *group, cpr_error *error);

/* Make it unusable: the first error stays, and the communicator is aborted. Return the error. */
cpr_status cpr_cuda_group_fail(cpr_cuda_group *group, const cpr_error *failure, cpr_error *error);
cpr_status cpr_cuda_group_cuda_failed(cpr_cuda_group *group, cudaError_t result, cpr_error *error);
cpr_status cpr_cuda_group_nccl_failed(cpr_cuda_group *group, ncclResult_t result, cpr_error *error);

/* What enqueuing has met. A capture that CUDA has given up enqueues nothing on this rank, so the group lives on. */
cpr_status cpr_cuda_group_enqueue_failed(cpr_cuda_group *group, bool captured, cudaError_t result,
                                         cpr_error *error);

/* The end of an NCCL call: a communicator that does not block may go on with it for a while. */
cpr_status cpr_cuda_group_settle(cpr_cuda_group *group, ncclResult_t result, cpr_error *error);

/* Waits for a question to be answered by something else than cudaErrorNotReady, as cpr_cuda_group_wait does. */
typedef cudaError_t cpr_cuda_question(void *asked);
cpr_status cpr_cuda_group_await(cpr_cuda_group *group, cpr_cuda_question *question, void *asked,
                                cpr_error *error);

/* Is it captured? Fails if it cannot be asked; the group fails with it unless it is the caller's capture that is in the way. */
cpr_status cpr_cuda_group_ask_captured(cpr_cuda_group *group, cudaStream_t stream, bool *captured,
                                       cpr_error *error);

/* Before and after a run that is not captured. Fails where an earlier one has been in flight for the timeout; where many
 * are, waits for the marked one. */
cpr_status cpr_cuda_group_admit(cpr_cuda_group *group, cpr_error *error);
cudaError_t cpr_cuda_group_count_run(cpr_cuda_group *group, cudaStream_t stream);

/* After a failure: waits for the end of what `stream` holds, at most for the timeout. */
void cpr_cuda_group_drain(cpr_cuda_group *group, cudaStream_t stream);

/*
 * Collective: are all ranks ready? Fails with what is wrong with any of them; with `own`, if that is an error (the group fails with it
 * if it is cuda); or as cpr_cuda_group_wait does. `route` and row_bytes are read if `own` is CPR_OK and may then be NULL: no messages are spoken of.
 */
cpr_status cpr_cuda_group_agree(cpr_cuda_group *group, const cpr_error *own, const cpr_route *route,
                                size_t row_bytes, cpr_error *error);

/*
 * Collective: every rank tells all others its record, which is completed with its place, and with `own` if that is an error; the others' are then in
 * group->received. Fails as cpr_cuda_group_agree does up to divergent_metadata.
 */
cpr_status cpr_cuda_group_tell(cpr_cuda_group *group, const cpr_error *own, cpr_rank_record record,
                               cpr_error *error);

void cpr_cuda_range_begin(const cpr_cuda_group *group, const char *name);
void cpr_cuda_range_end(const cpr_cuda_group *group);

#endif
