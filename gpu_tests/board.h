/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the ranks of one machine share with the process that watches them. */
#ifndef CPROUTE_GPU_TESTS_BOARD_H
#define CPROUTE_GPU_TESTS_BOARD_H

#include "report.h"

#include <nccl.h>
#include <stdatomic.h>

enum { MAX_RANKS = 64 };

typedef struct board {
    atomic_bool id_there; /* rank 0 wrote `id` */
    ncclUniqueId id;
    atomic_int arrivals;       /* at barriers, since the test began */
    report reports[MAX_RANKS]; /* by the rank's number on this machine */
} board;

#endif
