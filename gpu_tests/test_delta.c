/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consumer that would notice: the gated delta rule of consumer/ on GPUs, in all modes, forward and backward, held to its reference on
 * one rank of the host by the laws that hold the consumer on the host to it.
 */
#include "delta_judge.h"
#include "tests.h"

#include <inttypes.h>
#include <stdio.h>

static bool judge_drawn(const stage *s, int64_t count) {
    const int64_t ranks = s->real ? s->cp_size : 0;
    for (int64_t i = 0; i < count; i++) {
        delta_case c;
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "drawn %" PRId64, i);
        delta_case_draw_for(s->options->seed + (uint64_t)s->cp_size, i, ranks, &c);
        if (!delta_judge(s, &c, name))
            return false;
    }
    return true;
}

/* Sizes that no block of threads divides, and those that are measured, which take the host long. */
static bool judge_heads(const stage *s) {
    static const int64_t sizes[][2] = {{33, 40}, {64, 64}};
    const bool few = s->options->quick || (s->real && s->shares_gpus) || s->cp_size > 4;
    const size_t count = few ? 1 : sizeof sizes / sizeof *sizes;
    for (size_t i = 0; i < count; i++) {
        delta_case c;
        delta_case_of_heads(s->cp_size, sizes[i][0], sizes[i][1], &c);
        if (!delta_judge(s, &c, i == 0 ? "heads of 33 x 40" : "heads of 64 x 64"))
            return false;
    }
    return true;
}

static bool judge_short_ranks(const stage *s) {
    delta_case c;
    delta_case_of_short_ranks(s->cp_size, &c);
    return delta_judge(s, &c, "short ranks");
}

/* A part of the cases: each is all its micro-batches by three laws. */
bool test_delta(stage *s) {
    const int64_t part = s->options->quick ? 100 : s->real && s->shares_gpus ? 60 : s->direct ? 45 : 15;
    return judge_short_ranks(s) && judge_heads(s) && judge_drawn(s, (s->options->cases + part - 1) / part);
}

bool test_delta_control(stage *s) {
    return delta_judge_control(s);
}
