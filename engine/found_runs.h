/* SPDX-License-Identifier: Apache-2.0 */
/* Runs as they are found, on their way to an ordered list. Small ones need no memory but the list itself. */
#ifndef CPROUTE_FOUND_RUNS_H
#define CPROUTE_FOUND_RUNS_H

#include "cproute/cproute.h"

enum { CPR_RUNS_AT_HAND = 64 };

typedef struct cpr_found_runs {
    const cpr_allocator *allocator;
    cpr_run *runs; /* at_hand, or a block of `capacity` */
    int64_t count;
    int64_t capacity;
    cpr_run at_hand[CPR_RUNS_AT_HAND];
} cpr_found_runs;

void cpr_found_runs_begin(cpr_found_runs *found, const cpr_allocator *allocator);

/* False without memory. */
bool cpr_found_runs_add(cpr_found_runs *found, const cpr_run *run);

/*
 * Makes the ordered list of one side. The runs of a peer must have been found in ascending order of their target
 * rows, those below `tails_row` and those from it on each for themselves. `found` is only good for its end after that. Linear time. False without memory.
 */
bool cpr_found_runs_list(cpr_found_runs *found, cpr_side side, int64_t tails_row, cpr_run_list *list);

void cpr_found_runs_end(cpr_found_runs *found);

#endif
