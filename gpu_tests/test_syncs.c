/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often the host waits for the device, counted: 24 layers, 10 micro-batches with boundaries of their own, a conversion before and
 * one after each layer. Ours makes its exchanges once for each micro-batch and then must neither wait, nor read, nor
 * allocate. The per-token method of Megatron-LM 3282 makes its route in every conversion.
 */
#include "per_token_conversion.h"
#include "sync_count.h"
#include "tests.h"
#include "trip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 24, MICRO_BATCHES = 10, TOKENS = 8192, SEQUENCES = 8, ROW_BYTES = 64, SIMULATED_RANKS = 4 };
enum { MOST_QUERIES = 8 /* of one conversion: ours is one, and NCCL has some */ };

typedef struct loop {
    const stage *stage;
    pack *pack;
    trip there, back; /* back's start is there's away */
    sync_count create, run, per_token;
    double run_seconds, per_token_seconds;
    int64_t run_conversions, per_token_conversions;
    per_token_conversion method;
} loop;

/*==============================================================================
 * MARK: - The per-token method
 *============================================================================*/

static bool run_per_token(loop *l) {
    const stage *s = l->stage;
    if (!per_token_conversion_take(&l->method, l->pack) || !trip_paint(&l->there, 3) || !stage_wait(s))
        return false;
    const double begun = seconds_now();
    sync_count_into(&l->per_token);
    bool good = true;
    for (int layer = 0; good && layer < LAYERS; layer++)
        good =
            per_token_conversion_run(&l->method, true, ROW_BYTES, l->there.start.rows, l->there.away.rows) &&
            per_token_conversion_run(&l->method, false, ROW_BYTES, l->there.away.rows, l->there.home.rows);
    sync_count_into(NULL);
    good = good && stage_wait(s);
    l->per_token_seconds += seconds_now() - begun;
    l->per_token_conversions += 2 * LAYERS;
    return good && trip_judge(&l->there, 3);
}

/*==============================================================================
 * MARK: - Ours
 *============================================================================*/

static bool forward_and_backward(loop *l) {
    return trip_forward(&l->there) && trip_forward(&l->back) && trip_backward(&l->back) &&
           trip_backward(&l->there);
}

static bool run_cached(loop *l) {
    const stage *s = l->stage;
    if (!trip_paint(&l->there, 1) || !trip_paint(&l->back, 2) || !forward_and_backward(l) || !stage_wait(s))
        return false;
    const double begun = seconds_now();
    sync_count_into(&l->run);
    bool good = true;
    for (int layer = 0; good && layer < LAYERS; layer++)
        good = forward_and_backward(l);
    sync_count_into(NULL);
    good = good && stage_wait(s);
    l->run_seconds += seconds_now() - begun;
    l->run_conversions += 4 * LAYERS;
    return good && trip_judge(&l->there, 1) && trip_judge(&l->back, 2);
}

static bool play_micro_batch(loop *l, int64_t number) {
    const stage *s = l->stage;
    pack_spread(TOKENS, SEQUENCES + number, s->cp_size, l->pack);
    const trip_plan there = {l->pack, CPR_ZIGZAG, CPR_CONTIGUOUS, ROW_BYTES, 0},
                    back = {l->pack, CPR_CONTIGUOUS, CPR_ZIGZAG, ROW_BYTES, 0};
    bool good = trip_open(&l->there, s, &there) && trip_open(&l->back, s, &back);
    if (good) { /* counted apart from the buffers of the test: made once more */
        conversion again[2] = {0};
        sync_count_into(&l->create);
        good = conversion_open(&again[0], s, l->pack, CPR_ZIGZAG, CPR_CONTIGUOUS, ROW_BYTES) &&
               conversion_open(&again[1], s, l->pack, CPR_CONTIGUOUS, CPR_ZIGZAG, ROW_BYTES);
        sync_count_into(NULL);
        conversion_close(&again[0]);
        conversion_close(&again[1]);
    }
    stage_step(s, "micro-batch %" PRId64 ", our exchanges", number);
    good = good && run_cached(l);
    stage_step(s, "micro-batch %" PRId64 ", per-token method", number);
    good = good && run_per_token(l);
    trip_close(&l->there);
    trip_close(&l->back);
    return good;
}

/* What is known to wait and to allocate is counted. */
static bool counter_works(const stage *s) {
    sync_count known = {0};
    void *memory = NULL;
    cudaEvent_t event = NULL;
    int number;
    sync_count_into(&known);
    const bool good = CUDA_TRY(s, cudaMalloc(&memory, 64)) && CUDA_TRY(s, cudaMemset(memory, 0, 64)) &&
                      CUDA_TRY(s, cudaMemcpy(&number, memory, sizeof number, cudaMemcpyDeviceToHost)) &&
                      CUDA_TRY(s, cudaStreamSynchronize(s->stream)) && CUDA_TRY(s, cudaFree(memory)) &&
                      CUDA_TRY(s, cudaStreamQuery(s->stream)) && CUDA_TRY(s, cudaEventCreate(&event)) &&
                      CUDA_TRY(s, cudaEventDestroy(event));
    sync_count_into(NULL);
    if (good && (known.waits < 2 || known.allocations < 4 || known.queries < 1))
        return stage_fail(s,
                          "the counter is blind: a copy to the host and a synchronisation counted %" PRId64
                          " waits, making and freeing memory and an event %" PRId64
                          " allocations, a query %" PRId64 " queries, of %" PRId64 " calls",
                          known.waits, known.allocations, known.queries, known.calls);
    return good;
}

static bool judge_counts(const loop *l) {
    const stage *s = l->stage;
    const sync_count *run = &l->run;
    const int64_t expected = l->per_token_conversions * s->count * (14 * s->cp_size + 1);
    report *r = s->report;
    if (!report_figure(r, "conversions", (double)l->run_conversions) ||
        !report_figure(r, "waits in them", (double)run->waits) ||
        !report_figure(r, "reads in them", (double)run->reads) ||
        !report_figure(r, "allocations in them", (double)run->allocations) ||
        !report_figure(r, "queries in them", (double)run->queries) ||
        !report_figure(r, "waits to make their exchanges", (double)l->create.waits) ||
        !report_figure(r, "us for one, wall clock", l->run_seconds / (double)l->run_conversions * 1e6) ||
        !report_figure(r, "per-token conversions", (double)l->per_token_conversions) ||
        !report_figure(r, "per-token ranks counted", (double)s->count) ||
        !report_figure(r, "per-token waits", (double)l->per_token.waits) ||
        !report_figure(r, "us for one per-token conversion",
                       l->per_token_seconds / (double)l->per_token_conversions * 1e6))
        return false;
    if (run->waits || run->reads || run->allocations)
        return stage_fail(s,
                          "%" PRId64 " conversions made %" PRId64 " waits (last: %s), %" PRId64
                          " reads, %" PRId64 " allocations (last: %s); wanted none",
                          l->run_conversions, run->waits, run->waits ? run->last_wait : "-", run->reads,
                          run->allocations, run->allocations ? run->last_allocation : "-");
    if (run->queries > MOST_QUERIES * l->run_conversions)
        return stage_fail(s,
                          "%" PRId64 " conversions asked %" PRId64
                          " times whether the device is done, which is a wait; wanted %d for one at most",
                          l->run_conversions, run->queries, (int)MOST_QUERIES);
    if (l->per_token.waits < expected)
        return stage_fail(
            s, "the per-token method waited %" PRId64 " times, which cannot be: it reads %" PRId64 " numbers",
            l->per_token.waits, expected);
    return true;
}

bool test_syncs(stage *s) {
    if (!s->real && !(stage_close(s), stage_open_simulated(s, SIMULATED_RANKS)))
        return false;
    const char *reason = sync_count_open();
    if (reason)
        return test_skip(s, reason);
    loop l = {.stage = s, .pack = malloc(sizeof *l.pack)};
    bool good = l.pack ? counter_works(s) && per_token_conversion_open(&l.method, s, TOKENS, ROW_BYTES)
                       : stage_fail(s, "no memory for a pack");
    /* Ranks that share a GPU wait for their turns too, at each of thousands of reads. */
    const int64_t batches = s->options->quick ? 1 : s->shares_gpus && s->real ? 2 : MICRO_BATCHES;
    for (int64_t b = 0; good && b < batches; b++)
        good = play_micro_batch(&l, b);
    sync_count_close();
    good = good && judge_counts(&l);
    per_token_conversion_close(&l.method);
    free(l.pack);
    return good;
}
