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

/* Reads entries one after another. The next address is a number: beyond the last entry, which is not read, it may be any, and a
 * pointer may not. */
typedef struct cpr_entries {
    uintptr_t next, step; /* in bytes */
    bool wide;
} cpr_entries;

static inline cpr_entries cpr_entries_from(const cpr_cu_seqlens *cu_seqlens, int64_t entry) {
    const bool wide = cu_seqlens->dtype == CPR_INT64;
    const uintptr_t step = (uintptr_t)cu_seqlens->stride * (wide ? sizeof(int64_t) : sizeof(int32_t));
    return (cpr_entries){(uintptr_t)cu_seqlens->data + (uintptr_t)entry * step, step, wide};
}

static inline int64_t cpr_entries_read(cpr_entries *entries) {
    const void *entry = (const void *)entries->next;
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
