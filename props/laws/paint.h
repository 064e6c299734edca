/* SPDX-License-Identifier: Apache-2.0 */
/* Payload that tells where it came from. Its period is a prime, so that swapped rows do not cancel out. */
#ifndef CPROUTE_PROPS_PAINT_H
#define CPROUTE_PROPS_PAINT_H

#include <stddef.h>
#include <stdint.h>

enum { PAINT_ROW_BYTES_MAX = 40 };

/* 1 to PAINT_ROW_BYTES_MAX, by the salt. */
size_t paint_row_bytes(uint64_t salt);

/* Writes row_bytes bytes of each token, one row after the other. */
void paint_rows(const int64_t *tokens, int64_t count, size_t row_bytes, uint8_t *rows);

/* The first of `count` rows that differs, or count. */
int64_t paint_first_difference(const uint8_t *a, const uint8_t *b, int64_t count, size_t row_bytes);

#endif
