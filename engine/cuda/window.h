/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of a group, and what its ranks can reach of each other. */
#ifndef CPROUTE_CUDA_WINDOW_H
#define CPROUTE_CUDA_WINDOW_H

#include "cproute/cproute_cuda.h"

struct cpr_cuda_window {
    cpr_cuda_group *group;
    cpr_cuda_window *next;
    int64_t number; /* the same on every rank */
    int64_t uses;
    char *memory;
    size_t bytes;
    bool allocated; /* here, not by the caller */
    bool shared;    /* every rank can reach it */
    void *handle;   /* NCCL's; NULL: none, as in a group of one */
    void **bases;   /* on the device: where it begins at every rank */
    cpr_allocator allocator;
};

/* In a group, found out with its first window or conversion. */
typedef struct cpr_cuda_reach {
    bool known;
    bool all; /* every rank can write to every other one's windows */
    int64_t team_size;
    int multiprocessors; /* least of all ranks */
    int64_t windows_made;
    cpr_cuda_window *windows;
    cpr_cuda_window *board; /* on which ranks tell each other; see direct.h */
    uint64_t channels;      /* in use on this rank, a bit each */
} cpr_cuda_reach;

/* Collective. */
cpr_status cpr_cuda_reach_find(cpr_cuda_group *group, cpr_error *error);

/* With the group. */
void cpr_cuda_reach_end(cpr_cuda_group *group);

/* The window that bytes from `memory` on lie in; NULL: none that is shared. */
const cpr_cuda_window *cpr_cuda_window_around(const cpr_cuda_group *group, const void *memory, size_t bytes);

#endif
