/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on one device, all parts of a conversion in one launch: the same kernel, between boards that lie side by side. */
#include "allocator.h"
#include "capture.h"
#include "direct_member.h"
#include "error.h"
#include "plan.h"

enum { SIMULATED_TIMEOUT_MS = 20000 };

/* In pinned memory. */
typedef struct told_by_device {
    cpr_direct_report reports[CPR_DIRECT_MEMBERS];
    cpr_direct_watch watch;
} told_by_device;

struct cpr_cuda_direct_simulation {
    cpr_cuda_conversion_request request;
    int64_t cp_size;
    cpr_cu_seqlens on_device[CPR_DIRECT_MEMBERS];
    int blocks;
    char *boards;                  /* on the device, of one rank after the other */
    void **board_table, **targets; /* on the device */
    told_by_device *pinned;
    uint64_t told[CPR_DIRECT_MEMBERS];
    cpr_allocator allocator;
};

static cpr_geometry geometry_of(const cpr_cuda_direct_simulation *simulation, int64_t rank) {
    return (cpr_geometry){.cp_size = simulation->cp_size, .cp_rank = rank};
}

static cpr_status check(const cpr_cuda_conversion_request *request, int64_t cp_size, cpr_error *error) {
    *error = cpr_direct_request_refused(request, (cpr_geometry){.cp_size = cp_size, .cp_rank = 0});
    if (error->status == CPR_OK && cp_size > CPR_DIRECT_MEMBERS) {
        return cpr_fail(error, CPR_OVERFLOW, -1, cp_size, CPR_DIRECT_MEMBERS);
    }
    return error->status;
}

/* On a stream of its own, as an exchange's lists are. */
static cudaError_t fill(const cpr_cuda_direct_simulation *simulation, size_t board_bytes) {
    void *boards[CPR_DIRECT_MEMBERS];
    for (int64_t r = 0; r < simulation->cp_size; r++) {
        boards[r] = simulation->boards + (size_t)r * board_bytes;
    }
    cudaStream_t stream;
    cudaError_t result = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (result != cudaSuccess) {
        return result;
    }
    result = cudaMemsetAsync(simulation->boards, 0, (size_t)simulation->cp_size * board_bytes, stream);
    if (result == cudaSuccess) {
        result = cpr_direct_write_table(simulation->board_table, boards, (int)simulation->cp_size, stream);
    }
    if (result == cudaSuccess) {
        result = cudaStreamSynchronize(stream);
    }
    (void)cudaStreamDestroy(stream);
    return result;
}

/* One block of device memory: the boards, then both tables. */
static cudaError_t allocate(cpr_cuda_direct_simulation *simulation) {
    const size_t board_bytes = cpr_direct_board_bytes(simulation->cp_size);
    const size_t table_bytes = CPR_DIRECT_MEMBERS * sizeof(void *);
    const size_t boards_bytes = (size_t)simulation->cp_size * board_bytes;
    int device, multiprocessors = 1;
    cudaError_t result = cudaGetDevice(&device);
    if (result == cudaSuccess) {
        result = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    }
    if (result == cudaSuccess) {
        result = cudaMallocHost((void **)&simulation->pinned, sizeof *simulation->pinned);
    }
    if (result == cudaSuccess) {
        *simulation->pinned = (told_by_device){.watch = {.waited_ms = -1}};
        result = cudaMalloc((void **)&simulation->boards, boards_bytes + 2 * table_bytes);
    }
    if (result != cudaSuccess) {
        return result;
    }
    simulation->board_table = (void **)(void *)(simulation->boards + boards_bytes);
    simulation->targets = simulation->board_table + CPR_DIRECT_MEMBERS;
    simulation->blocks = cpr_direct_blocks(cpr_direct_bytes(&simulation->request), multiprocessors);
    return fill(simulation, board_bytes);
}

void cpr_cuda_direct_simulation_free(cpr_cuda_direct_simulation *simulation) {
    if (simulation == NULL) {
        return;
    }
    const cpr_allocator allocator = simulation->allocator;
    const cpr_capture_mode before = cpr_capture_set_aside();
    (void)cudaFree(simulation->boards);
    (void)cudaFreeHost(simulation->pinned);
    (void)cudaGetLastError();
    cpr_capture_resume(before);
    cpr_release(&allocator, simulation, 1, sizeof *simulation);
}

cpr_status cpr_cuda_direct_simulation_create(const cpr_cuda_conversion_request *request,
                                             const cpr_cu_seqlens *on_device, int64_t cp_size,
                                             const cpr_allocator *allocator,
                                             cpr_cuda_direct_simulation **simulation, cpr_error *error) {
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (check(request, cp_size, outcome) != CPR_OK) {
        return outcome->status;
    }
    cpr_cuda_direct_simulation *made = cpr_allocate(&chosen, 1, sizeof *made);
    if (made == NULL) {
        return cpr_fail_no_memory(outcome);
    }
    *made = (cpr_cuda_direct_simulation){.request = *request, .cp_size = cp_size, .allocator = chosen};
    for (int64_t r = 0; r < cp_size; r++) {
        made->on_device[r] = on_device[r];
    }
    const cpr_capture_mode before = cpr_capture_set_aside();
    const cudaError_t result = allocate(made);
    cpr_capture_resume(before);
    if (result != cudaSuccess) {
        cpr_cuda_direct_simulation_free(made);
        return cpr_cuda_failed(result, outcome);
    }
    *simulation = made;
    return cpr_succeed(outcome);
}

cpr_status cpr_cuda_direct_simulation_run(cpr_cuda_direct_simulation *simulation, cpr_direction direction,
                                          const void *const *sources, void *const *targets,
                                          cudaStream_t stream, cpr_error *error) {
    cpr_direct_member members[CPR_DIRECT_MEMBERS];
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    (void)cpr_succeed(outcome);
    size_t unit = 16;
    for (int64_t r = 0; r < simulation->cp_size; r++) {
        cpr_direct_member *member = &members[r];
        *member = cpr_direct_member_of(&simulation->request, &simulation->on_device[r],
                                       geometry_of(simulation, r), direction, sources[r], targets[r]);
        member->targets = simulation->targets;
        member->boards = simulation->board_table;
        member->report = &simulation->pinned->reports[r];
        member->watch = &simulation->pinned->watch;
        member->timeout_ms = SIMULATED_TIMEOUT_MS;
        const size_t of_rank = cpr_move_unit_bytes(member->row_bytes, sources[r], targets[r]);
        unit = of_rank < unit ? of_rank : unit;
        if (outcome->status == CPR_OK && member->refusal.status != CPR_OK) {
            *outcome = member->refusal;
        }
    }
    const int count = (int)simulation->cp_size;
    cudaError_t result = cpr_direct_write_table(simulation->targets, targets, count, stream);
    if (result == cudaSuccess) {
        result = cpr_direct_launch_together(members, count, unit, simulation->blocks, stream);
    }
    return result == cudaSuccess ? outcome->status : cpr_cuda_failed(result, outcome);
}

cpr_status cpr_cuda_direct_simulation_check(cpr_cuda_direct_simulation *simulation, int64_t rank,
                                            cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    const int64_t waited_ms = *(const volatile int64_t *)&simulation->pinned->watch.waited_ms;
    *outcome = waited_ms >= 0
                   ? cpr_found(CPR_TIMEOUT, -1, waited_ms, SIMULATED_TIMEOUT_MS)
                   : cpr_direct_report_read(&simulation->pinned->reports[rank], &simulation->told[rank]);
    return outcome->status;
}
