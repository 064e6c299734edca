/* SPDX-License-Identifier: Apache-2.0 */
#include "device_offsets.h"

#include <stdlib.h>
#include <string.h>

static size_t entry_bytes(const device_offsets *o) {
    return o->view.dtype == CPR_INT64 ? sizeof(int64_t) : sizeof(int32_t);
}

static size_t all_bytes(const device_offsets *o) {
    return (size_t)(o->view.count * o->view.stride) * entry_bytes(o);
}

bool device_offsets_make(device_offsets *o, const stage *s, const int64_t *cu, int64_t entries, bool wide,
                         int64_t stride, int64_t repeat) {
    *o = (device_offsets){.stage = s,
                          .repeat = repeat,
                          .view = {.count = entries * repeat,
                                   .stride = stride,
                                   .dtype = wide ? CPR_INT64 : CPR_INT32,
                                   .device = CPR_CUDA}};
    o->memory = stage_allocate(s, all_bytes(o));
    o->view.data = o->memory;
    return o->memory && device_offsets_refill(o, cu);
}

bool device_offsets_refill(const device_offsets *o, const int64_t *cu) {
    const stage *s = o->stage;
    char *entries = malloc(all_bytes(o));
    if (!entries)
        return stage_fail(s, "no memory for offsets");
    memset(entries, 0x55, all_bytes(o));
    for (int64_t i = 0; i < o->view.count; i++) {
        const int64_t wide = cu[i / o->repeat];
        const int32_t narrow = (int32_t)wide;
        char *at = entries + (size_t)(i * o->view.stride) * entry_bytes(o);
        if (o->view.dtype == CPR_INT64)
            memcpy(at, &wide, sizeof wide);
        else
            memcpy(at, &narrow, sizeof narrow);
    }
    /* From pageable memory: the copy has left `entries` when the call returns. */
    const bool good =
        CUDA_TRY(s, cudaMemcpyAsync(o->memory, entries, all_bytes(o), cudaMemcpyHostToDevice, s->stream));
    free(entries);
    return good;
}

void device_offsets_free(device_offsets *o) {
    cudaFree(o->memory);
    memset(o, 0, sizeof *o);
}
