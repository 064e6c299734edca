/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One case for a law about flat tensors: a tensor that somebody hands over, for some rank. Most are a route's tensor in form
 * with a few entries changed; some are any numbers.
 */
#ifndef CPROUTE_PROPS_TENSOR_CASE_H
#define CPROUTE_PROPS_TENSOR_CASE_H

#include "choice.h"
#include "cproute/cproute.h"
#include <stdio.h>

enum { TENSOR_MAX_ENTRIES = 64 };

typedef struct tensor_case {
    cpr_geometry geometry;
    int64_t count;
    int64_t entries[TENSOR_MAX_ENTRIES];
} tensor_case;

/* Total: every stream of choices makes a case. */
void tensor_case_draw(choices *choices, tensor_case *c);

/* The bytes that draw it, as any numbers. False where there are none: text cases may be larger. */
bool tensor_case_encode(const tensor_case *c, uint8_t *bytes, size_t capacity, size_t *length);

/* What a decoder must answer, from the rules and their order, and from nothing that the engine says. The geometry is legal.
 * CPR_NO_MEMORY: this function has none. */
cpr_error flat_expected(const int64_t *flat, int64_t count, cpr_geometry geometry);

void tensor_case_show(FILE *out, const tensor_case *c);
void tensor_case_write_text(FILE *out, const tensor_case *c, const char *law, const char *note);

#endif
