/* SPDX-License-Identifier: Apache-2.0 */
/* Reading entries of a view whose dtype is int32 or int64. */
#ifndef CPROUTE_CU_SEQLENS_H
#define CPROUTE_CU_SEQLENS_H

#include <string.h>

#include "cproute/cproute.h"

static inline int64_t cpr_cu_entry(const cpr_cu_seqlens *cu_seqlens, int64_t entry) {
    const char *data = cu_seqlens->data;
    const int64_t offset = entry * cu_seqlens->stride;
    if (cu_seqlens->dtype == CPR_INT32) {
        int32_t narrow;
        memcpy(&narrow, data + offset * (int64_t)sizeof narrow, sizeof narrow);
        return narrow;
    }
    int64_t wide;
    memcpy(&wide, data + offset * (int64_t)sizeof wide, sizeof wide);
    return wide;
}

#endif
