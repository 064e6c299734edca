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

/* Reads entries one after another. */
typedef struct cpr_entries {
    const char *next;
    int64_t step; /* in bytes */
    bool wide;
} cpr_entries;

static inline cpr_entries cpr_entries_from(const cpr_cu_seqlens *cu_seqlens, int64_t entry) {
    const bool wide = cu_seqlens->dtype == CPR_INT64;
    const int64_t step = cu_seqlens->stride * (int64_t)(wide ? sizeof(int64_t) : sizeof(int32_t));
    return (cpr_entries){(const char *)cu_seqlens->data + entry * step, step, wide};
}

static inline int64_t cpr_entries_read(cpr_entries *entries) {
    const char *entry = entries->next;
    entries->next += entries->step;
    if (entries->wide) {
        int64_t wide;
        memcpy(&wide, entry, sizeof wide);
        return wide;
    }
    int32_t narrow;
    memcpy(&narrow, entry, sizeof narrow);
    return narrow;
}

#endif
