/* SPDX-License-Identifier: Apache-2.0 */
#include "trip.h"
#include "laws/oracle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 256, POISON = 0xa5, AWAY = 0, HOME = 1, AROUND = 2, COUNTS = 3 };

/*==============================================================================
 * MARK: - Payload
 *============================================================================*/

bool payload_make(payload *p, const stage *s, int64_t rows, size_t row_bytes, size_t shift) {
    memset(p, 0, sizeof *p);
    p->stage = s;
    p->bytes = (size_t)rows * row_bytes;
    p->block_bytes = GUARD_BYTES + shift + p->bytes + GUARD_BYTES;
    for (int64_t i = 0; i < s->count; i++) {
        p->blocks[i] = stage_allocate_shared(s, p->block_bytes);
        if (!p->blocks[i])
            return false;
        p->rows[i] = p->blocks[i] + GUARD_BYTES + shift;
    }
    return true;
}

void payload_free(payload *p) {
    for (int64_t i = 0; i < MAX_RANKS; i++)
        if (p->blocks[i])
            stage_free_shared(p->stage, p->blocks[i]);
    memset(p, 0, sizeof *p);
}

bool payload_poison(const payload *p) {
    for (int64_t i = 0; i < p->stage->count; i++)
        if (!CUDA_TRY(p->stage, cudaMemsetAsync(p->blocks[i], POISON, p->block_bytes, p->stage->stream)))
            return false;
    return true;
}

/* What lies around the rows of a rank. */
static bool payload_check_guards(const payload *p, int64_t i, gpu_count *count) {
    const stage *s = p->stage;
    const size_t before = (size_t)((unsigned char *)p->rows[i] - p->blocks[i]);
    return CUDA_TRY(s, gpu_check_bytes(p->blocks[i], before, POISON, count, s->stream)) &&
           CUDA_TRY(s, gpu_check_bytes(p->blocks[i] + before + p->bytes, p->block_bytes - before - p->bytes,
                                       POISON, count, s->stream));
}

/*==============================================================================
 * MARK: - Trips
 *============================================================================*/

static bool upload_tokens(const trip *t, cpr_layout layout, int64_t *device) {
    const stage *s = t->stage;
    const oracle_pack listed = {t->plan.pack->cu, t->plan.pack->entries, s->cp_size};
    int64_t *tokens = malloc((size_t)(s->count * t->rows + 1) * sizeof *tokens);
    if (!tokens)
        return stage_fail(s, "no memory for tokens");
    for (int64_t i = 0; i < s->count; i++)
        oracle_tokens(&listed, layout, s->first + i, tokens + i * t->rows);
    /* From pageable memory: the copy has left `tokens` when the call returns. */
    const bool good =
        CUDA_TRY(s, cudaMemcpyAsync(device, tokens, (size_t)(s->count * t->rows) * sizeof *tokens,
                                    cudaMemcpyHostToDevice, s->stream));
    free(tokens);
    return good;
}

static bool open_buffers(trip *t) {
    const stage *s = t->stage;
    const trip_plan *plan = &t->plan;
    const size_t token_bytes = (size_t)(s->count * t->rows) * sizeof(int64_t);
    t->source_tokens = stage_allocate(s, token_bytes);
    t->target_tokens = stage_allocate(s, token_bytes);
    t->counts = stage_allocate(s, (size_t)s->count * COUNTS * sizeof *t->counts);
    return t->source_tokens && t->target_tokens && t->counts &&
           payload_make(&t->start, s, t->rows, plan->row_bytes, plan->shift) &&
           payload_make(&t->away, s, t->rows, plan->row_bytes, plan->shift) &&
           payload_make(&t->home, s, t->rows, plan->row_bytes, plan->shift) &&
           upload_tokens(t, plan->source, t->source_tokens) &&
           upload_tokens(t, plan->target, t->target_tokens);
}

bool trip_open(trip *t, const stage *s, const trip_plan *plan) {
    memset(t, 0, sizeof *t);
    t->stage = s;
    t->plan = *plan;
    t->rows = pack_tokens(plan->pack) / s->cp_size;
    stage_step(s, "%s, P = %" PRId64 ", %s -> %s, rows of %zu bytes", plan->pack->name, s->cp_size,
               cpr_layout_name(plan->source), cpr_layout_name(plan->target), plan->row_bytes);
    return conversion_open(&t->conversion, s, plan->pack, plan->source, plan->target, plan->row_bytes) &&
           open_buffers(t);
}

void trip_close(trip *t) {
    conversion_close(&t->conversion);
    payload_free(&t->start);
    payload_free(&t->away);
    payload_free(&t->home);
    cudaFree(t->source_tokens);
    cudaFree(t->target_tokens);
    cudaFree(t->counts);
    memset(t, 0, sizeof *t);
}

bool trip_paint(trip *t, uint64_t salt) {
    const stage *s = t->stage;
    if (!payload_poison(&t->start) || !payload_poison(&t->away) || !payload_poison(&t->home))
        return false;
    for (int64_t i = 0; i < s->count; i++)
        if (!CUDA_TRY(s, gpu_paint(t->start.rows[i], t->source_tokens + i * t->rows, t->rows,
                                   t->plan.row_bytes, salt, s->stream)))
            return false;
    return true;
}

bool trip_forward(trip *t) {
    return conversion_run(&t->conversion, CPR_FORWARD, t->start.rows, t->away.rows);
}

bool trip_backward(trip *t) {
    return conversion_run(&t->conversion, CPR_BACKWARD, t->away.rows, t->home.rows);
}

static bool enqueue_checks(const trip *t, int64_t i, uint64_t salt) {
    const stage *s = t->stage;
    gpu_count *counts = t->counts + i * COUNTS;
    for (int c = 0; c < COUNTS; c++)
        if (!CUDA_TRY(s, gpu_count_reset(&counts[c], s->stream)))
            return false;
    return CUDA_TRY(s, gpu_check(t->away.rows[i], t->target_tokens + i * t->rows, t->rows, t->plan.row_bytes,
                                 salt, &counts[AWAY], s->stream)) &&
           CUDA_TRY(s, gpu_check(t->home.rows[i], t->source_tokens + i * t->rows, t->rows, t->plan.row_bytes,
                                 salt, &counts[HOME], s->stream)) &&
           payload_check_guards(&t->start, i, &counts[AROUND]) &&
           payload_check_guards(&t->away, i, &counts[AROUND]) &&
           payload_check_guards(&t->home, i, &counts[AROUND]);
}

static bool judge_rank(const trip *t, int64_t i, const gpu_count *counts) {
    static const char *const what[COUNTS] = {"against the definition", "back home", "around the rows"};
    const stage *s = t->stage;
    const trip_plan *plan = &t->plan;
    for (int c = 0; c < COUNTS; c++) {
        if (counts[c].wrong == 0)
            continue;
        s->report->wrong += (int64_t)counts[c].wrong;
        stage_fail(s,
                   "%s: P = %" PRId64 ", %s -> %s, %" PRId64 " rows of %zu bytes, shift %zu: rank %" PRId64
                   ": %llu bytes wrong %s, first in row %llu byte %llu",
                   plan->pack->name, s->cp_size, cpr_layout_name(plan->source), cpr_layout_name(plan->target),
                   t->rows, plan->row_bytes, plan->shift, s->first + i, counts[c].wrong, what[c],
                   counts[c].first / plan->row_bytes, counts[c].first % plan->row_bytes);
    }
    return counts[AWAY].wrong + counts[HOME].wrong + counts[AROUND].wrong == 0;
}

bool trip_judge(trip *t, uint64_t salt) {
    const stage *s = t->stage;
    gpu_count counts[MAX_RANKS * COUNTS];
    const size_t bytes = (size_t)s->count * COUNTS * sizeof *counts;
    for (int64_t i = 0; i < s->count; i++)
        if (!enqueue_checks(t, i, salt))
            return false;
    if (!stage_wait(s) || !CUDA_TRY(s, cudaMemcpy(counts, t->counts, bytes, cudaMemcpyDeviceToHost)))
        return false;
    s->report->cases++;
    bool good = true;
    for (int64_t i = 0; i < s->count; i++) {
        const cpr_error told = conversion_told(&t->conversion, i);
        good = stage_cpr(s, told.status, &told, "what the device told") && good;
    }
    for (int64_t i = 0; i < s->count; i++)
        good = judge_rank(t, i, counts + i * COUNTS) && good;
    return good;
}

bool trip_there_and_back(trip *t, uint64_t salt) {
    return trip_paint(t, salt) && trip_forward(t) && trip_backward(t) && trip_judge(t, salt);
}

bool trip_make(const stage *s, const trip_plan *plan, uint64_t salt) {
    trip t;
    const bool good = trip_open(&t, s, plan) && trip_there_and_back(&t, salt);
    trip_close(&t);
    return good;
}
