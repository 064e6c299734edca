/* SPDX-License-Identifier: Apache-2.0 */
/* Results for people, in the manner of nccl-tests, and the same for programs. */
#ifndef CPROUTE_GPU_TESTS_TABLE_H
#define CPROUTE_GPU_TESTS_TABLE_H

#include "job.h"
#include <stdio.h>

enum { DEVICES_MAX = 64 };

/* What the probe found; filled in by a process of its own, so that this one never starts CUDA. */
typedef struct machine {
    bool probed;
    int64_t gpus;
    char no_gpu[200]; /* why there is none */
    int cuda_driver, cuda_runtime, nccl;
    char driver[64];
    struct {
        char name[256];
        int multiprocessors, major, minor;
        double gib;
    } devices[DEVICES_MAX];
} machine;

/* Comment lines before anything else. */
void table_header(FILE *out, const machine *m, const run_setup *setup);
void table_job(FILE *out, const job *j, const job_result *result, const board *b);

typedef struct totals {
    int64_t passed, failed, skipped, wrong;
} totals;
void table_footer(FILE *out, const totals *t);

/* One JSON object; jobs are written as they end. */
void json_begin(FILE *out, const machine *m, const run_setup *setup, int count, char **arguments);
void json_job(FILE *out, const job *j, const job_result *result, const board *b, bool first);
void json_end(FILE *out, const totals *t);

#endif
