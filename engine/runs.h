/* SPDX-License-Identifier: Apache-2.0 */
/* Small facts about runs. */
#ifndef CPROUTE_RUNS_H
#define CPROUTE_RUNS_H

#include "cproute/cproute.h"

static inline const cpr_run_list *cpr_route_side(const cpr_route *route, cpr_side side) {
    return side == CPR_SEND ? &route->send : &route->recv;
}

/* Where the rank that has the route keeps the first row of a run. */
static inline int64_t cpr_run_local_row(const cpr_run *run, cpr_side side) {
    return side == CPR_SEND ? run->source_row : run->target_row;
}

/* Does `run` go on where `before` ended? */
static inline bool cpr_run_continues(const cpr_run *before, const cpr_run *run) {
    return run->peer == before->peer && run->source_row == before->source_row + before->length &&
           run->target_row == before->target_row + before->length;
}

static inline bool cpr_run_equal(const cpr_run *a, const cpr_run *b) {
    return a->peer == b->peer && a->source_row == b->source_row && a->target_row == b->target_row &&
           a->length == b->length;
}

/* Are the local rows of the runs 0, 1, 2, ...? */
bool cpr_is_identity(const cpr_run *runs, int64_t count, cpr_side side);

/* The runs of one peer in an ordered list. */
typedef struct cpr_message {
    const cpr_run *runs;
    int64_t count;
    int64_t rows;
} cpr_message;

/* The message of `peer` if it comes next at run number *next, which moves past it; else an empty one. */
cpr_message cpr_message_next(const cpr_run_list *list, int64_t peer, int64_t *next);

/* The message of `peer`, wherever it is. O(log n) and its runs. */
cpr_message cpr_message_of(const cpr_run_list *list, int64_t peer);

#endif
