/* SPDX-License-Identifier: Apache-2.0 */
/* How conversions without a route run: several at once, without waiting, by the method that is chosen, and how fast. */
#include "measured.h"
#include "sync_count.h"
#include "tests.h"
#include "trip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*==============================================================================
 * MARK: - In flight
 *============================================================================*/

enum { IN_FLIGHT = 4, ROUNDS = 10 };

/* In which of them begins: where all are one kernel, odd ranks begin from the other end. NCCL wants one order of all ranks. */
static int first_in_flight(const stage *s, const trip *trips) {
    bool reversed = s->real && s->first % 2 != 0;
    for (int i = 0; reversed && i < IN_FLIGHT; i++)
        reversed = conversion_is_direct(&trips[i].conversion);
    return reversed ? IN_FLIGHT - 1 : 0;
}

/* Each has a stage of its own, which is the same but for its stream. */
bool test_direct_in_flight(stage *s) {
    s->direct = true;
    stage stages[IN_FLIGHT] = {0};
    trip trips[IN_FLIGHT] = {0};
    pack *packs = calloc(IN_FLIGHT, sizeof *packs);
    bool good = packs || stage_fail(s, "no memory for packs");
    for (int i = 0; good && i < IN_FLIGHT; i++) {
        stages[i] = *s;
        stages[i].stream = NULL;
        pack_spread(2048, 3 + 5 * i, s->cp_size, &packs[i]);
        const trip_plan plan = {&packs[i], i % 2 ? CPR_CONTIGUOUS : CPR_ZIGZAG,
                                i % 2 ? CPR_ZIGZAG : CPR_CONTIGUOUS, 1040, 0};
        good = CUDA_TRY(s, cudaStreamCreateWithFlags(&stages[i].stream, cudaStreamNonBlocking)) &&
               trip_open(&trips[i], &stages[i], &plan);
    }
    const int first = good ? first_in_flight(s, trips) : 0;
    for (uint64_t round = 0; good && round < ROUNDS; round++) {
        for (int i = 0; good && i < IN_FLIGHT; i++)
            good = trip_paint(&trips[i], round);
        for (int i = 0; good && i < IN_FLIGHT; i++)
            good = trip_forward(&trips[first ? first - i : i]);
        for (int i = IN_FLIGHT - 1; good && i >= 0; i--)
            good = trip_backward(&trips[i]);
        for (int i = 0; good && i < IN_FLIGHT; i++)
            good = trip_judge(&trips[i], round);
    }
    for (int i = 0; i < IN_FLIGHT; i++) {
        trip_close(&trips[i]);
        if (stages[i].stream)
            cudaStreamDestroy(stages[i].stream);
    }
    free(packs);
    return good;
}

/*==============================================================================
 * MARK: - Synchronisations
 *============================================================================*/

enum {
    HOST_BATCHES = 10,
    HOST_RUNS =
        20 /* there and back: of more runs than that the host is held up until some are at their end */
};

/* In batches, each with nothing under way when it begins; *us is what the host took for a conversion. */
static bool go_there_and_back(trip *t, sync_count *counted, double *us) {
    double took = 0;
    bool good = true;
    for (int batch = 0; good && batch < HOST_BATCHES; batch++) {
        const double begun = seconds_now();
        sync_count_into(counted);
        for (int i = 0; good && i < HOST_RUNS; i++)
            good = trip_forward(t) && trip_backward(t);
        sync_count_into(NULL);
        took += seconds_now() - begun;
        good = good && stage_wait(t->stage);
    }
    *us = took * 1e6 / (2 * HOST_BATCHES * HOST_RUNS);
    return good;
}

static bool count_calls(trip *t, const char *reason) {
    const stage *s = t->stage;
    sync_count counted = {0};
    double us;
    if (reason)
        return test_skip(s, reason);
    bool good = go_there_and_back(t, &counted, &us);
    sync_count_close();
    good = good && trip_judge(t, 1) &&
           report_figure(s->report, "conversions", 2 * HOST_BATCHES * HOST_RUNS) &&
           report_figure(s->report, "waits in them", (double)counted.waits) &&
           report_figure(s->report, "reads in them", (double)counted.reads) &&
           report_figure(s->report, "allocations in them", (double)counted.allocations);
    if (good && (counted.waits || counted.reads || counted.allocations))
        good = stage_fail(
            s, "%" PRId64 " waits (%s), %" PRId64 " reads, %" PRId64 " allocations (%s); wanted none",
            counted.waits, counted.last_wait, counted.reads, counted.allocations, counted.last_allocation);
    return good;
}

bool test_direct_syncs(stage *s) {
    s->direct = true;
    pack *p = malloc(sizeof *p);
    trip t = {0};
    double us;
    bool good = p || stage_fail(s, "no memory for a pack");
    if (good)
        pack_spread(8192, 8, s->cp_size, p);
    const trip_plan plan = {p, CPR_ZIGZAG, CPR_CONTIGUOUS, 64, 0};
    /* Timed before CUPTI is there, which takes part of the host's time for itself. */
    good = good && trip_open(&t, s, &plan) && trip_paint(&t, 1) && trip_forward(&t) && trip_backward(&t) &&
           stage_wait(s) && go_there_and_back(&t, NULL, &us) &&
           report_figure(s->report, "us of host time for one", us) && count_calls(&t, sync_count_open());
    trip_close(&t);
    free(p);
    return good;
}

/*==============================================================================
 * MARK: - Methods and windows
 *============================================================================*/

static bool create(const stage *s, const cpr_cuda_conversion_request *request, cpr_cuda_method method,
                   cpr_cuda_conversion **made, cpr_error *error) {
    cpr_cuda_conversion_request asked = *request;
    asked.method = method;
    return cpr_cuda_conversion_create(s->group, &asked, NULL, made, error) == CPR_OK;
}

static bool expect(const stage *s, bool holds, const char *what) {
    s->report->cases++;
    return holds || stage_fail(s, "%s", what);
}

/* A stage with another method; same group. */
static bool trip_by(const stage *s, const pack *p, cpr_cuda_method method) {
    stage forced = *s;
    forced.direct = true;
    forced.method = method;
    const trip_plan plan = {p, CPR_ZIGZAG, CPR_CONTIGUOUS, 96, 0};
    return trip_make(&forced, &plan, (uint64_t)method);
}

static bool windows_are_kept(const stage *s) {
    cpr_cuda_window *first = NULL, *again = NULL, *other = NULL;
    void *memory = NULL;
    cpr_error error;
    const size_t bytes = 1 << 21;
    bool good =
        NCCL_TRY(s, ncclMemAlloc(&memory, bytes)) &&
        stage_cpr(s, cpr_cuda_window_create(s->group, memory, bytes, NULL, &first, &error), &error,
                  "window") &&
        stage_cpr(s, cpr_cuda_window_create(s->group, memory, bytes, NULL, &again, &error), &error,
                  "window") &&
        stage_cpr(s, cpr_cuda_window_create(s->group, NULL, bytes, NULL, &other, &error), &error, "window") &&
        expect(s, first == again, "the same memory is registered twice") &&
        expect(s, other != first, "two windows are one") &&
        expect(s, cpr_cuda_window_memory(first) == memory, "a window has other memory than it was given") &&
        expect(s, cpr_cuda_window_create(s->group, NULL, 0, NULL, &other, &error) == CPR_OVERFLOW,
               "a window of no bytes is made");
    cpr_cuda_window_release(again);
    good = good && expect(s, cpr_cuda_window_memory(first) == memory, "a window that is in use is gone");
    cpr_cuda_window_release(first);
    cpr_cuda_window_release(other);
    if (memory)
        ncclMemFree(memory);
    return good;
}

/* Ranks that share a GPU seem to be on different hosts, unless they were told not to. */
static bool can_be_direct(const stage *s) {
    if (s->cp_size == 1)
        return true;
    bool all = !s->shares_gpus || s->one_host;
    int devices = 0;
    (void)cudaGetDeviceCount(&devices);
    for (int a = 0; all && a < devices; a++)
        for (int b = 0; all && b < devices; b++) {
            int can = 1;
            if (a != b)
                (void)cudaDeviceCanAccessPeer(&can, a, b);
            all = can;
        }
    return all;
}

bool test_direct_methods(stage *s) {
    s->direct = true;
    pack *p = malloc(sizeof *p);
    device_offsets offsets = {0};
    cpr_cuda_conversion *made = NULL;
    cpr_error error;
    bool good = p || stage_fail(s, "no memory for a pack");
    if (good)
        pack_spread(128 * s->cp_size, 4, s->cp_size, p);
    good = good && device_offsets_make(&offsets, s, p->cu, p->entries, true, 1, 1) && windows_are_kept(s);
    cpr_cuda_conversion_request request = {.on_device = offsets.view,
                                           .on_host =
                                               cpr_cu_seqlens_int64(p ? p->cu : NULL, p ? p->entries : 0),
                                           .rows = 128,
                                           .row_bytes = 96,
                                           .source = CPR_ZIGZAG,
                                           .target = CPR_CONTIGUOUS};
    good = good && expect(s, create(s, &request, CPR_CUDA_AUTO, &made, &error), "AUTO makes no conversion");
    const bool direct = good && cpr_cuda_conversion_method(made) == CPR_CUDA_DIRECT;
    cpr_cuda_conversion_free(made);
    made = NULL;
    if (good)
        good = report_figure(s->report, "direct", direct);
    good = good && expect(s, direct == can_be_direct(s), "AUTO has chosen the wrong method");
    good = good && expect(s,
                          create(s, &request, CPR_CUDA_ROUTE, &made, &error) &&
                              cpr_cuda_conversion_method(made) == CPR_CUDA_ROUTE,
                          "ROUTE cannot be forced");
    cpr_cuda_conversion_free(made);
    made = NULL;
    const bool forced = good && create(s, &request, CPR_CUDA_DIRECT, &made, &error);
    good = good &&
           expect(s, forced == direct, "DIRECT can be forced where it cannot be, or the other way round");
    if (good && !forced)
        good = expect(s, error.status == CPR_UNREACHABLE && error.wanted == s->cp_size,
                      "no reason why DIRECT is refused");
    cpr_cuda_conversion_free(made);
    made = NULL;
    request.on_device.data = NULL;
    good = good && expect(s,
                          create(s, &request, CPR_CUDA_AUTO, &made, &error) &&
                              cpr_cuda_conversion_method(made) == CPR_CUDA_ROUTE,
                          "AUTO without offsets on the device is not ROUTE");
    cpr_cuda_conversion_free(made);
    made = NULL;
    request.target = CPR_LAYOUT_COUNT;
    good = good &&
           expect(s, !create(s, &request, CPR_CUDA_AUTO, &made, &error) && error.status == CPR_BAD_LAYOUT,
                  "a layout that there is none of is taken");
    good = good && trip_by(s, p, CPR_CUDA_AUTO) && trip_by(s, p, CPR_CUDA_ROUTE) &&
           (!direct || trip_by(s, p, CPR_CUDA_DIRECT));
    device_offsets_free(&offsets);
    free(p);
    return good;
}

/*==============================================================================
 * MARK: - Measured
 *============================================================================*/

enum { ROW_BYTES = MEASURED_ROW_BYTES, TOKENS = 32768, BATCHES = MEASURED_BATCHES };

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* NULL direction: a copy of the same bytes. */
static bool run_measured(trip *t, const cpr_direction *direction, int number) {
    const stage *s = t->stage;
    void *const *from = number % 2 ? t->home.rows : t->start.rows;
    if (direction)
        return conversion_run(&t->conversion, *direction, from, t->away.rows);
    bool good = true;
    for (int64_t r = 0; good && r < s->count; r++)
        good = CUDA_TRY(
            s, cudaMemcpyAsync(t->away.rows[r], from[r], t->away.bytes, cudaMemcpyDeviceToDevice, s->stream));
    return good;
}

static bool time_batches(trip *t, const cpr_direction *direction, double *median) {
    const stage *s = t->stage;
    double times[BATCHES];
    cudaEvent_t begin = NULL, end = NULL;
    bool good = CUDA_TRY(s, cudaEventCreate(&begin)) && CUDA_TRY(s, cudaEventCreate(&end));
    for (int b = -1; good && b < BATCHES; b++) {
        const int runs = b < 0 ? MEASURED_WARM_UP : MEASURED_RUNS;
        /* The first run waits for its launch, and is not timed. */
        good = run_measured(t, direction, runs - 1) && CUDA_TRY(s, cudaEventRecord(begin, s->stream));
        for (int i = 0; good && i < runs; i++)
            good = run_measured(t, direction, i);
        float ms = 0;
        good = good && CUDA_TRY(s, cudaEventRecord(end, s->stream)) && stage_wait(s) &&
               CUDA_TRY(s, cudaEventElapsedTime(&ms, begin, end));
        if (b >= 0)
            times[b] = (double)ms * 1e3 / runs;
    }
    if (begin)
        cudaEventDestroy(begin);
    if (end)
        cudaEventDestroy(end);
    if (good) {
        qsort(times, BATCHES, sizeof *times, ascending);
        *median = times[BATCHES / 2];
    }
    return good;
}

/* Of all ranks together: each byte is read and written once on the one device. */
static bool tell(const trip *t, const char *what, bool forward, double us) {
    const stage *s = t->stage;
    line l = {.bytes = (int64_t)t->away.bytes * s->count,
              .rows = t->rows,
              .width = MEASURED_WIDTH,
              .cp = s->cp_size,
              .sequences = t->plan.pack->entries - 1,
              .time_us = us};
    l.algbw = (double)l.bytes / us * 1e-3;
    l.busbw = 2 * l.algbw;
    snprintf(l.what, sizeof l.what, "%s", what);
    snprintf(l.type, sizeof l.type, "bf16");
    snprintf(l.from, sizeof l.from, "%s", forward ? "zigzag" : "contiguous");
    snprintf(l.to, sizeof l.to, "%s", forward ? "contiguous" : "zigzag");
    return report_line(s->report, &l);
}

static bool measure(const stage *s, pack *p, int64_t tokens, int64_t sequences) {
    static const cpr_direction ways[] = {CPR_FORWARD, CPR_BACKWARD};
    trip t = {0};
    double us;
    pack_spread(tokens, sequences, s->cp_size, p);
    const trip_plan plan = {p, CPR_ZIGZAG, CPR_CONTIGUOUS, ROW_BYTES, 0};
    stage_step(s, "%" PRId64 " tokens, %s, P = %" PRId64, tokens, p->name, s->cp_size);
    bool good = trip_open(&t, s, &plan) && trip_there_and_back(&t, 7);
    for (int way = 0; good && way < 2; way++)
        good = time_batches(&t, &ways[way], &us) && tell(&t, "direct, one device", way == 0, us);
    good = good && time_batches(&t, NULL, &us) && tell(&t, "copy, one device", true, us);
    trip_close(&t);
    return good;
}

bool test_direct_measure(stage *s) {
    static const int64_t sizes[] = {1, 2, 4, 8}, sequences[] = {8, 1024};
    if (!s->options->measure)
        return test_skip(s, "--measure was not asked for");
    pack *p = malloc(sizeof *p);
    bool good = p || stage_fail(s, "no memory for a pack");
    for (size_t i = 0; good && i < sizeof sizes / sizeof *sizes; i++) {
        stage_close(s);
        s->direct = true;
        good = stage_open_simulated(s, sizes[i]);
        for (size_t q = 0; good && q < sizeof sequences / sizeof *sequences; q++)
            good = measure(s, p, TOKENS, sequences[q]);
        /* 1 MB on each rank: what the kernel costs by itself */
        good = good && measure(s, p, 128 * sizes[i], 4);
    }
    free(p);
    return good;
}
