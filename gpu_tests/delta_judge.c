/* SPDX-License-Identifier: Apache-2.0 */
#include "delta_judge.h"

#include "laws/delta_world.h"
#include "laws/laws.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/*==============================================================================
 * MARK: - Cases
 *============================================================================*/

static bool needs_more_heads(const delta_case *c, int64_t ranks) {
    for (int64_t b = 0; b < c->batches; b++)
        if (c->batch[b].mode == DELTA_HEADWISE && c->shape.heads % ranks != 0)
            return true;
    return false;
}

/* Lengths as so many times as many tokens, which so many ranks divide. */
static void spread_over(delta_case *c, int64_t ranks) {
    for (int64_t b = 0; b < c->batches; b++) {
        delta_pack *p = &c->batch[b];
        if (p->cp_size == 1)
            continue;
        p->cp_size = ranks;
        for (int64_t i = 0; i < p->entries; i++)
            p->cu[i] *= ranks;
    }
    if (needs_more_heads(c, ranks))
        c->shape.heads = ranks;
}

void delta_case_draw_for(uint64_t seed, int64_t number, int64_t ranks, delta_case *c) {
    uint64_t state = seed ^ ((uint64_t)number << 32);
    choices from = choices_from_seed(random_next(&state), NULL);
    delta_case_draw(&from, c);
    if (ranks)
        spread_over(c, ranks);
}

void delta_case_of_heads(int64_t ranks, int64_t keys, int64_t values, delta_case *c) {
    static const int64_t chunks[] = {0, 1, 1, 3, 4}; /* an empty slot, and the least length twice */
    *c = (delta_case){.shape = {.heads = ranks, .keys = keys, .values = values, .taps = 4},
                      .salt = 7,
                      .batches = DELTA_BATCHES};
    for (int b = 0; b < DELTA_BATCHES; b++) {
        delta_pack *p = &c->batch[b];
        *p = (delta_pack){.mode = (delta_mode)b, .cp_size = ranks, .entries = sizeof chunks / sizeof *chunks};
        for (int64_t i = 0; i < p->entries; i++)
            p->cu[i] = chunks[i] * 2 * ranks;
    }
}

void delta_case_of_short_ranks(int64_t ranks, delta_case *c) {
    *c = (delta_case){.shape = {.heads = 2, .keys = 2, .values = 1, .taps = 4}, .salt = 8, .batches = 1};
    c->batch[0] = (delta_pack){.mode = DELTA_CHUNKWISE, .cp_size = ranks, .entries = 2, .cu = {0, 2 * ranks}};
}

/*==============================================================================
 * MARK: - Judging
 *============================================================================*/

typedef void judge_fn(const delta_case *c, const delta_engine *engine, verdict *v);

static bool judge_by(const stage *s, const char *law_id, judge_fn *judge, const delta_case *c,
                     const char *name) {
    verdict v = {.outcome = LAW_PASSED};
    judge(c, &delta_on_gpu, &v);
    s->report->cases += v.outcome == LAW_PASSED;
    return v.outcome == LAW_PASSED ||
           stage_fail(s, "law %s, case %s: %s: %s", law_id, name, v.reason, v.details);
}

/*
 * What a kernel that stores bfloat16 and sums in float owes, which is far less than in_bfloat16's bound: what comes in is exact, what is
 * summed is as near as in float, B (props/laws/delta_rounding.c), and is rounded once, which takes away at most 2^-8 of what is
 * rounded. So a result is off by at most B + 2^-8 (|result| + B); those of parameters are not stored, and are off by B.
 */
static void widen(scalar *bound, const scalar *wanted, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        bound[i] += 0x1p-8 * (fabs(wanted[i]) + bound[i]);
}

static void subtract(scalar *from, const scalar *what, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        from[i] -= what[i];
}

static bool find_bound(const delta_world *w, const delta_sheets *wanted, delta_sheets *bound, verdict *v) {
    const delta_shape *s = &w->c->shape;
    const int64_t outputs = w->tokens * delta_output_width(s), rows = w->tokens * delta_row_width(s);
    delta_sheets sums;
    if (!delta_world_reference(w, &float_magnitudes, bound, v) ||
        !delta_world_reference(w, &magnitudes, &sums, v))
        return false;
    subtract(bound->outputs, sums.outputs, outputs);
    subtract(bound->row_grads, sums.row_grads, rows);
    subtract(bound->parameter_grads, sums.parameter_grads, delta_parameters(s));
    widen(bound->outputs, wanted->outputs, outputs);
    widen(bound->row_grads, wanted->row_grads, rows);
    return true;
}

static bool batch_is_stored(const delta_case *c, int64_t batch, const delta_engine *engine,
                            delta_group *group, scratch *memory, verdict *v) {
    delta_world w;
    delta_sheets wanted, bound;
    delta_shards shards;
    const scalar *parameters = delta_world_parameters(c, &in_bfloat16, memory);
    return parameters && delta_world_make(&w, c, batch, &in_bfloat16, parameters, memory, v) &&
           delta_world_reference(&w, &in_double, &wanted, v) && find_bound(&w, &wanted, &bound, v) &&
           delta_world_shards(&w, &shards, v) && delta_world_forward(&w, engine, group, &shards, v) &&
           delta_world_same_outputs(&w, &shards, &wanted, &bound, v) &&
           delta_world_backward(&w, engine, group, &shards, v) &&
           delta_world_same_grads(&w, &shards, &wanted, &bound, v);
}

static void judge_stored(const delta_case *c, const delta_engine *engine, verdict *v) {
    scratch memory = {0};
    delta_group *group;
    delta_error error;
    if (delta_group_create(NULL, &group, &error) != DELTA_OK) {
        law_fail(v, "no memory", "for a group");
        return;
    }
    for (int64_t i = 0; i < c->batches && v->outcome == LAW_PASSED; i++)
        if (!batch_is_stored(c, i, engine, group, &memory, v) && v->outcome == LAW_PASSED)
            law_fail(v, "no memory", "for micro-batch %" PRId64, i);
    delta_group_free(group);
    scratch_free(&memory);
}

bool delta_judge(const stage *s, const delta_case *c, const char *name) {
    delta_on_gpu_plays(s);
    return judge_by(s, "stored in bfloat16", judge_stored, c, name) &&
           judge_by(s, "delta_exact", judge_delta_exact, c, name) &&
           judge_by(s, "delta_rounding", judge_delta_rounding, c, name);
}

/*==============================================================================
 * MARK: - Planted damage
 *============================================================================*/

typedef enum place { OUTPUTS, ROW_GRADS, PARAMETER_GRADS, PLACES } place;

static _Thread_local place damaged; /* an engine of the laws has no context */

static void damage(place p, scalar *const *results, const delta_batch *batch) {
    scalar *number = results[batch->cp_size - 1];
    if (p == damaged)
        *number = *number == 0 ? 1 : *number - 1;
}

static delta_status forward_damaged(delta_group *group, const delta_layer *layer, const delta_batch *batch,
                                    const scalar *const *rows, scalar *const *outputs, delta_error *error) {
    const delta_status status = delta_on_gpu.forward(group, layer, batch, rows, outputs, error);
    damage(OUTPUTS, outputs, batch);
    return status;
}

static delta_status backward_damaged(delta_group *group, const delta_layer *layer, const delta_batch *batch,
                                     const scalar *const *rows, const scalar *const *output_grads,
                                     scalar *const *row_grads, scalar *const *parameter_grads,
                                     delta_error *error) {
    const delta_status status =
        delta_on_gpu.backward(group, layer, batch, rows, output_grads, row_grads, parameter_grads, error);
    damage(ROW_GRADS, row_grads, batch);
    damage(PARAMETER_GRADS, parameter_grads, batch);
    return status;
}

static bool is_found(const stage *s, const char *law_id, judge_fn *judge, const delta_case *c) {
    const delta_engine engine = {forward_damaged, backward_damaged, delta_on_gpu.mode_from_name};
    for (damaged = OUTPUTS; damaged < PLACES; damaged++) {
        verdict v = {.outcome = LAW_PASSED};
        judge(c, &engine, &v);
        if (v.outcome != LAW_FAILED)
            return stage_fail(s, "%s does not see that number %d of 3 is wrong", law_id, (int)damaged + 1);
        s->report->cases++;
    }
    return true;
}

bool delta_judge_control(const stage *s) {
    delta_case c;
    delta_case_of_heads(s->cp_size, 2, 2, &c);
    delta_on_gpu_plays(s);
    return is_found(s, "delta_exact", judge_delta_exact, &c) &&
           is_found(s, "delta_rounding", judge_delta_rounding, &c) &&
           is_found(s, "stored in bfloat16", judge_stored, &c);
}
