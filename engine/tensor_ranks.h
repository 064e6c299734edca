/* SPDX-License-Identifier: Apache-2.0 */
/* The group of all CP and TP ranks: is it one, and who is who in it. */
#ifndef CPROUTE_TENSOR_RANKS_H
#define CPROUTE_TENSOR_RANKS_H

#include "cproute/cproute.h"

static inline int64_t cpr_tp_size(const cpr_tensor_ranks *tp) {
    return tp->tp_size == 0 ? 1 : tp->tp_size;
}

/* The rank in the group that exchanges. */
static inline int64_t cpr_group_rank(const cpr_tensor_ranks *tp, int64_t cp_rank, int64_t tp_rank) {
    const int64_t logical = cp_rank * cpr_tp_size(tp) + tp_rank;
    return tp->group_ranks == NULL ? logical : tp->group_ranks[logical];
}

/* Rules that come before all others about a request: its geometry, the size of the group, the TP rank. A tp_size below 0 divides
 * nothing, which is told later, by the rule about that. */
cpr_status cpr_tensor_ranks_check(const cpr_tensor_ranks *tp, cpr_geometry geometry, cpr_error *error);

/* The last rule: the order of the group is a permutation. */
cpr_status cpr_group_order_check(const cpr_tensor_ranks *tp, int64_t cp_size, const cpr_allocator *allocator,
                                 cpr_error *error);

/* The geometry of the group, of checked ranks. */
cpr_geometry cpr_group_geometry(const cpr_tensor_ranks *tp, cpr_geometry geometry);

#endif
