/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts that cut the same frames: the lists of a route between them, in closed form. */
#ifndef CPROUTE_SAME_FRAMES_H
#define CPROUTE_SAME_FRAMES_H

#include "layout.h"

/* What a rank cuts as `ours` and its peers as `theirs`: both the sequences, or both the stream. */
typedef struct cpr_same_frames {
    const cpr_cu_seqlens *cu_seqlens;
    cpr_side side;
    int64_t rank;
    cpr_cutting ours, theirs;
} cpr_same_frames;

/* The list of one side. O(entries), with no memory but the list. False without memory. */
bool cpr_list_of_same_frames(const cpr_same_frames *pair, const cpr_allocator *allocator, cpr_run_list *list);

#endif
