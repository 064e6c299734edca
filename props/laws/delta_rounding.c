/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a mode may be from one rank, and why no further.
 *
 * What the layer computes is a sum of terms, each a product of numbers that come in, and every mode computes the same terms: it
 * only brackets their sums and products in other ways. Rounding multiplies a term by (1 + d), |d| <= u, at each of the n
 * operations on its way to the result. So the result is off by at most the sum of |term| ((1 + u)^n - 1).
 *
 * The reference, evaluated with magnitudes, gives the sum of |term|; with magnitudes inflated by g at each operation, the sum of
 * |term| (1 + g)^m, m the operations on the term's way through the reference. n <= 2 m:
 *   - headwise and all_gather run the reference: n = m;
 *   - chunkwise takes a term through the steps that the reference takes it through, into B, M and the states alike. What comes
 *     on top is folding: `keys` products and sums for each chunk between, forwards or backwards. But in such a chunk is a token
 *     at least, whose step is more than that. Sums over tokens, for gradients of parameters, are shorter than the reference's,
 *     but for one addition a rank, and each rank has a token.
 * With (1 + u)^2n <= (1 + 3u)^m the bound is R(3u) - R, as scalar.h has it. The reference in double is off by at most R(2^-52) - R,
 * for which there is room in 3u >= 2u + u^2 + 2^-52, and bfloat16s rounded by way of floats are for the same reason.
 */
#include "delta_world.h"
#include "laws.h"
#include "subject.h"

static const struct {
    const arithmetic *numbers, *inflated;
} kinds[] = {{&in_float, &float_magnitudes}, {&in_bfloat16, &bfloat16_magnitudes}};

static void subtract(scalar *from, const scalar *what, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        from[i] -= what[i];
}

/* R(g) - R */
static bool find_bound(const delta_world *w, const arithmetic *inflated, delta_sheets *bound, verdict *v) {
    delta_sheets sums;
    if (!delta_world_reference(w, inflated, bound, v) || !delta_world_reference(w, &magnitudes, &sums, v))
        return false;
    subtract(bound->outputs, sums.outputs, w->tokens * delta_output_width(&w->c->shape));
    subtract(bound->row_grads, sums.row_grads, w->tokens * delta_row_width(&w->c->shape));
    subtract(bound->parameter_grads, sums.parameter_grads, delta_parameters(&w->c->shape));
    return true;
}

static bool batch_is_near(const delta_case *c, int64_t batch, size_t kind, const delta_engine *engine,
                          delta_group *group, scratch *memory, verdict *v) {
    delta_world w;
    delta_sheets wanted, bound;
    delta_shards shards;
    const scalar *parameters = delta_world_parameters(c, kinds[kind].numbers, memory);
    if (!parameters)
        return subject_no_memory(v);
    return delta_world_make(&w, c, batch, kinds[kind].numbers, parameters, memory, v) &&
           delta_world_reference(&w, &in_double, &wanted, v) &&
           find_bound(&w, kinds[kind].inflated, &bound, v) && delta_world_shards(&w, &shards, v) &&
           delta_world_forward(&w, engine, group, &shards, v) &&
           delta_world_same_outputs(&w, &shards, &wanted, &bound, v) &&
           delta_world_backward(&w, engine, group, &shards, v) &&
           delta_world_same_grads(&w, &shards, &wanted, &bound, v);
}

void judge_delta_rounding(const delta_case *c, const delta_engine *engine, verdict *v) {
    scratch memory = {0};
    delta_group *group;
    if (!delta_world_group(c, &group, v))
        return;
    const size_t kind_count = sizeof kinds / sizeof *kinds;
    for (size_t i = 0; i < (size_t)c->batches * kind_count; i++)
        if (!batch_is_near(c, (int64_t)(i / kind_count), i % kind_count, engine, group, &memory, v))
            break;
    delta_group_free(group);
    scratch_free(&memory);
}
