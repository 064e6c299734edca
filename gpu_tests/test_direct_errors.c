/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with offsets is found on the device, told to every rank, and nothing is written anywhere. */
#include "tests.h"
#include "trip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_BYTES = 48, POISON = 0x3c };

/* A conversion whose targets are watched. */
typedef struct watched {
    const stage *stage;
    conversion conversion;
    pack *pack;
    payload from, to;
    gpu_count *touched; /* on the device */
} watched;

static bool fill(const watched *w, const payload *rows, int value) {
    for (int64_t i = 0; i < w->stage->count; i++)
        if (!CUDA_TRY(w->stage, cudaMemsetAsync(rows->blocks[i], value, rows->block_bytes, w->stage->stream)))
            return false;
    return true;
}

static bool poison(const watched *w) {
    return fill(w, &w->to, POISON);
}

static bool watched_open(watched *w, const stage *s, pack *p, cpr_layout source, cpr_layout target) {
    const int64_t rows = pack_tokens(p) / s->cp_size;
    memset(w, 0, sizeof *w);
    w->stage = s;
    w->pack = p;
    w->touched = stage_allocate(s, sizeof *w->touched);
    return w->touched && conversion_open(&w->conversion, s, p, source, target, ROW_BYTES) &&
           payload_make(&w->from, s, rows, ROW_BYTES, 0) && payload_make(&w->to, s, rows, ROW_BYTES, 0) &&
           fill(w, &w->from, ~POISON & 255);
}

static void watched_close(watched *w) {
    conversion_close(&w->conversion);
    payload_free(&w->from);
    payload_free(&w->to);
    cudaFree(w->touched);
}

static bool untouched(const watched *w, const char *what) {
    const stage *s = w->stage;
    gpu_count count;
    if (!CUDA_TRY(s, gpu_count_reset(w->touched, s->stream)))
        return false;
    for (int64_t i = 0; i < s->count; i++)
        if (!CUDA_TRY(s, gpu_check_bytes(w->to.blocks[i], w->to.block_bytes, POISON, w->touched, s->stream)))
            return false;
    if (!stage_wait(s) || !CUDA_TRY(s, cudaMemcpy(&count, w->touched, sizeof count, cudaMemcpyDeviceToHost)))
        return false;
    s->report->wrong += (int64_t)count.wrong;
    return count.wrong == 0 || stage_fail(s, "%s: %llu bytes were written", what, count.wrong);
}

static bool same(const stage *s, const cpr_error *got, const cpr_error *wanted, int64_t rank,
                 const char *what) {
    return (got->status == wanted->status && got->index == wanted->index && got->got == wanted->got &&
            got->wanted == wanted->wanted) ||
           stage_fail(s,
                      "%s: P = %" PRId64 ", rank %" PRId64 ": %s %" PRId64 " %" PRId64 " %" PRId64
                      ", wanted %s %" PRId64 " %" PRId64 " %" PRId64,
                      what, s->cp_size, rank, cpr_status_name(got->status), got->index, got->got, got->wanted,
                      cpr_status_name(wanted->status), wanted->index, wanted->got, wanted->wanted);
}

/*==============================================================================
 * MARK: - Wrong offsets
 *============================================================================*/

/* What a builder says of what the conversion was asked for. */
static cpr_error expected_of(const stage *s, const route_case *c, int64_t rows) {
    const cpr_route_request request = {.cu_seqlens = cpr_cu_seqlens_int64(c->cu, c->entries),
                                       .rows = rows * s->cp_size,
                                       .geometry = {s->cp_size, 0},
                                       .source = c->source,
                                       .target = c->target,
                                       .tp_size = c->tp_size};
    cpr_route *route = NULL;
    cpr_error error;
    (void)cpr_route_build_definition(&request, NULL, &route, &error);
    cpr_route_free(route);
    return error;
}

static bool refused(const stage *s, const route_case *c, const char *name, bool wide) {
    conversion converts = {.stage = s};
    const int64_t last = c->cu[c->entries - 1];
    const int64_t rows = last > 0 && last < 1 << 16 ? last / s->cp_size : 16;
    const cpr_error wanted = expected_of(s, c, rows);
    if (wanted.status == CPR_OK || wanted.status == CPR_OVERFLOW)
        return true;
    stage_step(s, "%s, P = %" PRId64, name, s->cp_size);
    const cpr_cuda_conversion_request request = {.rows = rows,
                                                 .row_bytes = ROW_BYTES,
                                                 .source = c->source,
                                                 .target = c->target,
                                                 .tp_size = c->tp_size};
    watched w = {.stage = s, .touched = stage_allocate(s, sizeof *w.touched)};
    cpr_cu_seqlens views[MAX_RANKS];
    bool good = w.touched;
    for (int64_t i = 0; good && i < s->count; i++) {
        good = device_offsets_make(&converts.offsets[i], s, c->cu, c->entries, wide, 1 + i % 2, 1);
        views[i] = converts.offsets[i].view;
    }
    cpr_error error;
    good =
        good && payload_make(&w.from, s, rows, ROW_BYTES, 0) && payload_make(&w.to, s, rows, ROW_BYTES, 0) &&
        stage_cpr(s,
                  cpr_cuda_direct_simulation_create(&request, views, s->cp_size, NULL,
                                                    &converts.direct_simulation, &error),
                  &error, "cpr_cuda_direct_simulation_create") &&
        poison(&w) && conversion_run(&converts, CPR_FORWARD, w.from.rows, w.to.rows) && untouched(&w, name);
    for (int64_t i = 0; good && i < s->count; i++) {
        const cpr_error told = conversion_told(&converts, i), again = conversion_told(&converts, i);
        const cpr_error nothing = {CPR_OK, -1, 0, 0};
        good = same(s, &told, &wanted, i, name) && same(s, &again, &nothing, i, "an error is told once");
    }
    s->report->cases++;
    conversion_close(&converts);
    payload_free(&w.from);
    payload_free(&w.to);
    cudaFree(w.touched);
    return good;
}

static bool fits_int32(const route_case *c) {
    for (int64_t i = 0; i < c->entries; i++)
        if (c->cu[i] < INT32_MIN || c->cu[i] > INT32_MAX)
            return false;
    return true;
}

bool test_direct_errors(stage *s) {
    s->direct = true;
    route_case *c = malloc(sizeof *c);
    bool good = c || stage_fail(s, "no memory for a case");
    uint64_t state = s->options->seed + 17;
    const int64_t cases = s->options->quick ? 40 : 300;
    for (int64_t i = 0; good && i < cases;) {
        choices from = choices_from_seed(random_next(&state), NULL);
        route_case_draw(&from, &CASE_BOUNDS_DRAWN, c);
        const cpr_status status = c->expected.status;
        if (c->entries < 1 || (status != CPR_NONZERO_START && status != CPR_DECREASING &&
                               status != CPR_TOTAL_MISMATCH && status != CPR_NOT_DIVISIBLE_2CP &&
                               status != CPR_NOT_DIVISIBLE_CP && status != CPR_NOT_DIVISIBLE_CP_TP))
            continue;
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "wrong case %" PRId64 ", %s", i++, cpr_status_name(status));
        good = refused(s, c, name, i % 2 || !fits_int32(c));
    }
    if (good && s->report->cases == 0)
        good = stage_fail(s, "nothing was refused");
    free(c);
    return good;
}

/*==============================================================================
 * MARK: - Ranks that differ
 *============================================================================*/

/* Another pack of as many tokens and entries. */
static void other_pack(const pack *p, int64_t cp_size, int64_t *cu) {
    memcpy(cu, p->cu, (size_t)p->entries * sizeof *cu);
    cu[1] = cu[1] > 2 * cp_size ? cu[1] - 2 * cp_size : cu[1] + 2 * cp_size;
}

static bool run_and_look(watched *w, cpr_status wanted, const char *what) {
    const stage *s = w->stage;
    stage_step(s, "%s", what);
    cpr_error error = {CPR_OK, -1, 0, 0};
    bool good = poison(w);
    if (good && s->real)
        (void)cpr_cuda_conversion_run(w->conversion.direct, CPR_FORWARD, w->from.rows[0], w->to.rows[0],
                                      s->stream, &error);
    else if (good)
        (void)cpr_cuda_direct_simulation_run(w->conversion.direct_simulation, CPR_FORWARD,
                                             (const void *const *)w->from.rows, w->to.rows, s->stream,
                                             &error);
    good = good && untouched(w, what);
    for (int64_t i = 0; good && i < s->count; i++) {
        const cpr_error told = conversion_told(&w->conversion, i);
        good =
            told.status == wanted || stage_fail(s, "%s: rank %" PRId64 ": %s, wanted %s", what, s->first + i,
                                                cpr_status_name(told.status), cpr_status_name(wanted));
    }
    s->report->cases++;
    return good;
}

/* Only the odd rank's offsets are other ones, then wrong ones. */
static bool odd_offsets(watched *w) {
    const stage *s = w->stage;
    const pack *p = w->pack;
    const int64_t odd = stage_culprit(s) - s->first;
    int64_t cu[CASE_MAX_ENTRIES];
    bool good = true;
    if (s->cp_size < 2)
        return true;
    other_pack(p, s->cp_size, cu);
    if (odd >= 0 && odd < s->count)
        good = device_offsets_refill(&w->conversion.offsets[odd], cu);
    good = good && run_and_look(w, CPR_DIVERGENT_METADATA, "other offsets on one rank");
    cu[1] = -1;
    if (good && odd >= 0 && odd < s->count)
        good = device_offsets_refill(&w->conversion.offsets[odd], cu);
    if (!good || !poison(w) || !conversion_run(&w->conversion, CPR_FORWARD, w->from.rows, w->to.rows) ||
        !untouched(w, "wrong offsets on one rank"))
        return false;
    for (int64_t i = 0; good && i < s->count; i++) {
        const cpr_error told = conversion_told(&w->conversion, i);
        const cpr_error wanted = i == odd ? (cpr_error){CPR_DECREASING, 1, -1, 0}
                                          : (cpr_error){CPR_PEER_FAILED, stage_culprit(s), CPR_DECREASING, 0};
        good = same(s, &told, &wanted, s->first + i, "wrong offsets on one rank");
    }
    return good && (odd < 0 || odd >= s->count || device_offsets_refill(&w->conversion.offsets[odd], p->cu));
}

/* Source and target overlap on every rank: each says so at once, and nothing is written. */
static bool in_place(watched *w) {
    const stage *s = w->stage;
    cpr_error error;
    stage_step(s, "in place");
    if (s->real)
        (void)cpr_cuda_conversion_run(w->conversion.direct, CPR_FORWARD, w->to.rows[0], w->to.rows[0],
                                      s->stream, &error);
    else
        (void)cpr_cuda_direct_simulation_run(w->conversion.direct_simulation, CPR_FORWARD,
                                             (const void *const *)w->to.rows, w->to.rows, s->stream, &error);
    const cpr_error wanted = {CPR_BAD_ROW, -1, 0, 0};
    bool good = same(s, &error, &wanted, s->first, "in place");
    s->report->cases++;
    if (!good || !conversion_is_direct(&w->conversion))
        return good;
    good = untouched(w, "in place");
    for (int64_t i = 0; i < s->count; i++)
        (void)conversion_told(&w->conversion, i);
    return good;
}

/* A target outside every window. */
static bool out_of_windows(watched *w) {
    const stage *s = w->stage;
    if (!s->real)
        return true;
    stage_step(s, "a target that is in no window");
    void *outside = stage_allocate(s, w->to.bytes);
    cpr_error error = {CPR_OK, -1, 0, 0};
    bool good = outside;
    if (good)
        (void)cpr_cuda_conversion_run(w->conversion.direct, CPR_FORWARD, w->from.rows[0], outside, s->stream,
                                      &error);
    const cpr_error wanted = {CPR_UNREACHABLE, -1, 0, s->cp_size};
    good = good && same(s, &error, &wanted, s->first, "out of windows") && stage_wait(s);
    const cpr_error told = conversion_told(&w->conversion, 0);
    cudaFree(outside);
    return good && same(s, &told, &wanted, s->first, "out of windows, from the device");
}

bool test_direct_differ(stage *s) {
    s->direct = true;
    pack *p = malloc(sizeof *p);
    watched w = {0};
    bool good = p || stage_fail(s, "no memory for a pack");
    if (good)
        pack_spread(512 * s->cp_size, 8, s->cp_size, p);
    good = good && watched_open(&w, s, p, CPR_ZIGZAG, CPR_CONTIGUOUS) && poison(&w);
    if (good && !conversion_is_direct(&w.conversion)) {
        good = in_place(&w);
    } else {
        good = good && odd_offsets(&w) && in_place(&w) && out_of_windows(&w);
        /* nothing of all that is left */
        const trip_plan plan = {p, CPR_ZIGZAG, CPR_CONTIGUOUS, ROW_BYTES, 0};
        good = good && conversion_run(&w.conversion, CPR_FORWARD, w.from.rows, w.to.rows) && stage_wait(s) &&
               trip_make(s, &plan, 5);
    }
    watched_close(&w);
    free(p);
    return good;
}
