/* SPDX-License-Identifier: Apache-2.0 */
/* One interface for both ways: an exchange by a route, and the kernel that needs none. */
#include "allocator.h"
#include "capture.h"
#include "direct_member.h"
#include "error.h"
#include "group.h"
#include "plan.h"

struct cpr_cuda_conversion {
    cpr_cuda_group *group;
    cpr_cuda_conversion_request request;
    cpr_cuda_method method;
    cpr_range_names names[2]; /* [CPR_FORWARD] and [CPR_BACKWARD] */
    /* ROUTE */
    cpr_cuda_exchange *exchange;
    uint64_t built_from; /* digest of on_host */
    /* DIRECT */
    int64_t channel;
    int blocks;
    cpr_direct_report *report; /* pinned */
    uint64_t told;             /* errors of it that the caller knows */
    cudaEvent_t ended;
    cpr_allocator allocator;
};

static cpr_geometry geometry_of(const cpr_cuda_group *group) {
    return (cpr_geometry){.cp_size = group->size, .cp_rank = group->rank};
}

/*==============================================================================
 * MARK: - By a route
 *============================================================================*/

static uint64_t digest_of(const cpr_cu_seqlens *on_host) {
    const cpr_offsets offsets = cpr_offsets_of(on_host);
    const cpr_conversion_facts no_rules = {.ranks = 1};
    return cpr_offsets_scanned(&offsets, &no_rules, 0, 1).digest;
}

/* Collective; a rank without a route takes part and returns why it has none. */
static cpr_status build_exchange(cpr_cuda_conversion *conversion, cpr_cuda_exchange **exchange,
                                 cpr_error *error) {
    const cpr_cuda_conversion_request *request = &conversion->request;
    const cpr_route_request route_request = {
        .cu_seqlens = request->on_host,
        .rows = request->rows * conversion->group->size,
        .geometry = geometry_of(conversion->group),
        .source = request->source,
        .target = request->target,
        .tp_size = request->tp_size,
    };
    cpr_route *route = NULL;
    cpr_error own;
    (void)cpr_route_build(&route_request, &conversion->allocator, &route, &own);
    if (cpr_cuda_group_tell(conversion->group, &own, (cpr_rank_record){0}, error) == CPR_OK &&
        cpr_cuda_exchange_create(conversion->group, route, request->row_bytes, &conversion->allocator,
                                 exchange, error) == CPR_OK) {
        conversion->built_from = digest_of(&request->on_host);
    }
    cpr_route_free(route);
    return error->status;
}

static cpr_status run_by_route(cpr_cuda_conversion *conversion, cpr_direction direction, const void *source,
                               void *target, cudaStream_t stream, cpr_error *error) {
    if (cpr_cuda_group_usable(conversion->group, error) != CPR_OK) {
        return error->status;
    }
    if (digest_of(&conversion->request.on_host) != conversion->built_from) {
        return cpr_fail(error, CPR_CAPTURE_LAYOUT_CHANGE, -1, 0, 0);
    }
    return cpr_cuda_exchange_run(conversion->exchange, direction, source, target, stream, error);
}

/*==============================================================================
 * MARK: - Without a route
 *============================================================================*/

static void refuse_target(const cpr_cuda_conversion *conversion, cpr_direct_member *member) {
    if (member->refusal.status == CPR_OK) {
        member->refusal = cpr_found(CPR_UNREACHABLE, -1, 0, conversion->group->size);
    }
}

static cpr_direct_member member_of(const cpr_cuda_conversion *conversion, cpr_direction direction,
                                   const void *source, const void *target) {
    const cpr_cuda_conversion_request *request = &conversion->request;
    const cpr_cuda_group *group = conversion->group;
    cpr_direct_member member =
        cpr_direct_member_of(request, &request->on_device, geometry_of(group), direction, source, target);
    member.boards = group->reach.board->bases;
    member.channel = conversion->channel;
    member.report = conversion->report;
    member.watch = group->watch;
    member.timeout_ms = group->timeout_ms;
    const size_t bytes = (size_t)cpr_direct_bytes(request);
    if (bytes == 0) {
        return member; /* nothing is written, wherever the target is */
    }
    const cpr_cuda_window *window = cpr_cuda_window_around(group, target, bytes);
    if (window == NULL) {
        refuse_target(conversion, &member);
        return member;
    }
    member.targets = window->bases;
    member.target_offset = (size_t)((const char *)target - window->memory);
    member.call_digest =
        cpr_stirred_in(cpr_stirred_in(member.call_digest, (uint64_t)window->number), member.target_offset);
    return member;
}

/* For cpr_cuda_conversion_free and for the next run. What a graph replays is its owner's to wait for. */
static cudaError_t note_end(const cpr_cuda_conversion *conversion, cudaStream_t stream) {
    const cudaError_t result = cudaEventRecord(conversion->ended, stream);
    return result == cudaSuccess ? cpr_cuda_group_count_run(conversion->group, stream) : result;
}

static cpr_status run_directly(cpr_cuda_conversion *conversion, cpr_direction direction, const void *source,
                               void *target, cudaStream_t stream, cpr_error *error) {
    /* Looked at first, so that what is told is never of this run; kept for later if this call ends before it can tell. */
    uint64_t told = conversion->told;
    const cpr_error earlier = cpr_direct_report_read(conversion->report, &told);
    bool captured;
    if (cpr_cuda_group_usable(conversion->group, error) != CPR_OK ||
        cpr_cuda_group_is_here(conversion->group, error) != CPR_OK ||
        cpr_cuda_group_ask_captured(conversion->group, stream, &captured, error) != CPR_OK ||
        (!captured && cpr_cuda_group_admit(conversion->group, error) != CPR_OK)) {
        return error->status;
    }
    const cpr_direct_member member = member_of(conversion, direction, source, target);
    /* Windows begin at multiples of 4,096 at every rank. */
    const size_t unit =
        cpr_move_unit_bytes(member.row_bytes, source, (const void *)(uintptr_t)member.target_offset);
    const cpr_range_names *names = &conversion->names[direction == CPR_FORWARD ? CPR_FORWARD : CPR_BACKWARD];
    cpr_cuda_range_begin(conversion->group, names->text[CPR_RANGE_DIRECT]);
    cudaError_t result = cpr_direct_launch(&member, unit, conversion->blocks, stream);
    if (result == cudaSuccess && !captured) {
        result = note_end(conversion, stream);
    }
    cpr_cuda_range_end(conversion->group);
    if (result != cudaSuccess) {
        return cpr_cuda_group_enqueue_failed(conversion->group, captured, result, error);
    }
    conversion->told = told;
    *error = member.refusal.status != CPR_OK ? member.refusal : earlier;
    return error->status;
}

static cpr_status take_resources(cpr_cuda_conversion *conversion, cpr_error *error) {
    cudaError_t result = cudaMallocHost((void **)&conversion->report, sizeof *conversion->report);
    if (result != cudaSuccess) {
        conversion->report = NULL;
    } else {
        *conversion->report = (cpr_direct_report){.error = cpr_nothing_found()};
        result = cudaEventCreateWithFlags(&conversion->ended, cudaEventDisableTiming);
    }
    return result == cudaSuccess ? cpr_succeed(error) : cpr_cuda_failed(result, error);
}

/* The lowest channel that no rank uses. */
static cpr_status choose_channel(cpr_cuda_conversion *conversion, uint64_t used_by_any, cpr_error *error) {
    int64_t channel = 0;
    while (channel < CPR_DIRECT_CHANNELS && (used_by_any >> channel & 1) != 0) {
        channel++;
    }
    if (channel == CPR_DIRECT_CHANNELS) {
        return cpr_fail(error, CPR_OVERFLOW, -1, CPR_DIRECT_CHANNELS + 1, CPR_DIRECT_CHANNELS);
    }
    conversion->channel = channel;
    return cpr_succeed(error);
}

static cpr_status open_direct(cpr_cuda_conversion *conversion, uint64_t channels_used, cpr_error *error) {
    cpr_cuda_group *group = conversion->group;
    if (choose_channel(conversion, channels_used, error) != CPR_OK) {
        return error->status;
    }
    conversion->blocks =
        cpr_direct_blocks(cpr_direct_bytes(&conversion->request), group->reach.multiprocessors);
    cpr_error own;
    (void)take_resources(conversion, &own);
    if (cpr_cuda_group_tell(group, &own, (cpr_rank_record){0}, error) == CPR_OK) {
        group->reach.channels |= UINT64_C(1) << conversion->channel;
    }
    return error->status;
}

/*==============================================================================
 * MARK: - Creating and freeing
 *============================================================================*/

static bool takes_part_directly(const cpr_cuda_conversion_request *request) {
    return request->method != CPR_CUDA_ROUTE && request->on_device.data != NULL;
}

/* Methods that are asked for must be the same too. */
static uint64_t request_digest(const cpr_cuda_conversion_request *request) {
    uint64_t digest = cpr_stirred_in((uint64_t)request->source, (uint64_t)request->target);
    digest = cpr_stirred_in(digest, (uint64_t)request->rows);
    digest = cpr_stirred_in(digest, (uint64_t)request->tp_size);
    return cpr_stirred_in(digest, (uint64_t)request->method);
}

typedef struct agreement {
    bool all_directly;
    uint64_t channels_used;
} agreement;

static agreement agreement_of(const cpr_cuda_group *group) {
    agreement all = {.all_directly = group->reach.all};
    for (int r = 0; r < group->size; r++) {
        all.all_directly = all.all_directly && group->received[r].rows != 0;
        all.channels_used |= group->received[r].runs_digest;
    }
    return all;
}

static void release(cpr_cuda_conversion *conversion) {
    const cpr_allocator allocator = conversion->allocator;
    cpr_cuda_exchange_free(conversion->exchange);
    if (conversion->ended != NULL) {
        (void)cudaEventDestroy(conversion->ended);
    }
    (void)cudaFreeHost(conversion->report);
    (void)cudaGetLastError();
    cpr_release(&allocator, conversion, 1, sizeof *conversion);
}

static cpr_status prepare(cpr_cuda_group *group, const cpr_cuda_conversion_request *request,
                          const cpr_allocator *allocator, cpr_cuda_conversion **made, cpr_error *error) {
    *error = cpr_direct_request_refused(request, geometry_of(group));
    if (error->status != CPR_OK || cpr_cuda_group_is_here(group, error) != CPR_OK) {
        return error->status;
    }
    cpr_cuda_conversion *conversion = cpr_allocate(allocator, 1, sizeof *conversion);
    if (conversion == NULL) {
        return cpr_fail_no_memory(error);
    }
    *conversion = (cpr_cuda_conversion){.group = group, .request = *request, .allocator = *allocator};
    conversion->names[CPR_FORWARD] = cpr_range_names_of(request->source, request->target);
    conversion->names[CPR_BACKWARD] = cpr_range_names_of(request->target, request->source);
    *made = conversion;
    return cpr_succeed(error);
}

static cpr_status choose_method(cpr_cuda_conversion *conversion, cpr_error *error) {
    const cpr_cuda_group *group = conversion->group;
    const agreement all = agreement_of(group);
    if (!all.all_directly && conversion->request.method == CPR_CUDA_DIRECT) {
        return cpr_fail(error, CPR_UNREACHABLE, -1, group->reach.all ? 0 : group->reach.team_size,
                        group->size);
    }
    conversion->method = all.all_directly ? CPR_CUDA_DIRECT : CPR_CUDA_ROUTE;
    return all.all_directly ? open_direct(conversion, all.channels_used, error)
                            : build_exchange(conversion, &conversion->exchange, error);
}

static cpr_status create(cpr_cuda_group *group, const cpr_cuda_conversion_request *request,
                         const cpr_allocator *allocator, cpr_cuda_conversion **conversion, cpr_error *error) {
    cpr_error own;
    cpr_cuda_conversion *made = NULL;
    if (cpr_cuda_reach_find(group, error) != CPR_OK) {
        return error->status;
    }
    (void)prepare(group, request, allocator, &made, &own);
    const cpr_rank_record record = {.digest = request_digest(request),
                                    .row_bytes = request->row_bytes,
                                    .rows = takes_part_directly(request),
                                    .runs_digest = group->reach.channels};
    cpr_status status = cpr_cuda_group_tell(group, &own, record, error);
    if (status == CPR_OK) {
        status = choose_method(made, error);
    }
    if (status != CPR_OK) {
        if (made != NULL) {
            release(made);
        }
        return status;
    }
    *conversion = made;
    return CPR_OK;
}

cpr_status cpr_cuda_conversion_create(cpr_cuda_group *group, const cpr_cuda_conversion_request *request,
                                      const cpr_allocator *allocator, cpr_cuda_conversion **conversion,
                                      cpr_error *error) {
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    const cpr_capture_mode before = cpr_capture_set_aside();
    if (cpr_cuda_group_usable(group, outcome) == CPR_OK &&
        create(group, request, &chosen, conversion, outcome) == CPR_OK) {
        (void)cpr_succeed(outcome);
    }
    cpr_capture_resume(before);
    return outcome->status;
}

static cudaError_t is_event_done(void *event) {
    return cudaEventQuery(*(cudaEvent_t *)event);
}

void cpr_cuda_conversion_free(cpr_cuda_conversion *conversion) {
    if (conversion == NULL) {
        return;
    }
    const cpr_capture_mode before = cpr_capture_set_aside();
    if (conversion->method == CPR_CUDA_DIRECT) {
        cpr_error unwanted;
        (void)cpr_cuda_group_await(conversion->group, is_event_done, &conversion->ended, &unwanted);
        conversion->group->reach.channels &= ~(UINT64_C(1) << conversion->channel);
    }
    release(conversion);
    cpr_capture_resume(before);
}

cpr_cuda_method cpr_cuda_conversion_method(const cpr_cuda_conversion *conversion) {
    return conversion->method;
}

/*==============================================================================
 * MARK: - Running
 *============================================================================*/

cpr_status cpr_cuda_conversion_run(cpr_cuda_conversion *conversion, cpr_direction direction,
                                   const void *source, void *target, cudaStream_t stream, cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    return conversion->method == CPR_CUDA_DIRECT
               ? run_directly(conversion, direction, source, target, stream, outcome)
               : run_by_route(conversion, direction, source, target, stream, outcome);
}

cpr_status cpr_cuda_conversion_check(cpr_cuda_conversion *conversion, cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (conversion->method == CPR_CUDA_DIRECT) {
        *outcome = cpr_direct_report_read(conversion->report, &conversion->told);
        if (outcome->status != CPR_OK) {
            return outcome->status;
        }
    }
    return cpr_cuda_group_usable(conversion->group, outcome);
}

cpr_status cpr_cuda_conversion_refill(cpr_cuda_conversion *conversion, cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (cpr_cuda_group_usable(conversion->group, outcome) != CPR_OK ||
        conversion->method == CPR_CUDA_DIRECT) {
        return outcome->status;
    }
    cpr_cuda_exchange *exchange = NULL;
    const cpr_capture_mode before = cpr_capture_set_aside();
    if (build_exchange(conversion, &exchange, outcome) == CPR_OK) {
        cpr_cuda_exchange_free(conversion->exchange);
        conversion->exchange = exchange;
        (void)cpr_succeed(outcome);
    }
    cpr_capture_resume(before);
    return outcome->status;
}
