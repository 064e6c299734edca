/* SPDX-License-Identifier: Apache-2.0 */
/* What conversions are measured on, and how: the one place for it, which bench/compare_torch.py asks by --packs. */
#ifndef CPROUTE_GPU_TESTS_MEASURED_H
#define CPROUTE_GPU_TESTS_MEASURED_H

#include "pack.h"

#include <stdio.h>

enum {
    MEASURED_WIDTH = 4096,
    MEASURED_ELEMENT_BYTES = 2,
    MEASURED_ROW_BYTES = MEASURED_WIDTH * MEASURED_ELEMENT_BYTES,
    MEASURED_BATCHES = 9,
    MEASURED_RUNS = 20, /* in a batch */
    MEASURED_WARM_UP = 100,
    MEASURED_SETS = 4, /* of buffers, in turn */
};

/* The packs for cp_size ranks, counted from 0, the largest first, so that clocks are up when runs are short. False: there are no more. */
bool measured_pack(int64_t number, int64_t cp_size, pack *p);

/* All of it, as JSON. */
void measured_tell(FILE *out, int64_t cp_size, pack *p);

#endif
