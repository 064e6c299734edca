/* SPDX-License-Identifier: Apache-2.0 */
/* A route on the device: its lists, the buffers for messages, and the steps that an exchange is made of but for the transport. */
#ifndef CPROUTE_CUDA_PLAN_H
#define CPROUTE_CUDA_PLAN_H

#include "cproute/cproute_cuda.h"
#include "row_lists.h"

typedef struct cpr_cuda_plan {
    size_t row_bytes;
    cpr_row_lists lists; /* messages are read on the host, numbers by the device where they were copied to */
    void *memory;        /* of the device: numbers and buffers */
    size_t memory_bytes;
    cpr_row_list all[2], others[2]; /* [CPR_SEND] and [CPR_RECV], on the device */
    cpr_moves own;                  /* on the device */
    void *buffers[2];               /* messages of other ranks; NULL for an identity */
    int multiprocessors;
    cudaStream_t beside; /* own rows move on it while messages travel */
    cudaEvent_t forked, joined, ended;
} cpr_cuda_plan;

/* The two sides as a direction has them. */
typedef struct cpr_cuda_way {
    cpr_side out, in;
} cpr_cuda_way;

static inline cpr_cuda_way cpr_cuda_way_of(cpr_direction direction) {
    return direction == CPR_FORWARD ? (cpr_cuda_way){CPR_SEND, CPR_RECV} : (cpr_cuda_way){CPR_RECV, CPR_SEND};
}

/* Fails with overflow, no_memory or cuda; then nothing is to be freed. Waits for the device to have the lists. */
cpr_status cpr_cuda_plan_make(const cpr_route *route, size_t row_bytes, const cpr_allocator *allocator,
                              cpr_cuda_plan *plan, cpr_error *error);
void cpr_cuda_plan_free(cpr_cuda_plan *plan);

/* Rows of `source` that go to other ranks, into the buffer of the outgoing side. Nothing for an identity. */
cudaError_t cpr_cuda_plan_pack(const cpr_cuda_plan *plan, cpr_direction direction, const void *source,
                               cudaStream_t stream);

/* Arrived rows from the buffer of the incoming side to where they belong in `target`. Nothing for an identity. */
cudaError_t cpr_cuda_plan_scatter(const cpr_cuda_plan *plan, cpr_direction direction, void *target,
                                  cudaStream_t stream);

/* Rows that the rank keeps, at most with most_blocks blocks. */
cudaError_t cpr_cuda_plan_move_own(const cpr_cuda_plan *plan, cpr_direction direction, const void *source,
                                   void *target, int most_blocks, cudaStream_t stream);

/* Blocks that fill the device. */
int cpr_cuda_plan_all_blocks(const cpr_cuda_plan *plan);

/* Where a message begins: `rows` are the rank's own rows on that side, of which an identity is sent or received. */
static inline char *cpr_cuda_plan_message(const cpr_cuda_plan *plan, cpr_side side, const void *rows,
                                          const cpr_row_message *message) {
    const cpr_row_side *lists = &plan->lists.sides[side];
    const char *base = lists->identity ? rows : plan->buffers[side];
    return (char *)(uintptr_t)base + (size_t)cpr_row_message_at(lists, message) * plan->row_bytes;
}

/* Rows in a row, on the device. */
typedef struct cpr_rows {
    const void *at;
    int64_t count;
} cpr_rows;

/* bad_row unless there are two places, which are apart: 0 for the source, 1 for the target | -1 | rows where one is NULL that has some;
 * -1 | 0 | 0 where they overlap. */
cpr_status cpr_rows_check(const cpr_rows *source, const cpr_rows *target, size_t row_bytes, cpr_error *error);

cpr_status cpr_direction_check(cpr_direction direction, cpr_error *error);

/* What a run is given: bad_direction, or as cpr_rows_check. */
cpr_status cpr_cuda_plan_check_call(const cpr_cuda_plan *plan, cpr_direction direction, const void *source,
                                    const void *target, cpr_error *error);

/* The error of a CUDA call, which is cleared from the runtime: it has been reported. */
cpr_status cpr_cuda_failed(cudaError_t result, cpr_error *error);

#endif
