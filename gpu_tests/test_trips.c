/* SPDX-License-Identifier: Apache-2.0 */
/* Round trips over many cases. A stage is simulated or real: nothing here knows which. */
#include "tests.h"
#include "trip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL_ROW = 48 };

static pack *new_pack(const stage *s) {
    pack *p = malloc(sizeof *p);
    if (!p)
        stage_fail(s, "no memory for a pack");
    return p;
}

/* A line of the table about what was moved and was right, untimed. */
static bool tell(const stage *s, const trip_plan *plan, const char *what, const char *type, int64_t width) {
    const int64_t rows = pack_tokens(plan->pack) / s->cp_size;
    line l = {.bytes = rows * (int64_t)plan->row_bytes,
              .rows = rows,
              .width = width,
              .cp = s->cp_size,
              .wrong = s->report->wrong};
    snprintf(l.what, sizeof l.what, "%s", what);
    snprintf(l.type, sizeof l.type, "%s", type);
    snprintf(l.from, sizeof l.from, "%s", cpr_layout_name(plan->source));
    snprintf(l.to, sizeof l.to, "%s", cpr_layout_name(plan->target));
    return report_line(s->report, &l);
}

bool test_layouts(stage *s) {
    pack *p = new_pack(s);
    bool good = p;
    for (int source = 0; good && source < CPR_LAYOUT_COUNT; source++)
        for (int target = 0; good && target < CPR_LAYOUT_COUNT; target++)
            for (int kind = PACK_RAGGED; good && kind <= PACK_EMPTY_SLOTS; kind++) {
                if (s->options->quick && kind != PACK_RAGGED)
                    continue;
                pack_make((pack_kind)kind, s->cp_size, p);
                const trip_plan plan = {p, (cpr_layout)source, (cpr_layout)target, SMALL_ROW, 0};
                good = trip_make(s, &plan, (uint64_t)kind);
            }
    free(p);
    return good;
}

bool test_widths(stage *s) {
    static const struct {
        const char *name;
        size_t bytes;
    } types[] = {{"fp8", 1}, {"bf16", 2}, {"fp16", 2}, {"fp32", 4}, {"int64", 8}};
    static const int64_t widths[] = {1, 2, 3, 7, 8, 16, 100, 1024, 4095, 7168, 16384};
    static const size_t odd_sizes[] = {1, 2, 3, 4, 5, 8, 12, 15, 16, 17, 24, 31, 48, 4097};
    const size_t step = s->options->quick ? 4 : 1;
    pack *p = new_pack(s);
    bool good = p;
    for (size_t type = 0; good && type < sizeof types / sizeof *types; type++) {
        trip_plan plan = {p, CPR_ZIGZAG, CPR_CONTIGUOUS, 0, 0};
        for (size_t w = 0; good && w < sizeof widths / sizeof *widths; w += step) {
            plan.row_bytes = (size_t)widths[w] * types[type].bytes;
            /* Ranks that share a GPU move a few megabytes in a second. */
            const bool few_rows = s->shares_gpus && plan.row_bytes > 1024;
            pack_make(few_rows ? PACK_SHORTEST : PACK_RAGGED, s->cp_size, p);
            good = trip_make(s, &plan, w);
        }
        /* simulated stages play this for every P: one line for each type is enough */
        if (good && (s->real || s->cp_size == 2))
            good = tell(s, &plan, "widths 1 to this", types[type].name,
                        (int64_t)(plan.row_bytes / types[type].bytes));
    }
    if (good)
        pack_make(PACK_RAGGED, s->cp_size, p);
    for (size_t i = 0; good && i < sizeof odd_sizes / sizeof *odd_sizes; i += step)
        for (size_t shift = 0; good && shift <= 15; shift += shift < 2    ? 1
                                                             : shift == 2 ? 2
                                                             : shift == 4 ? 4
                                                                          : 7) {
            const bool swapped = (i + shift) % 2 == 1;
            const trip_plan plan = {p, swapped ? CPR_CONTIGUOUS : CPR_ZIGZAG,
                                    swapped ? CPR_ZIGZAG : CPR_CONTIGUOUS, odd_sizes[i], shift};
            good = trip_make(s, &plan, shift);
        }
    free(p);
    return good;
}

bool test_packs(stage *s) {
    pack *p = new_pack(s);
    bool good = p;
    for (int kind = 0; good && kind < PACK_KINDS; kind++) {
        if (s->options->quick && kind == PACK_4096_SEQUENCES)
            continue;
        pack_make((pack_kind)kind, s->cp_size, p);
        const trip_plan there = {p, CPR_ZIGZAG, CPR_CONTIGUOUS, 512, 0},
                        back = {p, CPR_CONTIGUOUS, CPR_ZIGZAG, 34, 0};
        good = trip_make(s, &there, 1) && trip_make(s, &back, 2);
        if (good && (s->real || s->cp_size == 8))
            good = tell(s, &there, p->name, "int64", 64);
    }
    free(p);
    return good;
}

/* The layouts that a case number asks for, all pairs in turn. */
static trip_plan plan_number(const pack *p, int64_t number) {
    static const size_t row_bytes[] = {16, 7, 64, 258, 8};
    const int64_t pair = number % (CPR_LAYOUT_COUNT * CPR_LAYOUT_COUNT);
    return (trip_plan){p, (cpr_layout)(pair / CPR_LAYOUT_COUNT), (cpr_layout)(pair % CPR_LAYOUT_COUNT),
                       row_bytes[number % 5], 0};
}

bool test_corpus(stage *s) {
    pack *p = new_pack(s);
    route_case *c = malloc(sizeof *c);
    bool good = p && (c || stage_fail(s, "no memory for a case"));
    const int64_t step = s->options->quick ? 20 : 1;
    for (int64_t i = 0; good && i < corpus_count(); i += step) {
        if (!corpus_case(i, c) || !pack_of_case(c, s->cp_size, p))
            continue;
        snprintf(p->name, sizeof p->name, "%s", corpus_id(i));
        trip_plan plan = plan_number(p, i);
        plan.source = c->source;
        plan.target = c->target;
        good = trip_make(s, &plan, (uint64_t)i);
    }
    if (good && s->report->cases == 0)
        good = stage_fail(s, "no case of the corpus was played");
    free(c);
    free(p);
    return good;
}

bool test_drawn(stage *s) {
    pack *p = new_pack(s);
    bool good = p;
    /* Ranks that take turns on one GPU need milliseconds for each exchange. */
    const int64_t share = s->options->quick ? 50 : s->shares_gpus || !s->real ? 4 : 1;
    const int64_t cases = s->options->cases / share + 1;
    for (int64_t i = 0; good && i < cases; i++) {
        pack_draw(s->options->seed, i, s->cp_size, p);
        const trip_plan plan = plan_number(p, i * 7);
        good = trip_make(s, &plan, (uint64_t)i);
    }
    free(p);
    return good;
}

/*==============================================================================
 * MARK: - Control
 *============================================================================*/

typedef struct damage {
    const char *name;
    int64_t row_a, row_b; /* of rank 0; the same: one byte of it */
} damage;

static bool damage_away(trip *t, const damage *d) {
    unsigned char *rows = t->away.rows[0];
    const size_t bytes = t->plan.row_bytes;
    unsigned char *a = rows + (size_t)d->row_a * bytes, *b = rows + (size_t)d->row_b * bytes;
    unsigned char *spare = t->home.rows[0];
    const cudaStream_t stream = t->stage->stream;
    if (d->row_a == d->row_b) /* one byte */
        return CUDA_TRY(t->stage, cudaMemsetAsync(a + 3, 0x5a, 1, stream));
    return CUDA_TRY(t->stage, cudaMemcpyAsync(spare, a, bytes, cudaMemcpyDeviceToDevice, stream)) &&
           CUDA_TRY(t->stage, cudaMemcpyAsync(a, b, bytes, cudaMemcpyDeviceToDevice, stream)) &&
           CUDA_TRY(t->stage, cudaMemcpyAsync(b, spare, bytes, cudaMemcpyDeviceToDevice, stream));
}

/* Judges with a report of its own, which must say so. */
static bool is_found(trip *t, const damage *d) {
    const stage *real = t->stage;
    report *aside = calloc(1, sizeof *aside);
    if (!aside)
        return stage_fail(real, "no memory for a report");
    stage there = *real;
    there.report = aside;
    t->stage = t->conversion.stage = t->start.stage = t->away.stage = t->home.stage = &there;
    const bool missed =
        !(trip_paint(t, 1) && trip_forward(t) && damage_away(t, d) && trip_backward(t)) || trip_judge(t, 1);
    t->stage = t->conversion.stage = t->start.stage = t->away.stage = t->home.stage = real;
    const int64_t wrong = aside->wrong, bytes = (int64_t)t->plan.row_bytes;
    /* found in the target and once more at home; a byte in 256 may be right by chance */
    const int64_t most = 2 * (d->row_a == d->row_b ? 1 : 2 * bytes), least = most - most / 8;
    const bool good = !missed && wrong >= least && wrong <= most;
    if (!good)
        stage_fail(real,
                   "%s: %" PRId64 " bytes were counted as wrong, should be %" PRId64 " to %" PRId64 "; %s",
                   d->name, wrong, least, most, aside->reason);
    real->report->cases++;
    free(aside);
    return good;
}

bool test_control(stage *s) {
    static const damage damages[] = {
        {"one byte of another value", 5, 5},
        {"two neighbours swapped", 5, 6},
        {"two rows swapped that are 256 apart", 1, 257},
    };
    stage_close(s);
    if (!stage_open_simulated(s, 2))
        return false;
    pack *p = new_pack(s);
    bool good = p;
    if (good)
        pack_spread(1024, 8, 2, p);
    trip t = {0};
    const trip_plan plan = {p, CPR_ZIGZAG, CPR_CONTIGUOUS, 128, 0};
    good = good && trip_open(&t, s, &plan);
    for (size_t i = 0; good && i < sizeof damages / sizeof *damages; i++)
        good = is_found(&t, &damages[i]);
    trip_close(&t);
    free(p);
    return good;
}
