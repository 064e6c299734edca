/* SPDX-License-Identifier: Apache-2.0 */
/* A test as it is run: on a simulated or a real stage, by processes of its own, which are watched. */
#ifndef CPROUTE_GPU_TESTS_JOB_H
#define CPROUTE_GPU_TESTS_JOB_H

#include "meeting.h"
#include "tests.h"

typedef struct job {
    char name[NAME_BYTES + 16]; /* simulated/NAME or nccl/NAME */
    bool real;
    bool fault;  /* ranks are lost in it, and timeouts are short */
    bool blocks; /* although ranks are lost, calls of the communicator block */
    where where;
    int64_t number;
    int64_t least_ranks;
    int64_t seconds;
    const char *meaning;
    test_function *play;
} job;

/* All of them, simulated ones first. */
int64_t job_list(const job **jobs);

/* The machine and the ranks of a run. */
typedef struct run_setup {
    const options *options;
    started_by by;
    int64_t gpus;
    int64_t ranks;       /* of real jobs */
    int64_t local_ranks; /* that this launcher forks */
    int64_t first_rank;  /* of those */
    bool shares_gpus;
    bool one_host; /* ranks that share GPUs reach each other's memory */
    bool in_process;
} run_setup;

typedef enum job_outcome { JOB_PASSED, JOB_FAILED, JOB_SKIPPED } job_outcome;

typedef struct job_result {
    job_outcome outcome;
    double seconds;
    int64_t cases, wrong;
    char text[4096]; /* why it failed or was skipped, rank by rank */
} job_result;

/* Forks the ranks, waits for them or kills them. The board holds what they reported. */
void job_run(const job *j, const run_setup *setup, board *b, job_result *result);

/* In the process of a rank, or in this one: plays the test and leaves the verdict in its report. */
void job_play(const job *j, const run_setup *setup, board *b, int64_t local_rank);

#endif
