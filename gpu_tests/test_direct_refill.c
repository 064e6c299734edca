/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offsets that change where they lie: a conversion without a route reads them when it runs. Captured once, forward and backward, and
 * replayed with offsets refilled in between; wrong ones among them. And cp_size that changes with every micro-batch.
 */
#include "tests.h"
#include "trip.h"

#include "laws/oracle.h"

#include <inttypes.h>
#include <stdlib.h>

enum { ROW_BYTES = 80, REPLAYS = 12, MICRO_BATCHES = 60 };

static void redraw(pack *p, int64_t unit, uint64_t *random) {
    pack_redraw(p, "refilled", unit, random);
}

static bool refill(const trip *t) {
    for (int64_t i = 0; i < t->stage->count; i++)
        if (!device_offsets_refill(&t->conversion.offsets[i], t->plan.pack->cu))
            return false;
    return true;
}

/* The judge's tokens, for the pack as it is now. */
static bool relist(const trip *t) {
    const stage *s = t->stage;
    const oracle_pack listed = {t->plan.pack->cu, t->plan.pack->entries, s->cp_size};
    const size_t bytes = (size_t)t->rows * sizeof(int64_t);
    int64_t *tokens = malloc(bytes + 1);
    bool good = tokens || stage_fail(s, "no memory for tokens");
    for (int64_t i = 0; good && i < s->count; i++) {
        oracle_tokens(&listed, t->plan.source, s->first + i, tokens);
        good = CUDA_TRY(s, cudaMemcpyAsync(t->source_tokens + i * t->rows, tokens, bytes,
                                           cudaMemcpyHostToDevice, s->stream));
        oracle_tokens(&listed, t->plan.target, s->first + i, tokens);
        good = good && CUDA_TRY(s, cudaMemcpyAsync(t->target_tokens + i * t->rows, tokens, bytes,
                                                   cudaMemcpyHostToDevice, s->stream));
    }
    free(tokens);
    return good;
}

/* With wrong offsets a replay writes nothing, and says so; the next one is right again. */
static bool replay_wrong(trip *t, cudaGraphExec_t graph, int64_t entry) {
    const stage *s = t->stage;
    pack *p = malloc(sizeof *p);
    gpu_count *counted = stage_allocate(s, sizeof *counted), touched;
    bool good = p && counted;
    if (good) {
        *p = *t->plan.pack;
        p->cu[entry] = p->cu[entry - 1] - 1;
    }
    for (int64_t i = 0; good && i < s->count; i++)
        good = device_offsets_refill(&t->conversion.offsets[i], p->cu);
    good = good && trip_paint(t, 99) && CUDA_TRY(s, gpu_count_reset(counted, s->stream)) &&
           CUDA_TRY(s, cudaGraphLaunch(graph, s->stream));
    for (int64_t i = 0; good && i < s->count; i++)
        good =
            CUDA_TRY(s, gpu_check_bytes(t->away.blocks[i], t->away.block_bytes, 0xa5, counted, s->stream)) &&
            CUDA_TRY(s, gpu_check_bytes(t->home.blocks[i], t->home.block_bytes, 0xa5, counted, s->stream));
    good =
        good && stage_wait(s) &&
        CUDA_TRY(s, cudaMemcpy(&touched, counted, sizeof touched, cudaMemcpyDeviceToHost)) &&
        (touched.wrong == 0 || stage_fail(s, "a replay with wrong offsets wrote %llu bytes", touched.wrong));
    for (int64_t i = 0; good && i < s->count; i++) {
        const cpr_error told = conversion_told(&t->conversion, i);
        good = (told.status == CPR_DECREASING && told.index == entry) ||
               stage_fail(s, "a replay with entry %" PRId64 " wrong told %s, entry %" PRId64, entry,
                          cpr_status_name(told.status), told.index);
    }
    s->report->cases++;
    cudaFree(counted);
    free(p);
    return good;
}

static bool capture(trip *t, cudaGraph_t *graph, cudaGraphExec_t *instance) {
    const stage *s = t->stage;
    stage_step(s, "capture");
    if (!CUDA_TRY(s, cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal)))
        return false;
    const bool enqueued = trip_forward(t) && trip_backward(t);
    return CUDA_TRY(s, cudaStreamEndCapture(s->stream, graph)) && enqueued &&
           CUDA_TRY(s, cudaGraphInstantiate(instance, *graph, 0));
}

/* By a route: refused until the route is built anew. */
static bool refill_by_route(trip *t, uint64_t salt) {
    const stage *s = t->stage;
    cpr_error error;
    (void)cpr_cuda_conversion_run(t->conversion.direct, CPR_FORWARD, t->start.rows[0], t->away.rows[0],
                                  s->stream, &error);
    if (error.status != CPR_CAPTURE_LAYOUT_CHANGE)
        return stage_fail(s, "a stale route: %s, wanted capture_layout_change",
                          cpr_status_name(error.status));
    return stage_cpr(s, cpr_cuda_conversion_refill(t->conversion.direct, &error), &error,
                     "cpr_cuda_conversion_refill") &&
           relist(t) && trip_there_and_back(t, salt);
}

bool test_direct_refill(stage *s) {
    s->direct = true;
    pack *p = malloc(sizeof *p);
    uint64_t random = s->options->seed;
    trip t = {0};
    cudaGraph_t graph = NULL;
    cudaGraphExec_t instance = NULL;
    bool good = p || stage_fail(s, "no memory for a pack");
    if (good)
        redraw(p, 2 * s->cp_size, &random);
    const trip_plan plan = {p, CPR_ZIGZAG, CPR_CONTIGUOUS, ROW_BYTES, 0};
    good = good && trip_open(&t, s, &plan) && trip_there_and_back(&t, 1);
    const bool direct = good && conversion_is_direct(&t.conversion);
    good = good && (!direct || capture(&t, &graph, &instance));
    for (uint64_t salt = 2; good && salt < 2 + REPLAYS; salt++) {
        redraw(p, 2 * s->cp_size, &random);
        stage_step(s, "refill %" PRIu64, salt);
        if (!direct) {
            good = refill_by_route(&t, salt);
            continue;
        }
        good = refill(&t) && relist(&t) && trip_paint(&t, salt) &&
               CUDA_TRY(s, cudaGraphLaunch(instance, s->stream)) && trip_judge(&t, salt) &&
               (salt % 3 || replay_wrong(&t, instance, 1 + (int64_t)salt % (p->entries - 1)));
    }
    if (instance)
        cudaGraphExecDestroy(instance);
    if (graph)
        cudaGraphDestroy(graph);
    trip_close(&t);
    free(p);
    return good;
}

/*==============================================================================
 * MARK: - Dynamic CP
 *============================================================================*/

/* One tensor of offsets on the host and a conversion for each cp_size, made once; micro-batches take turns among them. */
bool test_direct_dynamic_cp(stage *s) {
    static const int64_t sizes[] = {1, 2, 3, 4, 8};
    enum { SIZES = sizeof sizes / sizeof *sizes, UNIT = 48 };
    stage stages[SIZES] = {0};
    trip trips[SIZES] = {0};
    pack *p = malloc(sizeof *p);
    uint64_t random = s->options->seed;
    bool good = p || stage_fail(s, "no memory for a pack");
    if (good)
        redraw(p, UNIT, &random);
    const trip_plan plan = {p, CPR_ZIGZAG, CPR_CONTIGUOUS, ROW_BYTES, 0};
    for (int i = 0; good && i < SIZES; i++) {
        stages[i] = *s;
        stages[i].stream = NULL;
        stages[i].direct = true;
        good = stage_open_simulated(&stages[i], sizes[i]) && trip_open(&trips[i], &stages[i], &plan);
    }
    const uint64_t batches = s->options->quick ? 8 : MICRO_BATCHES;
    for (uint64_t number = 0; good && number < batches; number++) {
        trip *t = &trips[random_next(&random) % SIZES];
        redraw(p, UNIT, &random);
        stage_step(s, "micro-batch %" PRIu64 " with cp_size %" PRId64, number, t->stage->cp_size);
        good = refill(t) && relist(t) && trip_there_and_back(t, number);
    }
    for (int i = 0; i < SIZES; i++) {
        trip_close(&trips[i]);
        stage_close(&stages[i]);
    }
    free(p);
    return good;
}
