/* SPDX-License-Identifier: Apache-2.0 */
/* The pack that the tests against the stand-in convert, and the rows of a rank on their way there and back. */
#ifndef CPROUTE_PROPS_THERE_AND_BACK_H
#define CPROUTE_PROPS_THERE_AND_BACK_H

#include "example.h"

enum { MOST_RANKS = 4, ROW_BYTES = 24, TOKENS = 168 };

static const int64_t BOUNDARIES[] = {0, 24, 24, 96, TOKENS};

/* Rows of a rank under a layout of other boundaries, as many of them. */
static inline void paint(const int64_t *boundaries, cpr_geometry geometry, cpr_layout layout,
                         unsigned char *rows) {
    cpr_intervals *intervals = NULL;
    const cpr_cu_seqlens cu = cpr_cu_seqlens_int64(boundaries, LENGTH_OF(BOUNDARIES));
    assert_int_equal(cpr_layout_intervals(&cu, CPR_ROWS_UNCHECKED, geometry, layout, NULL, &intervals, NULL),
                     CPR_OK);
    for (int64_t i = 0; i < intervals->count; i++)
        for (int64_t token = intervals->items[i].begin; token < intervals->items[i].end; token++)
            for (int byte = 0; byte < ROW_BYTES; byte++)
                *rows++ = (unsigned char)((token + byte * 37) % 251);
    cpr_intervals_free(intervals);
}

/* What starts must be as wanted when it is away, and as it started when it is home. */
typedef struct there_and_back {
    size_t bytes;
    unsigned char *start, *wanted, *away, *home;
} there_and_back;

static inline there_and_back there_and_back_make(cpr_geometry geometry, cpr_layout source,
                                                 cpr_layout target) {
    const size_t bytes = (size_t)(TOKENS / geometry.cp_size) * ROW_BYTES;
    const there_and_back rows = {bytes, malloc(bytes), malloc(bytes), malloc(bytes), malloc(bytes)};
    paint(BOUNDARIES, geometry, source, rows.start);
    paint(BOUNDARIES, geometry, target, rows.wanted);
    memset(rows.away, 0xff, bytes);
    memset(rows.home, 0xff, bytes);
    return rows;
}

static inline bool there_and_back_right(const there_and_back *rows) {
    return memcmp(rows->away, rows->wanted, rows->bytes) == 0 &&
           memcmp(rows->home, rows->start, rows->bytes) == 0;
}

static inline void there_and_back_free(there_and_back *rows) {
    free(rows->start);
    free(rows->wanted);
    free(rows->away);
    free(rows->home);
    *rows = (there_and_back){0};
}

#endif
