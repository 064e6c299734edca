/* SPDX-License-Identifier: Apache-2.0 */
#include "paint.h"
#include "subject.h"
#include <string.h>

enum { PAINT_PERIOD = 251, PAINT_STEP = 37 };

size_t paint_row_bytes(uint64_t salt) {
    return (size_t)(1 + salt_below(salt, 0, PAINT_ROW_BYTES_MAX));
}

void paint_rows(const int64_t *tokens, int64_t count, size_t row_bytes, uint8_t *rows) {
    for (int64_t row = 0; row < count; row++)
        for (size_t byte = 0; byte < row_bytes; byte++)
            *rows++ = (uint8_t)(((uint64_t)tokens[row] + byte * PAINT_STEP) % PAINT_PERIOD);
}

int64_t paint_first_difference(const uint8_t *a, const uint8_t *b, int64_t count, size_t row_bytes) {
    int64_t row = 0;
    while (row < count && memcmp(a + (size_t)row * row_bytes, b + (size_t)row * row_bytes, row_bytes) == 0)
        row++;
    return row;
}
