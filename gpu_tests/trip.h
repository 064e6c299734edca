/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A round trip: painted rows of the source layout are converted forward and judged by the definition of the target layout,
 * token by token and byte by byte on the device, then converted backward and judged by that of the source layout. Buffers are
 * surrounded by bytes that nobody may touch.
 */
#ifndef CPROUTE_GPU_TESTS_TRIP_H
#define CPROUTE_GPU_TESTS_TRIP_H

#include "conversion.h"
#include "gpu_rows.h"

/* Rows of the ranks that this process is. */
typedef struct payload {
    const stage *stage;
    size_t bytes; /* of one rank */
    unsigned char *blocks[MAX_RANKS];
    size_t block_bytes;
    void *rows[MAX_RANKS];
} payload;

/* `shift` bytes off the alignment of cudaMalloc. */
bool payload_make(payload *p, const stage *s, int64_t rows, size_t row_bytes, size_t shift);
void payload_free(payload *p);
/* Every byte, also around the rows. Not waited for. */
bool payload_poison(const payload *p);

typedef struct trip_plan {
    const pack *pack;
    cpr_layout source, target;
    size_t row_bytes;
    size_t shift;
} trip_plan;

typedef struct trip {
    const stage *stage;
    trip_plan plan;
    conversion conversion;
    int64_t rows;                           /* of each rank */
    int64_t *source_tokens, *target_tokens; /* on the device; of rank first, then the next ... */
    payload start, away, home;
    gpu_count *counts; /* on the device: three for each rank */
} trip;

bool trip_open(trip *t, const stage *s, const trip_plan *plan);
void trip_close(trip *t);

/* All of these only enqueue work. */
bool trip_paint(trip *t, uint64_t salt); /* the start; the others are poisoned */
bool trip_forward(trip *t);
bool trip_backward(trip *t);

/* Waits and judges both ends. */
bool trip_judge(trip *t, uint64_t salt);

/* All of these once, with a trip that is open. */
bool trip_there_and_back(trip *t, uint64_t salt);

/* The same with one that is opened and closed for it. */
bool trip_make(const stage *s, const trip_plan *plan, uint64_t salt);

#endif
