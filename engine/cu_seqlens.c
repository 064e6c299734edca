/* SPDX-License-Identifier: Apache-2.0 */
/* Views of boundaries and the names of their types. */
#include "cu_seqlens.h"

#include "names.h"

static cpr_cu_seqlens dense_view(const void *data, int64_t count, cpr_dtype dtype) {
    return (cpr_cu_seqlens){.data = data, .count = count, .stride = 1, .dtype = dtype, .device = CPR_CPU};
}

cpr_cu_seqlens cpr_cu_seqlens_int32(const int32_t *entries, int64_t count) {
    return dense_view(entries, count, CPR_INT32);
}

cpr_cu_seqlens cpr_cu_seqlens_int64(const int64_t *entries, int64_t count) {
    return dense_view(entries, count, CPR_INT64);
}

static const char *const DTYPE_NAMES[] = {
    [CPR_INT32] = "int32",       [CPR_INT64] = "int64",     [CPR_FLOAT16] = "float16",
    [CPR_BFLOAT16] = "bfloat16", [CPR_FLOAT32] = "float32", [CPR_FLOAT64] = "float64",
    [CPR_OTHER_DTYPE] = "other",
};
enum { DTYPE_COUNT = sizeof DTYPE_NAMES / sizeof DTYPE_NAMES[0] };

const char *cpr_dtype_name(cpr_dtype dtype) {
    return cpr_name_of(DTYPE_NAMES, DTYPE_COUNT, dtype);
}

bool cpr_dtype_from_name(const char *name, cpr_dtype *dtype) {
    const int found = cpr_named(DTYPE_NAMES, DTYPE_COUNT, name);
    if (found < 0) {
        return false;
    }
    *dtype = (cpr_dtype)found;
    return true;
}
