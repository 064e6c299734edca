/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor_ranks.h"

#include "bits.h"
#include "error.h"
#include "request.h"

cpr_status cpr_tensor_ranks_check(const cpr_tensor_ranks *tp, cpr_geometry geometry, cpr_error *error) {
    if (cpr_geometry_validate(geometry, error) != CPR_OK) {
        return error->status;
    }
    const int64_t tp_size = cpr_tp_size(tp);
    if (tp_size < 0) {
        return CPR_OK;
    }
    if (tp_size > CPR_CP_SIZE_MAX / geometry.cp_size) {
        const bool countable = tp_size <= INT64_MAX / geometry.cp_size;
        const int64_t ranks = countable ? geometry.cp_size * tp_size : INT64_MAX;
        return cpr_fail(error, CPR_BAD_CP_SIZE, -1, ranks, CPR_CP_SIZE_MAX);
    }
    if (tp->tp_rank < 0 || tp->tp_rank >= tp_size) {
        return cpr_fail(error, CPR_BAD_RANK, -1, tp->tp_rank, tp_size);
    }
    return CPR_OK;
}

static cpr_status check_permutation(const int64_t *group_ranks, int64_t count, cpr_bits *seen,
                                    cpr_error *error) {
    for (int64_t logical = 0; logical < count; logical++) {
        const int64_t rank = group_ranks[logical];
        if (rank < 0 || rank >= count || !cpr_bits_add(seen, rank)) {
            return cpr_fail(error, CPR_BAD_RANK, logical, rank, count);
        }
    }
    return CPR_OK;
}

cpr_status cpr_group_order_check(const cpr_tensor_ranks *tp, int64_t cp_size, const cpr_allocator *allocator,
                                 cpr_error *error) {
    if (tp->group_ranks == NULL) {
        return CPR_OK;
    }
    const int64_t count = cp_size * cpr_tp_size(tp);
    cpr_bits seen;
    if (!cpr_bits_begin(&seen, count, allocator)) {
        return cpr_fail_no_memory(error);
    }
    const cpr_status status = check_permutation(tp->group_ranks, count, &seen, error);
    cpr_bits_end(&seen);
    return status;
}

cpr_geometry cpr_group_geometry(const cpr_tensor_ranks *tp, cpr_geometry geometry) {
    return (cpr_geometry){
        .cp_size = geometry.cp_size * cpr_tp_size(tp),
        .cp_rank = cpr_group_rank(tp, geometry.cp_rank, tp->tp_rank),
    };
}
