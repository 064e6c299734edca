/* SPDX-License-Identifier: Apache-2.0 */
#include "stage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool stage_cuda(const stage *s, cudaError_t result, const char *what, const char *file, int line_number) {
    return result == cudaSuccess || stage_fail(s, "%s:%d: %s: %s (%s)", file, line_number, what,
                                               cudaGetErrorName(result), cudaGetErrorString(result));
}

/* Until a call on a communicator that never blocks is done, or the time is over. */
static ncclResult_t settled(ncclComm_t comm, ncclResult_t result, int64_t timeout_ms) {
    const double until = seconds_now() + (double)timeout_ms * 1e-3;
    while (result == ncclInProgress && comm && seconds_now() < until) {
        const ncclResult_t asked = ncclCommGetAsyncError(comm, &result);
        if (asked != ncclSuccess)
            return asked;
        if (result == ncclInProgress)
            usleep(100);
    }
    return result;
}

bool stage_nccl(const stage *s, ncclResult_t result, const char *what, const char *file, int line_number) {
    result = settled(s->comm, result, s->timeout_ms);
    return result == ncclSuccess || stage_fail(s, "%s:%d: %s: %s; %s", file, line_number, what,
                                               ncclGetErrorString(result), ncclGetLastError(s->comm));
}

bool stage_cpr(const stage *s, cpr_status status, const cpr_error *error, const char *what) {
    if (status == CPR_OK)
        return true;
    char text[300];
    cpr_error_format(error, text, sizeof text);
    return stage_fail(s, "%s: %s (index %" PRId64 ", got %" PRId64 ", wanted %" PRId64 ")", what, text,
                      error->index, error->got, error->wanted);
}

bool stage_open_simulated(stage *s, int64_t ranks) {
    s->cp_size = s->count = ranks;
    s->first = 0;
    s->real = false;
    return CUDA_TRY(s, cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
}

static bool open_group(stage *s) {
    s->arena = calloc(1, sizeof *s->arena);
    if (!s->arena)
        return stage_fail(s, "no memory for an arena");
    const cpr_cuda_group_options group_options = {.timeout_ms = s->timeout_ms};
    cpr_error error;
    return stage_cpr(s, cpr_cuda_group_create(s->comm, &group_options, NULL, &s->group, &error), &error,
                     "cpr_cuda_group_create");
}

bool stage_open_real(stage *s, const ncclUniqueId *id, int64_t rank, int64_t ranks) {
    s->cp_size = ranks;
    s->first = rank;
    s->count = 1;
    s->real = true;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = s->never_blocks ? 0 : 1;
    stage_step(s, "ncclCommInitRankConfig");
    if (!CUDA_TRY(s, cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking)) ||
        !NCCL_TRY(s, ncclCommInitRankConfig(&s->comm, (int)ranks, *id, (int)rank, &config)))
        return false;
    stage_step(s, "cpr_cuda_group_create");
    return open_group(s);
}

bool stage_split(const stage *whole, int color, stage *part) {
    *part = *whole;
    part->comm = NULL;
    part->group = NULL;
    part->stream = NULL;
    part->arena = NULL;
    const int key = (int)whole->first;
    const int named = color < 0 ? NCCL_SPLIT_NOCOLOR : color;
    if (!NCCL_TRY(whole, ncclCommSplit(whole->comm, named, key, &part->comm, NULL)))
        return false;
    if (color < 0)
        return true;
    int rank, ranks;
    if (!NCCL_TRY(part, ncclCommUserRank(part->comm, &rank)) ||
        !NCCL_TRY(part, ncclCommCount(part->comm, &ranks)) ||
        !CUDA_TRY(part, cudaStreamCreateWithFlags(&part->stream, cudaStreamNonBlocking)))
        return false;
    part->first = rank;
    part->cp_size = ranks;
    return open_group(part);
}

enum { ARENA_BYTES = 192 << 20, ARENA_ALIGNMENT = 4096 };

static bool open_arena(const stage *s) {
    cpr_error error;
    if (!s->arena->window)
        s->arena->size = ARENA_BYTES;
    return s->arena->window ||
           stage_cpr(s, cpr_cuda_window_create(s->group, NULL, ARENA_BYTES, NULL, &s->arena->window, &error),
                     &error, "cpr_cuda_window_create");
}

void *stage_allocate_shared(const stage *s, size_t bytes) {
    if (!s->real || !s->direct)
        return stage_allocate(s, bytes);
    if (!open_arena(s))
        return NULL;
    arena *a = s->arena;
    const size_t aligned = (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    if (aligned > a->size - a->used) {
        stage_fail(s, "the arena is full: %zu of %zu bytes used, %zu wanted", a->used, a->size, bytes);
        return NULL;
    }
    char *memory = (char *)cpr_cuda_window_memory(a->window) + a->used;
    a->used += aligned;
    a->blocks++;
    return memory;
}

void stage_free_shared(const stage *s, void *memory) {
    if (!s->real || !s->direct) {
        cudaFree(memory);
    } else if (memory && --s->arena->blocks == 0)
        s->arena->used = 0;
}

void stage_close(stage *s) {
    if (s->arena)
        cpr_cuda_window_release(s->arena->window);
    free(s->arena);
    s->arena = NULL;
    const bool aborted = s->group && cpr_cuda_group_aborted(s->group);
    cpr_cuda_group_free(s->group);
    s->group = NULL;
    if (s->comm && !aborted)
        ncclCommDestroy(s->comm);
    s->comm = NULL;
    if (s->stream)
        cudaStreamDestroy(s->stream);
    s->stream = NULL;
}

bool stage_wait(const stage *s) {
    if (!s->real)
        return CUDA_TRY(s, cudaStreamSynchronize(s->stream));
    cpr_error error;
    return stage_cpr(s, cpr_cuda_group_wait(s->group, s->stream, &error), &error, "cpr_cuda_group_wait");
}

void *stage_allocate(const stage *s, size_t bytes) {
    void *memory = NULL;
    if (!CUDA_TRY(s, cudaMalloc(&memory, bytes ? bytes : 1)))
        return NULL;
    return memory;
}

static bool reduce(const stage *s, void *value, size_t size, ncclDataType_t type, ncclRedOp_t operation) {
    if (!s->real)
        return true;
    void *memory = stage_allocate(s, size);
    const bool good = memory &&
                      CUDA_TRY(s, cudaMemcpyAsync(memory, value, size, cudaMemcpyHostToDevice, s->stream)) &&
                      NCCL_TRY(s, ncclAllReduce(memory, memory, 1, type, operation, s->comm, s->stream)) &&
                      stage_wait(s) && CUDA_TRY(s, cudaMemcpy(value, memory, size, cudaMemcpyDeviceToHost));
    cudaFree(memory);
    return good;
}

bool stage_sum(const stage *s, int64_t *value) {
    return reduce(s, value, sizeof *value, ncclInt64, ncclSum);
}

bool stage_sum_unsigned(const stage *s, uint64_t *value) {
    return reduce(s, value, sizeof *value, ncclUint64, ncclSum);
}

bool stage_largest(const stage *s, double *value) {
    return reduce(s, value, sizeof *value, ncclFloat64, ncclMax);
}

void stage_meet(const stage *s) {
    const int ranks = (int)s->local_ranks;
    if (ranks < 2)
        return;
    const int arrived = atomic_fetch_add(&s->board->arrivals, 1);
    const int complete = (arrived / ranks + 1) * ranks;
    while (atomic_load(&s->board->arrivals) < complete)
        usleep(200);
}

int64_t stage_culprit(const stage *s) {
    return s->cp_size - 1;
}
