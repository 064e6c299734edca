/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel of conversions without a route on a processor: direct.cu itself, its threads taking turns in an order that a seed chooses,
 * so that what blocks of several ranks tell each other is met in orders that a device shows once in a million. Memory is as strong as
 * a processor's: orders of memory are the argument's in direct.cu, not this test's.
 */
#ifndef CPROUTE_PROPS_KERNEL_DOUBLE_H
#define CPROUTE_PROPS_KERNEL_DOUBLE_H

#include <cuda_runtime_api.h>

#include "cuda/direct.h"

typedef struct kernel_play {
    int ranks, blocks, runs;
    const cpr_direct_member *members;                 /* of every rank */
    size_t offset_entries;                            /* most of any of them */
    void (*before)(void *context, int rank, int run); /* in the stream of a rank, before each run */
    void (*after)(void *context, int rank, int run);  /* and after it */
    void *context;
    unsigned seed;
    int still_rank, still_block; /* a block that never gets to run; -1: none */
} kernel_play;

#ifdef __cplusplus
extern "C"
#endif
    /* Until each rank is at the end of its runs, or of all but that block. */
    void
    kernel_perform(const kernel_play *play);

#endif
