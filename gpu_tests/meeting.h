/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that other programs start (torchrun, mpirun, srun), and how those of several processes or nodes get one NCCL id:
 *   - CPROUTE_RENDEZVOUS names a folder that all nodes share: rank 0 leaves it there in a file for each test
 *   - or MASTER_ADDR names rank 0's host: it gives the id out at port CPROUTE_PORT, or MASTER_PORT + 1 (torchrun's own store
 *     is at MASTER_PORT)
 */
#ifndef CPROUTE_GPU_TESTS_MEETING_H
#define CPROUTE_GPU_TESTS_MEETING_H

#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct started_by {
    const char
        *launcher; /* "torchrun", "mpirun", "srun"; NULL: nobody, this process forks its ranks itself */
    int64_t rank, ranks, local_rank;
} started_by;

started_by meeting_launcher(void);

/* Gives out or gets the id of the test with that number. On false *why says what was tried (static). */
bool meeting_share_id(const started_by *by, int64_t test, double seconds, ncclUniqueId *id, const char **why);

#endif
