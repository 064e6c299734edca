/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between zigzag and contiguous as the per-token method makes them: each makes its route anew, and waits for it. */
#ifndef CPROUTE_GPU_TESTS_PER_TOKEN_CONVERSION_H
#define CPROUTE_GPU_TESTS_PER_TOKEN_CONVERSION_H

#include "pack.h"
#include "per_token.h"
#include "stage.h"

typedef struct per_token_conversion {
    const stage *stage;
    per_token *method;
    int64_t entries;
    int64_t *cu; /* on the device */
    void *sent[MAX_RANKS], *received[MAX_RANKS];
    int64_t *recv_rows[MAX_RANKS];
    per_token_route routes[MAX_RANKS];
} per_token_conversion;

/* For packs of up to so many tokens, and rows of up to so many bytes. per_token_conversion_close may always follow. */
bool per_token_conversion_open(per_token_conversion *c, const stage *s, int64_t tokens, size_t row_bytes);
void per_token_conversion_close(per_token_conversion *c);

/* The pack of the conversions that follow. Not waited for. */
bool per_token_conversion_take(per_token_conversion *c, const pack *p);

/* from[i] and to[i] belong to rank first + i; row_bytes is a multiple of 8. */
bool per_token_conversion_run(per_token_conversion *c, bool to_contiguous, size_t row_bytes,
                              void *const *from, void *const *to);

#endif
