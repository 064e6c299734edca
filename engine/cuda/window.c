/* SPDX-License-Identifier: Apache-2.0 */
#include "window.h"

#include "allocator.h"
#include "capture.h"
#include "direct.h"
#include "error.h"
#include "group.h"
#include "lsa.h"
#include "plan.h"

/* Of NCCL, which in a group that it is not asked in finds out nothing, and fails on the one rank where it finds another. */
enum { WINDOW_ALIGNMENT = 4096 };

static cpr_rank_record record_of(uint64_t digest, int64_t rows) {
    return (cpr_rank_record){.digest = digest, .rows = rows};
}

/* NCCL shares no memory in a group of one, which needs none but its own. */
static bool is_alone(const cpr_cuda_group *group) {
    return group->size == 1;
}

static bool is_mapped(const cpr_cuda_window *window) {
    return is_alone(window->group) || cpr_lsa_is_mapped(window->handle);
}

/* The least of what all ranks told. */
static int64_t least_told(const cpr_cuda_group *group) {
    int64_t least = INT64_MAX;
    for (int r = 0; r < group->size; r++) {
        least = group->received[r].rows < least ? group->received[r].rows : least;
    }
    return least;
}

/*==============================================================================
 * MARK: - Making
 *============================================================================*/

static cpr_cuda_window *find(const cpr_cuda_group *group, const void *memory, size_t bytes) {
    cpr_cuda_window *window = memory == NULL ? NULL : group->reach.windows;
    while (window != NULL && (window->memory != memory || window->bytes != bytes)) {
        window = window->next;
    }
    return window;
}

/* What freeing reports is of an earlier call, which reported it. */
static void destroy(cpr_cuda_window *window) {
    const cpr_allocator allocator = window->allocator;
    if (window->handle != NULL && !window->group->aborted) {
        (void)cpr_lsa_deregister(window->group->comm, window->handle);
    }
    (void)cudaFree(window->bases);
    if (window->allocated && window->memory != NULL) {
        (void)ncclMemFree(window->memory);
    }
    (void)cudaGetLastError();
    cpr_release(&allocator, window, 1, sizeof *window);
}

/* What this rank needs by itself. */
static cpr_status prepare(cpr_cuda_group *group, void *memory, size_t bytes, const cpr_allocator *allocator,
                          cpr_cuda_window **made, cpr_error *error) {
    if (bytes == 0) {
        return cpr_fail(error, CPR_OVERFLOW, -1, 0, 1);
    }
    if ((uintptr_t)memory % WINDOW_ALIGNMENT != 0) {
        return cpr_fail(error, CPR_UNREACHABLE, -1, 0, group->size);
    }
    if (cpr_cuda_group_is_here(group, error) != CPR_OK) {
        return error->status;
    }
    cpr_cuda_window *window = cpr_allocate(allocator, 1, sizeof *window);
    if (window == NULL) {
        return cpr_fail_no_memory(error);
    }
    *window = (cpr_cuda_window){
        .group = group, .uses = 1, .memory = memory, .bytes = bytes, .allocator = *allocator};
    if (memory == NULL) {
        window->allocated = ncclMemAlloc((void **)&window->memory, bytes) == ncclSuccess;
    }
    const cudaError_t result =
        window->memory == NULL
            ? cudaErrorMemoryAllocation
            : cudaMalloc((void **)&window->bases, (size_t)group->size * sizeof *window->bases);
    if (result != cudaSuccess) {
        window->bases = NULL;
        destroy(window);
        return cpr_cuda_failed(result, error);
    }
    *made = window;
    return cpr_succeed(error);
}

static cudaError_t is_stream_done(void *stream) {
    return cudaStreamQuery(*(cudaStream_t *)stream);
}

/* Of one's own, the address that it is known by here: the other one is an alias. */
static cudaError_t find_bases(const cpr_cuda_window *window) {
    const cpr_cuda_group *group = window->group;
    const cudaError_t result = is_alone(group)
                                   ? cudaSuccess
                                   : cpr_lsa_bases(window->handle, group->size, window->bases, group->stream);
    return result != cudaSuccess
               ? result
               : cudaMemcpyAsync(&window->bases[group->rank], &window->memory, sizeof window->memory,
                                 cudaMemcpyHostToDevice, group->stream);
}

static cpr_status map(cpr_cuda_window *window, cpr_error *error) {
    cpr_cuda_group *group = window->group;
    if (!is_alone(group)) {
        const ncclResult_t begun =
            cpr_lsa_register(group->comm, window->memory, window->bytes, &window->handle);
        if (cpr_cuda_group_settle(group, begun, error) != CPR_OK) {
            return error->status;
        }
    }
    if (!is_mapped(window)) {
        return cpr_succeed(error);
    }
    const cudaError_t result = find_bases(window);
    if (result != cudaSuccess) {
        return cpr_cuda_group_cuda_failed(group, result, error);
    }
    return cpr_cuda_group_await(group, is_stream_done, &group->stream, error);
}

/* Registered on all ranks or on none. */
static cpr_status share(cpr_cuda_window *window, cpr_error *error) {
    cpr_cuda_group *group = window->group;
    cpr_error own;
    if (map(window, &own) != CPR_OK) {
        *error = own;
        return error->status;
    }
    if (cpr_cuda_group_tell(group, &own, record_of(0, is_mapped(window)), error) != CPR_OK) {
        return error->status;
    }
    window->shared = least_told(group) != 0;
    if (!window->shared && window->handle != NULL) {
        (void)cpr_lsa_deregister(group->comm, window->handle);
        window->handle = NULL;
    }
    return CPR_OK;
}

/* Ranks agree on what they ask for: its size, and which they have already. */
static cpr_status make(cpr_cuda_group *group, void *memory, size_t bytes, const cpr_allocator *allocator,
                       cpr_cuda_window **made, cpr_error *error) {
    cpr_cuda_window *known = find(group, memory, bytes);
    cpr_cuda_window *window = NULL;
    cpr_error own;
    (void)cpr_succeed(&own);
    if (known == NULL) {
        (void)prepare(group, memory, bytes, allocator, &window, &own);
    }
    const uint64_t asked = cpr_stirred_in(bytes, known != NULL ? (uint64_t)known->number + 1 : 0);
    cpr_status status = cpr_cuda_group_tell(group, &own, record_of(asked, 0), error);
    if (status == CPR_OK && known != NULL) {
        known->uses++;
        *made = known;
        return CPR_OK;
    }
    if (status == CPR_OK && group->reach.all) {
        status = share(window, error);
    }
    if (status != CPR_OK) {
        if (window != NULL) {
            destroy(window);
        }
        return status;
    }
    window->number = group->reach.windows_made++;
    window->next = group->reach.windows;
    group->reach.windows = window;
    *made = window;
    return CPR_OK;
}

/*==============================================================================
 * MARK: - Reach
 *============================================================================*/

static cpr_status make_board(cpr_cuda_group *group, cpr_error *error) {
    cpr_cuda_reach *reach = &group->reach;
    const size_t bytes = cpr_direct_board_bytes(group->size);
    cpr_error own;
    if (make(group, NULL, bytes, &group->allocator, &reach->board, error) != CPR_OK) {
        return error->status;
    }
    const cudaError_t result = cudaMemsetAsync(reach->board->memory, 0, bytes, group->stream);
    if (result != cudaSuccess) {
        return cpr_cuda_group_cuda_failed(group, result, error);
    }
    /* Nobody writes to a board before all are blank. */
    if (cpr_cuda_group_await(group, is_stream_done, &group->stream, &own) != CPR_OK) {
        *error = own;
        return error->status;
    }
    return cpr_cuda_group_tell(group, &own, record_of(0, 0), error);
}

cpr_status cpr_cuda_reach_find(cpr_cuda_group *group, cpr_error *error) {
    cpr_cuda_reach *reach = &group->reach;
    if (reach->known) {
        return cpr_succeed(error);
    }
    cpr_error own;
    (void)cpr_cuda_group_is_here(group, &own);
    const cudaError_t result =
        cudaDeviceGetAttribute(&reach->multiprocessors, cudaDevAttrMultiProcessorCount, group->device);
    if (result != cudaSuccess) {
        return cpr_cuda_group_cuda_failed(group, result, error);
    }
    reach->team_size = is_alone(group) ? 1 : cpr_lsa_team_size(group->comm);
    if (cpr_cuda_group_tell(group, &own, record_of(0, reach->team_size), error) != CPR_OK) {
        return error->status;
    }
    reach->all = least_told(group) == group->size;
    if (cpr_cuda_group_tell(group, &own, record_of(0, reach->multiprocessors), error) != CPR_OK) {
        return error->status;
    }
    reach->multiprocessors = (int)least_told(group);
    if (reach->all && make_board(group, error) != CPR_OK) {
        return error->status;
    }
    reach->all = reach->all && reach->board->shared;
    reach->known = true;
    return cpr_succeed(error);
}

void cpr_cuda_reach_end(cpr_cuda_group *group) {
    while (group->reach.windows != NULL) {
        cpr_cuda_window *window = group->reach.windows;
        group->reach.windows = window->next;
        destroy(window);
    }
}

/*==============================================================================
 * MARK: - For callers
 *============================================================================*/

cpr_status cpr_cuda_window_create(cpr_cuda_group *group, void *memory, size_t bytes,
                                  const cpr_allocator *allocator, cpr_cuda_window **window,
                                  cpr_error *error) {
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    const cpr_capture_mode before = cpr_capture_set_aside();
    if (cpr_cuda_group_usable(group, outcome) == CPR_OK && cpr_cuda_reach_find(group, outcome) == CPR_OK &&
        make(group, memory, bytes, &chosen, window, outcome) == CPR_OK) {
        (void)cpr_succeed(outcome);
    }
    cpr_capture_resume(before);
    return outcome->status;
}

void cpr_cuda_window_release(cpr_cuda_window *window) {
    if (window == NULL || --window->uses > 0) {
        return;
    }
    const cpr_capture_mode before = cpr_capture_set_aside();
    cpr_cuda_window **at = &window->group->reach.windows;
    while (*at != window) {
        at = &(*at)->next;
    }
    *at = window->next;
    destroy(window);
    cpr_capture_resume(before);
}

void *cpr_cuda_window_memory(const cpr_cuda_window *window) {
    return window->memory;
}

bool cpr_cuda_window_is_shared(const cpr_cuda_window *window) {
    return window->shared;
}

const cpr_cuda_window *cpr_cuda_window_around(const cpr_cuda_group *group, const void *memory, size_t bytes) {
    const uintptr_t begin = (uintptr_t)memory;
    for (const cpr_cuda_window *window = group->reach.windows; window != NULL; window = window->next) {
        const uintptr_t base = (uintptr_t)window->memory;
        if (window->shared && begin >= base && begin - base <= window->bytes &&
            bytes <= window->bytes - (begin - base)) {
            return window;
        }
    }
    return NULL;
}
