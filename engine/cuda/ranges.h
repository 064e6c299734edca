/* SPDX-License-Identifier: Apache-2.0 */
/* The names of NVTX ranges, which are Megatron-LM's: built once, as runs allocate nothing. */
#ifndef CPROUTE_CUDA_RANGES_H
#define CPROUTE_CUDA_RANGES_H

#include "cproute/cproute.h"

typedef enum cpr_range {
    CPR_RANGE_ROUTE,
    CPR_RANGE_SWAP, /* around the others of a run */
    CPR_RANGE_PACK,
    CPR_RANGE_ALL_TO_ALL,
    CPR_RANGE_SCATTER,
    CPR_RANGE_DIRECT,
    CPR_RANGE_COUNT
} cpr_range;

typedef struct cpr_range_names {
    char text[CPR_RANGE_COUNT][80];
} cpr_range_names;

/* cp_layout/thd/RANGE/SOURCE_to_TARGET */
cpr_range_names cpr_range_names_of(cpr_layout source, cpr_layout target);

#endif
