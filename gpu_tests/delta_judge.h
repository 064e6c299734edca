/* SPDX-License-Identifier: Apache-2.0 */
/* The laws of props about the layer, judged on GPUs. */
#ifndef CPROUTE_GPU_TESTS_DELTA_JUDGE_H
#define CPROUTE_GPU_TESTS_DELTA_JUDGE_H

#include "delta_on_gpu.h"

#include "kit/delta_case.h"

/* Drawn: sizes of heads are small, boundaries and P are any. With `ranks` not 0, P is that, or 1. */
void delta_case_draw_for(uint64_t seed, int64_t number, int64_t ranks, delta_case *c);

/* Every mode on so many ranks, and one on one rank; with heads as large as real ones. */
void delta_case_of_heads(int64_t ranks, int64_t keys, int64_t values, delta_case *c);

/* One sequence of the least length, so that a convolution of four taps looks back at two ranks. */
void delta_case_of_short_ranks(int64_t ranks, delta_case *c);

/* Exact over the field; in fp32 and bf16 within the bounds of props/laws/delta_rounding.c, and in bf16 within a narrower one, for kernels
 * that sum in float. Collective on a real stage. */
bool delta_judge(const stage *s, const delta_case *c, const char *name);

/* Are results found wrong when one number of one rank is off by one, in each of outputs, gradients of rows and of parameters? */
bool delta_judge_control(const stage *s);

#endif
