/* SPDX-License-Identifier: Apache-2.0 */
/* A group of CP and TP ranks in some order, for a case. */
#ifndef CPROUTE_PROPS_TENSOR_GROUP_H
#define CPROUTE_PROPS_TENSOR_GROUP_H

#include "scratch.h"
#include "subject.h"

typedef struct tensor_group {
    int64_t cp_size, tp_size, ranks;
    const int64_t *order; /* group rank of every logical rank */
    bool unsaid;          /* the order is natural, and not handed over */
} tensor_group;

/* tp_size 1, 2, 3, 4 or 8 and an order, by the salt. False without memory. */
bool tensor_group_draw(tensor_group *g, const route_case *c, scratch *s);

/* As the library takes it. */
cpr_tensor_ranks tensor_ranks_of(const tensor_group *g, int64_t tp_rank);

int64_t tensor_group_rank(const tensor_group *g, int64_t cp_rank, int64_t tp_rank);

#endif
