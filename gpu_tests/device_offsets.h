/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets of a pack on the device, in several guises. */
#ifndef CPROUTE_GPU_TESTS_DEVICE_OFFSETS_H
#define CPROUTE_GPU_TESTS_DEVICE_OFFSETS_H

#include "pack.h"
#include "stage.h"

typedef struct device_offsets {
    const stage *stage;
    cpr_cu_seqlens view;
    void *memory; /* on the device */
    int64_t repeat;
} device_offsets;

/* As int64 or int32, `stride` apart with noise between; every entry `repeat` times, which makes so many empty sequences. */
bool device_offsets_make(device_offsets *o, const stage *s, const int64_t *cu, int64_t entries, bool wide,
                         int64_t stride, int64_t repeat);

/* Other entries, as many as before, in stream order. */
bool device_offsets_refill(const device_offsets *o, const int64_t *cu);
void device_offsets_free(device_offsets *o);

#endif
