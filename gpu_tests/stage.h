/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a test plays: the ranks of a group, those of them that this process is, and what moves rows between them. A real
 * stage is one rank of many over NCCL; a simulated one is all ranks on one device. Tests are written once for both.
 *
 * Functions that return bool have told the report what went wrong when they return false.
 */
#ifndef CPROUTE_GPU_TESTS_STAGE_H
#define CPROUTE_GPU_TESTS_STAGE_H

#include "board.h"
#include "options.h"

#include "cproute/cproute_cuda.h"

/* Memory that all ranks can write to, where they can: blocks of it come and go as on a stack that is emptied when the last one
 * goes. All ranks ask alike, so blocks lie at the same place on each. */
typedef struct arena {
    cpr_cuda_window *window; /* NULL: made when it is first asked for */
    size_t size, used;
    int64_t blocks;
} arena;

typedef struct stage {
    const options *options;
    report *report;
    board *board;
    int64_t cp_size;
    int64_t first, count; /* ranks first .. first + count - 1 are this process */
    int64_t local_ranks;  /* of the whole run, on this machine and in this launcher */
    bool real;
    bool shares_gpus; /* several ranks on one GPU, */
    bool one_host;    /* which reach each other's memory */
    int64_t timeout_ms;
    bool never_blocks; /* the communicator is made so that its calls return at once, and can be given up */
    cudaStream_t stream;
    ncclComm_t comm;
    cpr_cuda_group *group;
    bool direct;            /* conversions are made without a route */
    cpr_cuda_method method; /* of those, where the stage is real */
    int64_t repeat;         /* of their offsets; 0: once */
    arena *arena;           /* of a real stage */
} stage;

/* A stage of `ranks` simulated ranks on the current device. */
bool stage_open_simulated(stage *s, int64_t ranks);

/* This rank of many; collective. */
bool stage_open_real(stage *s, const ncclUniqueId *id, int64_t rank, int64_t ranks);

/* Part of a real stage: ranks of the same color; collective on `whole`. With a negative color this rank is in none: then part->group
 * is NULL. */
bool stage_split(const stage *whole, int color, stage *part);

/* What an abort has left is freed too. */
void stage_close(stage *s);

bool stage_cuda(const stage *s, cudaError_t result, const char *what, const char *file, int line_number);
bool stage_nccl(const stage *s, ncclResult_t result, const char *what, const char *file, int line_number);
bool stage_cpr(const stage *s, cpr_status status, const cpr_error *error, const char *what);
#define CUDA_TRY(s, call) stage_cuda(s, call, #call, __FILE__, __LINE__)
/* Also waits for what a communicator that never blocks has under way. */
#define NCCL_TRY(s, call) stage_nccl(s, call, #call, __FILE__, __LINE__)

#define stage_step(s, ...) report_step((s)->report, __VA_ARGS__)
#define stage_fail(s, ...) report_fail((s)->report, __VA_ARGS__)

/* Until the stream is at its end; a lost rank is an error. */
bool stage_wait(const stage *s);

/* Over all ranks, the same on each. Collective. */
bool stage_sum(const stage *s, int64_t *value);
bool stage_sum_unsigned(const stage *s, uint64_t *value);
bool stage_largest(const stage *s, double *value);

/* Until all ranks of this launcher are here. Ranks of several launchers never share a GPU, and do not wait. */
void stage_meet(const stage *s);

/* Device memory; NULL with a failure told, and for no bytes a pointer all the same. */
void *stage_allocate(const stage *s, size_t bytes);

/* The same for what conversions of a real, direct stage write to; collective. */
void *stage_allocate_shared(const stage *s, size_t bytes);
void stage_free_shared(const stage *s, void *memory);

/* The rank that is to misbehave in a test of faults: the last one. */
int64_t stage_culprit(const stage *s);

double seconds_now(void);

#endif
