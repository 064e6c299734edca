/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include "error.h"
#include "move_rows.h"

enum {
    ALIGNMENT = 256,               /* as cudaMalloc's */
    BLOCKS_PER_MULTIPROCESSOR = 32 /* some waves of them, so that the last one is short */
};

cpr_status cpr_cuda_failed(cudaError_t result, cpr_error *error) {
    (void)cudaGetLastError();
    return result == cudaErrorMemoryAllocation ? cpr_fail_no_memory(error)
                                               : cpr_fail(error, CPR_CUDA_ERROR, -1, (int)result, 0);
}

static size_t aligned(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t buffer_bytes(const cpr_cuda_plan *plan, int side) {
    const cpr_row_side *lists = &plan->lists.sides[side];
    return lists->identity ? 0 : (size_t)lists->other_rows * plan->row_bytes;
}

static size_t numbers_bytes(const cpr_cuda_plan *plan) {
    return (size_t)plan->lists.number_count * sizeof *plan->lists.numbers;
}

static cpr_status check_bytes(const cpr_route *route, size_t row_bytes, cpr_error *error) {
    if (row_bytes == 0) {
        return cpr_fail(error, CPR_OVERFLOW, -1, 0, 1);
    }
    /* Half of what an int64 holds, so that both buffers together still fit. */
    const int64_t most = row_bytes > INT64_MAX / 4 ? 0 : INT64_MAX / 4 / (int64_t)row_bytes;
    const int64_t rows = route->send.rows > route->recv.rows ? route->send.rows : route->recv.rows;
    return rows > most ? cpr_fail(error, CPR_OVERFLOW, -1, rows, most) : CPR_OK;
}

/* One block of device memory: the numbers, then the buffers. */
static cudaError_t allocate(cpr_cuda_plan *plan) {
    size_t offsets[2];
    size_t bytes = aligned(numbers_bytes(plan));
    for (int side = CPR_SEND; side <= CPR_RECV; side++) {
        offsets[side] = bytes;
        bytes += aligned(buffer_bytes(plan, side));
    }
    const cudaError_t result = cudaMalloc(&plan->memory, bytes);
    if (result != cudaSuccess) {
        plan->memory = NULL;
        return result;
    }
    plan->memory_bytes = bytes;
    const int64_t *numbers = plan->lists.numbers;
    const int64_t *copy = plan->memory;
    plan->own = cpr_moves_moved(plan->lists.own, numbers, copy);
    for (int side = CPR_SEND; side <= CPR_RECV; side++) {
        plan->all[side] = cpr_row_list_moved(plan->lists.sides[side].all, numbers, copy);
        plan->others[side] = cpr_row_list_moved(plan->lists.sides[side].others, numbers, copy);
        plan->buffers[side] = buffer_bytes(plan, side) > 0 ? (char *)plan->memory + offsets[side] : NULL;
    }
    return cudaSuccess;
}

/* On a stream of its own: the default one would wait for whatever else is under way on the device. */
static cudaError_t upload(const cpr_cuda_plan *plan) {
    const cudaError_t result = cudaMemcpyAsync(plan->memory, plan->lists.numbers, numbers_bytes(plan),
                                               cudaMemcpyHostToDevice, plan->beside);
    return result == cudaSuccess ? cudaStreamSynchronize(plan->beside) : result;
}

static cudaError_t make_event(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, cudaEventDisableTiming);
}

static cudaError_t make_on_device(cpr_cuda_plan *plan) {
    int device;
    cudaError_t result = cudaGetDevice(&device);
    if (result == cudaSuccess) {
        result = cudaDeviceGetAttribute(&plan->multiprocessors, cudaDevAttrMultiProcessorCount, device);
    }
    if (result == cudaSuccess) {
        result = cudaStreamCreateWithFlags(&plan->beside, cudaStreamNonBlocking);
    }
    cudaEvent_t *const events[] = {&plan->forked, &plan->joined, &plan->ended};
    for (size_t i = 0; i < sizeof events / sizeof events[0] && result == cudaSuccess; i++) {
        result = make_event(events[i]);
    }
    if (result == cudaSuccess) {
        result = allocate(plan);
    }
    return result == cudaSuccess ? upload(plan) : result;
}

cpr_status cpr_cuda_plan_make(const cpr_route *route, size_t row_bytes, const cpr_allocator *allocator,
                              cpr_cuda_plan *plan, cpr_error *error) {
    if (check_bytes(route, row_bytes, error) != CPR_OK) {
        return error->status;
    }
    cpr_cuda_plan made = {.row_bytes = row_bytes};
    if (!cpr_row_lists_make(route, allocator, &made.lists)) {
        return cpr_fail_no_memory(error);
    }
    const cudaError_t result = make_on_device(&made);
    if (result != cudaSuccess) {
        cpr_cuda_plan_free(&made);
        return cpr_cuda_failed(result, error);
    }
    *plan = made;
    return CPR_OK;
}

/* What freeing reports is of an earlier call, which reported it. */
void cpr_cuda_plan_free(cpr_cuda_plan *plan) {
    cudaEvent_t const events[] = {plan->forked, plan->joined, plan->ended};
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        if (events[i] != NULL) {
            (void)cudaEventDestroy(events[i]);
        }
    }
    if (plan->beside != NULL) {
        (void)cudaStreamDestroy(plan->beside);
    }
    (void)cudaFree(plan->memory);
    (void)cudaGetLastError();
    cpr_row_lists_free(&plan->lists);
}

int cpr_cuda_plan_all_blocks(const cpr_cuda_plan *plan) {
    return plan->multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
}

cudaError_t cpr_cuda_plan_pack(const cpr_cuda_plan *plan, cpr_direction direction, const void *source,
                               cudaStream_t stream) {
    const cpr_side side = cpr_cuda_way_of(direction).out;
    const cpr_moves moves = cpr_row_list_pack(&plan->others[side]);
    return cpr_move_rows(&moves, plan->row_bytes, source, plan->buffers[side], cpr_cuda_plan_all_blocks(plan),
                         stream);
}

cudaError_t cpr_cuda_plan_scatter(const cpr_cuda_plan *plan, cpr_direction direction, void *target,
                                  cudaStream_t stream) {
    const cpr_side side = cpr_cuda_way_of(direction).in;
    const cpr_moves moves = cpr_row_list_scatter(&plan->others[side]);
    return cpr_move_rows(&moves, plan->row_bytes, plan->buffers[side], target, cpr_cuda_plan_all_blocks(plan),
                         stream);
}

cudaError_t cpr_cuda_plan_move_own(const cpr_cuda_plan *plan, cpr_direction direction, const void *source,
                                   void *target, int most_blocks, cudaStream_t stream) {
    cpr_moves moves = plan->own;
    if (direction == CPR_BACKWARD) {
        moves.from = plan->own.to;
        moves.to = plan->own.from;
    }
    return cpr_move_rows(&moves, plan->row_bytes, source, target, most_blocks, stream);
}

cpr_status cpr_direction_check(cpr_direction direction, cpr_error *error) {
    enum { DIRECTIONS = 2 };
    return direction == CPR_FORWARD || direction == CPR_BACKWARD
               ? CPR_OK
               : cpr_fail(error, CPR_BAD_DIRECTION, -1, (int)direction, DIRECTIONS);
}

cpr_status cpr_rows_check(const cpr_rows *source, const cpr_rows *target, size_t row_bytes,
                          cpr_error *error) {
    const cpr_rows *const sides[] = {source, target};
    for (int side = 0; side < 2; side++) {
        if (sides[side]->at == NULL && sides[side]->count > 0) {
            return cpr_fail(error, CPR_BAD_ROW, side, -1, sides[side]->count);
        }
    }
    const uintptr_t from = (uintptr_t)source->at;
    const uintptr_t to = (uintptr_t)target->at;
    const uintptr_t from_bytes = (uintptr_t)source->count * row_bytes;
    const uintptr_t to_bytes = (uintptr_t)target->count * row_bytes;
    const bool apart =
        from_bytes == 0 || to_bytes == 0 || (from < to ? to - from >= from_bytes : from - to >= to_bytes);
    return apart ? CPR_OK : cpr_fail(error, CPR_BAD_ROW, -1, 0, 0);
}

cpr_status cpr_cuda_plan_check_call(const cpr_cuda_plan *plan, cpr_direction direction, const void *source,
                                    const void *target, cpr_error *error) {
    if (cpr_direction_check(direction, error) != CPR_OK) {
        return error->status;
    }
    const cpr_cuda_way way = cpr_cuda_way_of(direction);
    const cpr_rows from = {source, plan->lists.sides[way.out].rows};
    const cpr_rows to = {target, plan->lists.sides[way.in].rows};
    return cpr_rows_check(&from, &to, plan->row_bytes, error);
}
