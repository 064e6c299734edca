/* SPDX-License-Identifier: Apache-2.0 */
/* Rows as GPUs hold them, for laws that run kernels thread by thread. They start at odd addresses too, so that every width of a unit is
 * taken. Of every rank: an array, rank 0 first. */
#ifndef CPROUTE_PROPS_DEVICE_ROWS_H
#define CPROUTE_PROPS_DEVICE_ROWS_H

#include "kit/law.h"
#include "scratch.h"

enum { WIDEST_UNIT = 16 };

/* Bytes of a rank's rows; malloc's block around them shows ASan what is beyond. */
typedef struct device_rows {
    uint8_t *bytes;
    size_t size;
} device_rows;

/* From single bytes to more than a warp's chunk, as long as the rows of all ranks are not too many bytes. `draw` as in salt_below. */
size_t device_row_bytes(const route_case *c, unsigned draw);

/* How far off the alignment of malloc. Every other case is aligned, so that wide units are taken too. */
size_t device_rows_shift(const route_case *c, unsigned draw);

/* Not painted. False without memory. */
bool device_rows_make(scratch *memory, size_t size, size_t shift, device_rows *made);

/* Those of every rank under a layout. */
bool device_rows_paint(const route_case *c, cpr_layout layout, size_t row_bytes, scratch *memory,
                       const device_rows *rows, verdict *v);

/* Fails the law with `reason` at the first row of a rank that is not as wanted. */
bool device_rows_same(const route_case *c, const device_rows *rows, const device_rows *wanted,
                      size_t row_bytes, const char *reason, const char *direction, verdict *v);

#endif
