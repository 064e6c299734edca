/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measurements. Batches of each kind of work take turns, so that what disturbs one disturbs all; the time of a kind is the median
 * over its batches, of the slowest rank. Each batch goes round several sets of buffers, so that a cache of the device holds little
 * of what comes next.
 */
#include "measured.h"
#include "tests.h"
#include "trip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_BYTES = MEASURED_ROW_BYTES, BATCHES = MEASURED_BATCHES, SETS = MEASURED_SETS, POISON = 0xa5 };

typedef struct subject {
    const stage *stage;
    conversion conversion;
    pack *pack;
    int64_t rows;
    payload from[SETS], to[SETS]; /* and what is in between, for kernels alone */
    stage without_route;          /* the same stage */
    conversion direct;            /* where ranks can write to each other's windows */
    cpr_cuda_window *windows[SETS];
    int64_t send_splits[MAX_RANKS], recv_splits[MAX_RANKS];
} subject;

/* One run, with the buffers of a set. */
typedef bool work(const subject *m, int set);

typedef struct kind {
    const char *name;
    work *run;
    cpr_direction direction;
    bool is_kernel; /* reads and writes each byte of the shard once: its bandwidth is that of memory */
} kind;

/*==============================================================================
 * MARK: - Kinds of work
 *============================================================================*/

static bool convert_forward(const subject *m, int set) {
    return conversion_run(&m->conversion, CPR_FORWARD, m->from[set].rows, m->to[set].rows);
}

static bool convert_backward(const subject *m, int set) {
    return conversion_run(&m->conversion, CPR_BACKWARD, m->from[set].rows, m->to[set].rows);
}

/* The same messages, own share included, in one group; nothing is packed or scattered. */
static bool bare_all_to_all(const subject *m, int set) {
    const stage *s = m->stage;
    const char *from = m->from[set].rows[0];
    char *to = m->to[set].rows[0];
    if (!NCCL_TRY(s, ncclGroupStart()))
        return false;
    for (int64_t peer = 0; peer < s->cp_size; peer++) {
        const size_t out = (size_t)m->send_splits[peer] * ROW_BYTES,
                     in = (size_t)m->recv_splits[peer] * ROW_BYTES;
        if ((out && !NCCL_TRY(s, ncclSend(from, out, ncclUint8, (int)peer, s->comm, s->stream))) ||
            (in && !NCCL_TRY(s, ncclRecv(to, in, ncclUint8, (int)peer, s->comm, s->stream))))
            return false;
        from += out;
        to += in;
    }
    return NCCL_TRY(s, ncclGroupEnd());
}

static bool copy(const subject *m, int set) {
    return CUDA_TRY(m->stage, cudaMemcpyAsync(m->to[set].rows[0], m->from[set].rows[0], m->from[set].bytes,
                                              cudaMemcpyDeviceToDevice, m->stage->stream));
}

/* Of contiguous -> zigzag: that direction packs. */
static bool pack_alone(const subject *m, int set) {
    cpr_error error;
    return stage_cpr(m->stage,
                     cpr_cuda_pack(m->conversion.exchange, CPR_BACKWARD, m->from[set].rows[0],
                                   m->to[set].rows[0], m->stage->stream, &error),
                     &error, "cpr_cuda_pack");
}

/* Of zigzag -> contiguous: that direction scatters. */
static bool scatter_alone(const subject *m, int set) {
    cpr_error error;
    return stage_cpr(m->stage,
                     cpr_cuda_scatter(m->conversion.exchange, CPR_FORWARD, m->from[set].rows[0],
                                      m->to[set].rows[0], m->stage->stream, &error),
                     &error, "cpr_cuda_scatter");
}

static bool directly(const subject *m, cpr_direction direction, int set) {
    void *to[] = {cpr_cuda_window_memory(m->windows[set])};
    return conversion_run(&m->direct, direction, m->from[set].rows, to);
}

static bool directly_forward(const subject *m, int set) {
    return directly(m, CPR_FORWARD, set);
}

static bool directly_backward(const subject *m, int set) {
    return directly(m, CPR_BACKWARD, set);
}

enum { KINDS = 3 }; /* that take turns */
static const kind conversions[KINDS] = {
    {"conversion", convert_forward, CPR_FORWARD, false},
    {"conversion", convert_backward, CPR_BACKWARD, false},
    {"all-to-all", bare_all_to_all, CPR_FORWARD, false},
};
static const kind without_route[KINDS] = {
    {"direct", directly_forward, CPR_FORWARD, false},
    {"direct", directly_backward, CPR_BACKWARD, false},
    {"all-to-all", bare_all_to_all, CPR_FORWARD, false},
};
static const kind kernels[KINDS] = {
    {"pack", pack_alone, CPR_BACKWARD, true},
    {"scatter", scatter_alone, CPR_FORWARD, true},
    {"copy", copy, CPR_FORWARD, true},
};

/*==============================================================================
 * MARK: - Timing
 *============================================================================*/

typedef struct stopwatch {
    cudaEvent_t begin, end;
} stopwatch;

/* The first run is not timed: it waits for its launch, and for ranks that come to this batch later. */
static bool time_batch(const subject *m, const kind *k, const stopwatch *watch, int runs, double *us) {
    const stage *s = m->stage;
    if (!k->run(m, SETS - 1) || !CUDA_TRY(s, cudaEventRecord(watch->begin, s->stream)))
        return false;
    for (int i = 0; i < runs; i++)
        if (!k->run(m, i % SETS))
            return false;
    float ms;
    if (!CUDA_TRY(s, cudaEventRecord(watch->end, s->stream)) || !stage_wait(s) ||
        !CUDA_TRY(s, cudaEventElapsedTime(&ms, watch->begin, watch->end)))
        return false;
    *us = (double)ms * 1e3 / runs;
    return true;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static bool time_kinds(const subject *m, const kind *kinds, double *medians) {
    const stage *s = m->stage;
    double times[KINDS][BATCHES], unused;
    stopwatch watch = {0};
    bool good = CUDA_TRY(s, cudaEventCreate(&watch.begin)) && CUDA_TRY(s, cudaEventCreate(&watch.end));
    for (int k = 0; good && k < KINDS; k++)
        good = time_batch(m, &kinds[k], &watch, MEASURED_WARM_UP, &unused);
    for (int b = 0; good && b < BATCHES; b++)
        for (int k = 0; good && k < KINDS; k++)
            good = time_batch(m, &kinds[k], &watch, MEASURED_RUNS, &times[k][b]);
    for (int k = 0; good && k < KINDS; k++) {
        qsort(times[k], BATCHES, sizeof *times[k], ascending);
        medians[k] = times[k][BATCHES / 2];
    }
    if (watch.begin)
        cudaEventDestroy(watch.begin);
    if (watch.end)
        cudaEventDestroy(watch.end);
    return good;
}

/* GB/s: algbw of the whole shard; busbw of what leaves for other ranks, which packs decide; for kernels busbw is the traffic of the
 * memory, read and written. */
static bool tell(const subject *m, const kind *k, double us) {
    const stage *s = m->stage;
    const bool forward = k->direction == CPR_FORWARD;
    line l = {.bytes = (int64_t)m->from[0].bytes,
              .rows = m->rows,
              .width = MEASURED_WIDTH,
              .cp = s->cp_size,
              .sequences = m->pack->entries - 1,
              .time_us = us};
    l.algbw = (double)l.bytes / us * 1e-3;
    const int64_t leaving = m->rows - m->send_splits[s->first]; /* as many come */
    l.busbw = k->is_kernel ? 2 * l.algbw : (double)(leaving * ROW_BYTES) / us * 1e-3;
    snprintf(l.what, sizeof l.what, "%s", k->name);
    snprintf(l.type, sizeof l.type, "bf16");
    snprintf(l.from, sizeof l.from, "%s", forward ? "zigzag" : "contiguous");
    snprintf(l.to, sizeof l.to, "%s", forward ? "contiguous" : "zigzag");
    return report_line(s->report, &l);
}

/*==============================================================================
 * MARK: - Subjects
 *============================================================================*/

static bool open_subject(subject *m, stage *s, pack *p) {
    memset(m, 0, sizeof *m);
    m->stage = s;
    m->pack = p;
    m->rows = pack_tokens(p) / s->cp_size;
    cpr_error error;
    if (!conversion_open(&m->conversion, s, p, CPR_ZIGZAG, CPR_CONTIGUOUS, ROW_BYTES))
        return false;
    const cpr_route *route = m->conversion.routes[s->first];
    if (!stage_cpr(s, cpr_route_splits(route, CPR_SEND, m->send_splits, s->cp_size, &error), &error,
                   "splits") ||
        !stage_cpr(s, cpr_route_splits(route, CPR_RECV, m->recv_splits, s->cp_size, &error), &error,
                   "splits"))
        return false;
    for (int set = 0; set < SETS; set++)
        if (!payload_make(&m->from[set], s, m->rows, ROW_BYTES, 0) ||
            !payload_make(&m->to[set], s, m->rows, ROW_BYTES, 0) ||
            !CUDA_TRY(s, gpu_random(m->from[set].rows[0], m->rows * ROW_BYTES / 8,
                                    (uint64_t)(set + SETS * s->first), s->stream)))
            return false; /* other rows on each rank: those of a wrong one are seen */
    return stage_wait(s);
}

static bool open_direct(subject *m) {
    const stage *s = m->stage;
    cpr_error error;
    m->without_route = *s;
    m->without_route.direct = true;
    if (!conversion_open(&m->direct, &m->without_route, m->pack, CPR_ZIGZAG, CPR_CONTIGUOUS, ROW_BYTES))
        return false;
    for (int set = 0; conversion_is_direct(&m->direct) && set < SETS; set++)
        if (!stage_cpr(
                s, cpr_cuda_window_create(s->group, NULL, m->from[0].bytes, NULL, &m->windows[set], &error),
                &error, "cpr_cuda_window_create"))
            return false;
    return true;
}

/* Into a window in which nothing is right yet. */
static bool compare_ways(const subject *m, work *direct, work *by_route, int set, gpu_count *wrong) {
    const stage *s = m->stage;
    void *ours = cpr_cuda_window_memory(m->windows[set]);
    return CUDA_TRY(s, cudaMemsetAsync(ours, POISON, m->from[set].bytes, s->stream)) && direct(m, set) &&
           by_route(m, set) &&
           CUDA_TRY(s, gpu_compare(ours, m->to[set].rows[0], m->from[set].bytes, wrong, s->stream));
}

/* What is timed is right, at the size that it is timed at: byte for byte what the other way gives, which was judged. */
static bool direct_is_right(const subject *m) {
    const stage *s = m->stage;
    gpu_count *wrong = stage_allocate(s, sizeof *wrong), found = {0};
    bool good = wrong && CUDA_TRY(s, gpu_count_reset(wrong, s->stream));
    for (int set = 0; good && set < SETS; set++)
        good = compare_ways(m, directly_forward, convert_forward, set, wrong) &&
               compare_ways(m, directly_backward, convert_backward, set, wrong);
    good =
        good && stage_wait(s) && CUDA_TRY(s, cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost));
    s->report->wrong += (int64_t)found.wrong;
    s->report->cases++;
    cudaFree(wrong);
    if (good && found.wrong)
        good = stage_fail(s, "without a route, %llu other bytes arrive, the first of them in row %llu",
                          found.wrong, found.first / ROW_BYTES);
    return good;
}

static void close_subject(subject *m) {
    conversion_close(&m->direct);
    for (int set = 0; set < SETS; set++)
        cpr_cuda_window_release(m->windows[set]);
    conversion_close(&m->conversion);
    for (int set = 0; set < SETS; set++) {
        payload_free(&m->from[set]);
        payload_free(&m->to[set]);
    }
}

/* The conversion that is timed is right, at the size that it is timed at. */
static bool is_right(const stage *s, const pack *p) {
    const trip_plan plan = {p, CPR_ZIGZAG, CPR_CONTIGUOUS, ROW_BYTES, 0};
    return trip_make(s, &plan, 11);
}

static bool measure_all_ranks(const subject *m, const kind *kinds) {
    double medians[KINDS];
    if (!time_kinds(m, kinds, medians))
        return false;
    for (int k = 0; k < KINDS; k++)
        if (!stage_largest(m->stage, &medians[k]) || !tell(m, &kinds[k], medians[k]))
            return false;
    return true;
}

static bool measure_conversions(subject *m) {
    return is_right(m->stage, m->pack) && measure_all_ranks(m, conversions);
}

static bool measure_without_route(subject *m) {
    if (!is_right(m->stage, m->pack) || !open_direct(m))
        return false;
    if (!conversion_is_direct(&m->direct))
        return test_skip(m->stage, "these ranks cannot write to each other's memory");
    return direct_is_right(m) && measure_all_ranks(m, without_route);
}

/* Scattered and packed again is what it was, at the size that is timed. No other rank takes part. */
static bool kernels_are_inverse(const subject *m) {
    const stage *s = m->stage;
    const size_t bytes = (size_t)m->rows * sizeof(int64_t);
    int64_t *numbers = malloc(bytes), *on_device = stage_allocate(s, bytes + sizeof(gpu_count));
    gpu_count *wrong = (gpu_count *)(void *)(on_device + m->rows), found = {0};
    bool good = numbers && on_device;
    for (int64_t i = 0; good && i < m->rows; i++)
        numbers[i] = i;
    good = good &&
           CUDA_TRY(s, cudaMemcpyAsync(on_device, numbers, bytes, cudaMemcpyHostToDevice, s->stream)) &&
           CUDA_TRY(s, gpu_paint(m->from[0].rows[0], on_device, m->rows, ROW_BYTES, 5, s->stream)) &&
           scatter_alone(m, 0) && CUDA_TRY(s, gpu_count_reset(wrong, s->stream));
    cpr_error error;
    good = good &&
           stage_cpr(s,
                     cpr_cuda_pack(m->conversion.exchange, CPR_BACKWARD, m->to[0].rows[0], m->to[1].rows[0],
                                   s->stream, &error),
                     &error, "cpr_cuda_pack") &&
           CUDA_TRY(s, gpu_check(m->to[1].rows[0], on_device, m->rows, ROW_BYTES, 5, wrong, s->stream)) &&
           stage_wait(s) && CUDA_TRY(s, cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost));
    s->report->wrong += (int64_t)found.wrong;
    s->report->cases++;
    if (good && found.wrong)
        good = stage_fail(s, "scattered and packed again, %llu bytes are wrong, first in row %llu",
                          found.wrong, found.first / ROW_BYTES);
    cudaFree(on_device);
    free(numbers);
    return good;
}

/* Ranks that share a GPU would disturb each other: rank 0 alone, while the others wait on the host. */
static bool measure_one_rank(subject *m) {
    double medians[KINDS];
    bool good = true;
    stage_meet(m->stage);
    if (m->stage->first == 0) {
        good = kernels_are_inverse(m) && time_kinds(m, kernels, medians);
        for (int k = 0; good && k < KINDS; k++)
            good = tell(m, &kernels[k], medians[k]);
    }
    stage_meet(m->stage);
    return good;
}

static bool measure(stage *s, bool (*measured)(subject *)) {
    pack *p = malloc(sizeof *p);
    bool good = p || stage_fail(s, "no memory for a pack");
    for (int64_t number = 0; good && s->report->state == RANK_RUNNING && measured_pack(number, s->cp_size, p);
         number++) {
        stage_step(s, "%" PRId64 " tokens, %s", pack_tokens(p), p->name);
        subject m = {0};
        good = open_subject(&m, s, p) && measured(&m);
        close_subject(&m);
    }
    free(p);
    return good;
}

bool test_measure_kernels(stage *s) {
    if (!s->options->measure)
        return test_skip(s, "--measure was not asked for");
    return measure(s, measure_one_rank);
}

static bool measure_apart(stage *s, bool (*measured)(subject *)) {
    if (!s->options->measure)
        return test_skip(s, "--measure was not asked for");
    if (s->shares_gpus)
        return test_skip(s, "ranks share a GPU: times of conversions would mean nothing");
    return measure(s, measured);
}

bool test_measure_conversion(stage *s) {
    return measure_apart(s, measure_conversions);
}

/* A test of its own: what goes wrong in it loses nothing of the other. */
bool test_measure_without_route(stage *s) {
    return measure_apart(s, measure_without_route);
}
