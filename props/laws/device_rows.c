/* SPDX-License-Identifier: Apache-2.0 */
#include "device_rows.h"
#include "oracle.h"
#include "paint.h"
#include "subject.h"
#include <inttypes.h>
#include <string.h>

enum { UNPAINTED_BYTE = 0xff, MOST_BYTES = 1 << 15 };

static int64_t rows_of_rank(const route_case *c) {
    const oracle_pack pack = oracle_pack_of(c);
    return oracle_rows(&pack);
}

size_t device_row_bytes(const route_case *c, unsigned draw) {
    static const size_t sizes[] = {1,  2,  3,  4,  6,   7,   8,    12,   16,   20,  24,
                                   40, 48, 64, 80, 272, 512, 1040, 4096, 4112, 9000};
    const size_t rows = (size_t)(c->geometry.cp_size * rows_of_rank(c));
    size_t size = sizes[salt_below(c->salt, draw, sizeof sizes / sizeof *sizes)];
    while (size > 1 && size * rows > MOST_BYTES)
        size = (size + 1) / 2;
    return size;
}

size_t device_rows_shift(const route_case *c, unsigned draw) {
    return salt_below(c->salt, 7, 2) ? 0 : (size_t)salt_below(c->salt, draw, WIDEST_UNIT);
}

bool device_rows_make(scratch *memory, size_t size, size_t shift, device_rows *made) {
    uint8_t *block = scratch_bytes(memory, shift + size);
    if (!block)
        return false;
    *made = (device_rows){block + shift, size};
    memset(made->bytes, UNPAINTED_BYTE, size);
    return true;
}

bool device_rows_paint(const route_case *c, cpr_layout layout, size_t row_bytes, scratch *memory,
                       const device_rows *rows, verdict *v) {
    const oracle_pack pack = oracle_pack_of(c);
    const int64_t count = oracle_rows(&pack);
    int64_t *tokens = scratch_int64(memory, count);
    if (!tokens)
        return subject_no_memory(v);
    for (int64_t r = 0; r < c->geometry.cp_size; r++) {
        oracle_tokens(&pack, layout, r, tokens);
        paint_rows(tokens, count, row_bytes, rows[r].bytes);
    }
    return true;
}

bool device_rows_same(const route_case *c, const device_rows *rows, const device_rows *wanted,
                      size_t row_bytes, const char *reason, const char *direction, verdict *v) {
    const int64_t count = rows_of_rank(c);
    for (int64_t r = 0; r < c->geometry.cp_size; r++) {
        const int64_t at = paint_first_difference(rows[r].bytes, wanted[r].bytes, count, row_bytes);
        if (at < count)
            return law_fail(v, reason, "%s: rank %" PRId64 " row %" PRId64 " of %zu bytes", direction, r, at,
                            row_bytes);
    }
    return true;
}
