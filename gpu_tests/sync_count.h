/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what this thread asks of CUDA, by CUPTI's callbacks: calls that wait for the device, copies that the host reads,
 * allocations and questions. What NCCL's threads do by themselves is not this thread's, and not counted. Calls inside libraries, NCCL's too, are seen. One counter at a time.
 */
#ifndef CPROUTE_GPU_TESTS_SYNC_COUNT_H
#define CPROUTE_GPU_TESTS_SYNC_COUNT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sync_count {
    int64_t waits;       /* stream, event, device synchronisations and blocking copies */
    int64_t reads;       /* copies from the device to the host */
    int64_t allocations; /* and what is freed: memory, host memory, pools, streams, events */
    int64_t queries;     /* of streams and events: many of them are a wait, too */
    int64_t calls;       /* all */
    char last_wait[64], last_allocation[64];
} sync_count;

/* NULL: calls can be counted from now on; else why they cannot (static). */
const char *sync_count_open(void);
void sync_count_close(void);

/* Where to count, added to what is there; NULL: nowhere for now. */
void sync_count_into(sync_count *count);

#endif
