/* SPDX-License-Identifier: Apache-2.0 */
#include "group.h"

#include "allocator.h"
#include "capture.h"
#include "direct.h"
#include "error.h"
#include "give_up.h"
#include "move_rows.h"
#include "plan.h"

enum {
    DEFAULT_TIMEOUT_MS = 60000,
    MOST_ABORT_MS = 5000, /* longer only if a graph holds the communicator */
    MOST_IN_FLIGHT = 128, /* runs: their launches are well below the thousand at which CUDA blocks */
    RUNS_BETWEEN_QUESTIONS = 16
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/*==============================================================================
 * MARK: - Failing
 *============================================================================*/

cpr_status cpr_cuda_group_fail(cpr_cuda_group *group, const cpr_error *failure, cpr_error *error) {
    if (group->failure.status == CPR_OK) {
        group->failure = *failure;
    }
    if (!group->aborted) {
        group->aborted = true;
        if (group->watch != NULL) {
            *(volatile int *)&group->watch->given_up = 1;
        }
        cpr_comm_give_up(group->comm, least(group->timeout_ms, MOST_ABORT_MS));
        (void)cudaGetLastError();
    }
    *error = group->failure;
    return error->status;
}

cpr_status cpr_cuda_group_cuda_failed(cpr_cuda_group *group, cudaError_t result, cpr_error *error) {
    cpr_error failure;
    (void)cudaGetLastError();
    (void)cpr_fail(&failure, CPR_CUDA_ERROR, -1, (int)result, 0);
    return cpr_cuda_group_fail(group, &failure, error);
}

cpr_status cpr_cuda_group_nccl_failed(cpr_cuda_group *group, ncclResult_t result, cpr_error *error) {
    cpr_error failure;
    (void)cpr_fail(&failure, CPR_NCCL_ERROR, -1, (int)result, 0);
    return cpr_cuda_group_fail(group, &failure, error);
}

static cpr_status timed_out_after(cpr_cuda_group *group, int64_t waited_ms, int64_t limit_ms,
                                  cpr_error *error) {
    cpr_error failure;
    (void)cpr_fail(&failure, CPR_TIMEOUT, -1, waited_ms, limit_ms);
    return cpr_cuda_group_fail(group, &failure, error);
}

static cpr_status timed_out(cpr_cuda_group *group, const cpr_deadline *deadline, cpr_error *error) {
    return timed_out_after(group, cpr_deadline_waited_ms(deadline), deadline->limit_ms, error);
}

/* For how long a kernel has waited for other ranks in vain; -1: none has. */
static int64_t waited_on_device_ms(const cpr_cuda_group *group) {
    return group->watch == NULL ? -1 : *(const volatile int64_t *)&group->watch->waited_ms;
}

/* What NCCL has met since it was last asked; ncclInProgress is no error. */
static ncclResult_t asynchronous(const cpr_cuda_group *group) {
    ncclResult_t met;
    const ncclResult_t result = ncclCommGetAsyncError(group->comm, &met);
    return result == ncclSuccess ? met : result;
}

static bool is_nccl_error(ncclResult_t result) {
    return result != ncclSuccess && result != ncclInProgress;
}

cpr_status cpr_cuda_group_usable(cpr_cuda_group *group, cpr_error *error) {
    if (group->failure.status != CPR_OK) {
        *error = group->failure;
        return error->status;
    }
    const int64_t waited_ms = waited_on_device_ms(group);
    if (waited_ms >= 0) {
        return timed_out_after(group, waited_ms, group->timeout_ms, error);
    }
    const ncclResult_t met = asynchronous(group);
    return is_nccl_error(met) ? cpr_cuda_group_nccl_failed(group, met, error) : cpr_succeed(error);
}

cpr_status cpr_cuda_group_is_here(const cpr_cuda_group *group, cpr_error *error) {
    int device = -1;
    if (cudaGetDevice(&device) != cudaSuccess) {
        (void)cudaGetLastError();
        device = -1;
    }
    return device == group->device ? cpr_succeed(error)
                                   : cpr_fail(error, CPR_DEVICE, -1, device, group->device);
}

/*==============================================================================
 * MARK: - Waiting
 *============================================================================*/

/* Asked after a success too: the registration of a window succeeds at once on a communicator that does not block, and goes on. */
cpr_status cpr_cuda_group_settle(cpr_cuda_group *group, ncclResult_t result, cpr_error *error) {
    const cpr_deadline deadline = cpr_deadline_in(group->timeout_ms);
    if (result == ncclSuccess) {
        result = asynchronous(group);
    }
    while (result == ncclInProgress) {
        if (cpr_deadline_passed(&deadline)) {
            return timed_out(group, &deadline, error);
        }
        cpr_deadline_pause(&deadline);
        result = asynchronous(group);
    }
    return result == ncclSuccess ? CPR_OK : cpr_cuda_group_nccl_failed(group, result, error);
}

static cudaError_t ask(cpr_cuda_question *question, void *asked) {
    const cpr_capture_mode before = cpr_capture_set_aside();
    const cudaError_t answer = question(asked);
    cpr_capture_resume(before);
    if (answer == cudaErrorNotReady) {
        (void)cudaGetLastError();
    }
    return answer;
}

/* After an abort, kernels of the communicator come to their end; who waited may then free what they used. */
static void await_end(const cpr_cuda_group *group, cpr_cuda_question *question, void *asked) {
    const cpr_deadline deadline = cpr_deadline_in(group->timeout_ms);
    while (ask(question, asked) == cudaErrorNotReady && !cpr_deadline_passed(&deadline)) {
        cpr_deadline_pause(&deadline);
    }
}

static cpr_status await_until(const cpr_deadline *deadline, cpr_cuda_group *group,
                              cpr_cuda_question *question, void *asked, cpr_error *error) {
    while (cpr_cuda_group_usable(group, error) == CPR_OK) {
        const cudaError_t answer = ask(question, asked);
        if (answer == cudaSuccess && waited_on_device_ms(group) < 0) {
            return cpr_succeed(error);
        }
        if (answer ==
            cudaSuccess) { /* a kernel ended because it was tired of waiting: the group is not usable */
            continue;
        }
        if (answer != cudaErrorNotReady) {
            return cpr_cuda_group_cuda_failed(group, answer, error);
        }
        if (cpr_deadline_passed(deadline)) {
            (void)timed_out(group, deadline, error);
        } else {
            cpr_deadline_pause(deadline);
        }
    }
    await_end(group, question, asked);
    return error->status;
}

cpr_status cpr_cuda_group_await(cpr_cuda_group *group, cpr_cuda_question *question, void *asked,
                                cpr_error *error) {
    const cpr_deadline deadline = cpr_deadline_in(group->timeout_ms);
    return await_until(&deadline, group, question, asked, error);
}

static cudaError_t is_stream_done(void *stream) {
    return cudaStreamQuery(*(cudaStream_t *)stream);
}

void cpr_cuda_group_drain(cpr_cuda_group *group, cudaStream_t stream) {
    await_end(group, is_stream_done, &stream);
}

static bool is_of_a_capture(cudaError_t result) {
    return result >= cudaErrorStreamCaptureUnsupported && result <= cudaErrorStreamCaptureWrongThread;
}

cpr_status cpr_cuda_group_enqueue_failed(cpr_cuda_group *group, bool captured, cudaError_t result,
                                         cpr_error *error) {
    return captured && is_of_a_capture(result) ? cpr_cuda_failed(result, error)
                                               : cpr_cuda_group_cuda_failed(group, result, error);
}

cpr_status cpr_cuda_group_ask_captured(cpr_cuda_group *group, cudaStream_t stream, bool *captured,
                                       cpr_error *error) {
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaError_t result = cudaStreamIsCapturing(stream, &status);
    if (result == cudaSuccess && status == cudaStreamCaptureStatusInvalidated) {
        result = cudaErrorStreamCaptureInvalidated;
    }
    *captured = status != cudaStreamCaptureStatusNone;
    if (result == cudaSuccess) {
        return CPR_OK;
    }
    return is_of_a_capture(result) ? cpr_cuda_failed(result, error)
                                   : cpr_cuda_group_cuda_failed(group, result, error);
}

cpr_status cpr_cuda_group_wait(cpr_cuda_group *group, cudaStream_t stream, cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    bool captured = false;
    if (group->failure.status == CPR_OK) {
        const cpr_status asked = cpr_cuda_group_ask_captured(group, stream, &captured, outcome);
        if (asked == CPR_OK && captured) {
            return cpr_cuda_failed(cudaErrorStreamCaptureUnsupported, outcome);
        }
        if (asked != CPR_OK && group->failure.status == CPR_OK) {
            return asked;
        }
    }
    return cpr_cuda_group_await(group, is_stream_done, &stream, outcome);
}

static cudaError_t is_event_done(void *event) {
    return cudaEventQuery(*(cudaEvent_t *)event);
}

cpr_status cpr_cuda_group_admit(cpr_cuda_group *group, cpr_error *error) {
    cpr_in_flight *runs = &group->in_flight;
    if (!runs->marked) {
        return CPR_OK;
    }
    const bool pressing = runs->later >= MOST_IN_FLIGHT || cpr_deadline_passed(&runs->deadline);
    if (!pressing && (runs->later % RUNS_BETWEEN_QUESTIONS != 0 ||
                      ask(is_event_done, &runs->marker) == cudaErrorNotReady)) {
        return CPR_OK;
    }
    if (await_until(&runs->deadline, group, is_event_done, &runs->marker, error) != CPR_OK) {
        return error->status;
    }
    runs->marked = false;
    return CPR_OK;
}

cudaError_t cpr_cuda_group_count_run(cpr_cuda_group *group, cudaStream_t stream) {
    cpr_in_flight *runs = &group->in_flight;
    if (runs->marked) {
        runs->later++;
        return cudaSuccess;
    }
    const cudaError_t result = cudaEventRecord(runs->marker, stream);
    if (result == cudaSuccess) {
        *runs = (cpr_in_flight){
            .marker = runs->marker, .marked = true, .deadline = cpr_deadline_in(group->timeout_ms)};
    }
    return result;
}

cpr_status cpr_cuda_group_check(cpr_cuda_group *group, cpr_error *error) {
    return cpr_cuda_group_usable(group, CPR_ERROR_OR_UNWANTED(error));
}

bool cpr_cuda_group_aborted(const cpr_cuda_group *group) {
    return group->aborted;
}

/*==============================================================================
 * MARK: - Agreeing
 *============================================================================*/

/* Blocks of `bytes` for and from every other rank: block r is rank r's, and blocks to send are `stride` bytes apart. */
typedef struct swap {
    const void *sent;
    size_t stride;
    void *received;
    size_t bytes;
} swap;

static ncclResult_t swap_with(const cpr_cuda_group *group, const swap *s, int peer) {
    const char *sent = (const char *)s->sent + (size_t)peer * s->stride;
    char *received = (char *)s->received + (size_t)peer * s->bytes;
    const ncclResult_t result = ncclSend(sent, s->bytes, ncclInt8, peer, group->comm, group->stream);
    return result == ncclSuccess ? ncclRecv(received, s->bytes, ncclInt8, peer, group->comm, group->stream)
                                 : result;
}

static ncclResult_t swap_with_all(const cpr_cuda_group *group, const swap *s) {
    ncclResult_t result = ncclGroupStart();
    if (result != ncclSuccess) {
        return result;
    }
    for (int peer = 0; peer < group->size && result == ncclSuccess; peer++) {
        result = peer == group->rank ? ncclSuccess : swap_with(group, s, peer);
    }
    const ncclResult_t end = ncclGroupEnd();
    return result == ncclSuccess ? end : result;
}

/* One's own block is not touched. */
static cpr_status swap_blocks(cpr_cuda_group *group, const swap *s, cpr_error *error) {
    if (cpr_cuda_group_settle(group, swap_with_all(group, s), error) != CPR_OK) {
        return error->status;
    }
    return cpr_cuda_group_await(group, is_stream_done, &group->stream, error);
}

/* Of a rank that has nothing to say but that it is there. */
static cpr_rank_record member_record(const cpr_cuda_group *group) {
    return (cpr_rank_record){.status = CPR_OK, .cp_rank = group->rank, .cp_size = group->size};
}

static cpr_status swap_records(cpr_cuda_group *group, const cpr_error *own, const cpr_route *route,
                               size_t row_bytes, cpr_error *error) {
    const uint64_t digest = own->status == CPR_OK && route != NULL ? cpr_route_digest(route) : 0;
    for (int peer = 0; peer < group->size; peer++) {
        group->sent[peer] = own->status != CPR_OK ? cpr_rank_record_failed(own->status)
                            : route != NULL       ? cpr_rank_record_of(route, digest, row_bytes, peer)
                                                  : member_record(group);
    }
    group->received[group->rank] = group->sent[group->rank];
    const size_t bytes = sizeof *group->sent;
    const swap records = {.sent = group->sent, .stride = bytes, .received = group->received, .bytes = bytes};
    return swap_blocks(group, &records, error);
}

/* Every rank sends the same finding to all. */
static cpr_status swap_findings(cpr_cuda_group *group, cpr_error *error) {
    const swap findings = {
        .sent = &group->findings[group->rank], .received = group->findings, .bytes = sizeof *group->findings};
    return swap_blocks(group, &findings, error);
}

/* Of this rank, once all others know of it. */
static cpr_status own_failure(cpr_cuda_group *group, const cpr_error *own, cpr_error *error) {
    if (own->status == CPR_CUDA_ERROR) {
        return cpr_cuda_group_fail(group, own, error);
    }
    *error = *own;
    return error->status;
}

cpr_status cpr_cuda_group_tell(cpr_cuda_group *group, const cpr_error *own, cpr_rank_record record,
                               cpr_error *error) {
    record.status = own->status;
    record.cp_rank = group->rank;
    record.cp_size = group->size;
    for (int peer = 0; peer < group->size; peer++) {
        group->sent[peer] = own->status == CPR_OK ? record : cpr_rank_record_failed(own->status);
    }
    group->received[group->rank] = group->sent[group->rank];
    const size_t bytes = sizeof *group->sent;
    const swap records = {.sent = group->sent, .stride = bytes, .received = group->received, .bytes = bytes};
    if (swap_blocks(group, &records, error) != CPR_OK) {
        return error->status;
    }
    (void)cpr_verdict_on_ranks(group->received, group->size, error);
    return own->status == CPR_OK ? error->status : own_failure(group, own, error);
}

cpr_status cpr_cuda_group_agree(cpr_cuda_group *group, const cpr_error *own, const cpr_route *route,
                                size_t row_bytes, cpr_error *error) {
    if (swap_records(group, own, route, row_bytes, error) != CPR_OK) {
        return error->status;
    }
    const cpr_status on_ranks = cpr_verdict_on_ranks(group->received, group->size, error);
    if (own->status != CPR_OK) {
        return own_failure(group, own, error);
    }
    if (on_ranks != CPR_OK || route == NULL) {
        return error->status;
    }
    (void)cpr_verdict_on_messages(group->received, route, &group->findings[group->rank]);
    if (swap_findings(group, error) != CPR_OK) {
        return error->status;
    }
    return cpr_verdict_chosen(group->findings, group->size, error);
}

/*==============================================================================
 * MARK: - Creating and freeing
 *============================================================================*/

static cpr_status join(cpr_cuda_group *group, cpr_error *error) {
    if (cpr_cuda_group_settle(group, asynchronous(group), error) != CPR_OK) {
        return error->status;
    }
    ncclResult_t result = ncclCommCount(group->comm, &group->size);
    if (result == ncclSuccess) {
        result = ncclCommUserRank(group->comm, &group->rank);
    }
    return result == ncclSuccess ? CPR_OK : cpr_cuda_group_nccl_failed(group, result, error);
}

static cudaError_t load_kernels(void) {
    const cudaError_t result = cpr_move_rows_load();
    return result == cudaSuccess ? cpr_direct_load() : result;
}

/* Without this the rank can tell nobody, so others learn of it by their timeout. */
static cpr_status prepare_to_talk(cpr_cuda_group *group, cpr_error *error) {
    const size_t ranks = (size_t)group->size;
    const size_t records = ranks * sizeof(cpr_rank_record);
    cudaError_t result = cudaGetDevice(&group->device);
    if (result == cudaSuccess) {
        result = cudaStreamCreateWithFlags(&group->stream, cudaStreamNonBlocking);
    }
    if (result == cudaSuccess) {
        result = cudaMallocHost((void **)&group->sent,
                                2 * records + ranks * sizeof(cpr_error) + sizeof *group->watch);
    }
    if (result == cudaSuccess) {
        result = cudaEventCreateWithFlags(&group->in_flight.marker, cudaEventDisableTiming);
    }
    if (result == cudaSuccess) {
        result = load_kernels();
    }
    if (result == cudaErrorMemoryAllocation) {
        return cpr_cuda_failed(result, error);
    }
    if (result != cudaSuccess) {
        return cpr_cuda_group_cuda_failed(group, result, error);
    }
    group->received = group->sent + ranks;
    group->findings = (cpr_error *)(group->received + ranks);
    group->watch = (cpr_direct_watch *)(group->findings + ranks);
    *group->watch = (cpr_direct_watch){.waited_ms = -1};
    return CPR_OK;
}

/* What freeing reports is of an earlier call, which reported it. */
static void free_resources(cpr_cuda_group *group) {
    cpr_cuda_reach_end(group);
    if (group->stream != NULL) {
        (void)cudaStreamDestroy(group->stream);
    }
    if (group->in_flight.marker != NULL) {
        (void)cudaEventDestroy(group->in_flight.marker);
    }
    (void)cudaFreeHost(group->sent);
    (void)cudaGetLastError();
    if (group->ranges != NULL) {
        nvtxDomainDestroy(group->ranges);
    }
}

/* Memory for the object is asked for before ranks agree, and lack of it told to them. */
static cpr_status agree_on_group(cpr_cuda_group *group, cpr_cuda_group **made, cpr_error *error) {
    cpr_error own;
    cpr_cuda_group *kept = cpr_allocate(&group->allocator, 1, sizeof *kept);
    (void)(kept != NULL ? cpr_succeed(&own) : cpr_fail_no_memory(&own));
    if (cpr_cuda_group_agree(group, &own, NULL, 0, error) != CPR_OK) {
        cpr_release(&group->allocator, kept, 1, sizeof *kept);
        return error->status;
    }
    group->ranges = nvtxDomainCreateA("cproute");
    *kept = *group;
    *made = kept;
    return cpr_succeed(error);
}

cpr_status cpr_cuda_group_create(ncclComm_t comm, const cpr_cuda_group_options *options,
                                 const cpr_allocator *allocator, cpr_cuda_group **group, cpr_error *error) {
    const int64_t timeout_ms = options != NULL ? options->timeout_ms : 0;
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    cpr_cuda_group made = {.comm = comm,
                           .timeout_ms = timeout_ms > 0 ? timeout_ms : DEFAULT_TIMEOUT_MS,
                           .allocator = cpr_allocator_chosen(allocator)};
    (void)cpr_succeed(&made.failure);
    const cpr_capture_mode before = cpr_capture_set_aside();
    if (join(&made, outcome) != CPR_OK || prepare_to_talk(&made, outcome) != CPR_OK ||
        agree_on_group(&made, group, outcome) != CPR_OK) {
        free_resources(&made);
    }
    cpr_capture_resume(before);
    return outcome->status;
}

void cpr_cuda_group_free(cpr_cuda_group *group) {
    if (group == NULL) {
        return;
    }
    const cpr_allocator allocator = group->allocator;
    const cpr_capture_mode before = cpr_capture_set_aside();
    free_resources(group);
    cpr_capture_resume(before);
    cpr_release(&allocator, group, 1, sizeof *group);
}

/*==============================================================================
 * MARK: - Ranges
 *============================================================================*/

void cpr_cuda_range_begin(const cpr_cuda_group *group, const char *name) {
    const nvtxEventAttributes_t range = {.version = NVTX_VERSION,
                                         .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                         .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                         .message = {.ascii = name}};
    (void)nvtxDomainRangePushEx(group->ranges, &range);
}

void cpr_cuda_range_end(const cpr_cuda_group *group) {
    (void)nvtxDomainRangePop(group->ranges);
}
