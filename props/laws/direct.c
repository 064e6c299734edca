/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conversion without a route, its kernel run here thread by thread: offsets are judged by many threads, ranks tell each other
 * what they found, and rows are moved by the engine's own index arithmetic, with loads and stores that are watched.
 */
#include "cuda/direct.h"
#include "by_places.h"
#include "compare.h"
#include "device_rows.h"
#include "laws.h"
#include "oracle.h"
#include "subject.h"
#include <inttypes.h>
#include <string.h>

/*==============================================================================
 * MARK: - Judging offsets
 *============================================================================*/

static cpr_offsets_scan scanned(const engine_under_test *engine, const cpr_offsets *offsets,
                                const cpr_conversion_facts *facts, int64_t threads) {
    cpr_offsets_scan all = engine->offsets_scanned(offsets, facts, 0, threads);
    for (int64_t thread = 1; thread < threads; thread++)
        all = cpr_offsets_joined(engine->offsets_scanned(offsets, facts, thread, threads), all);
    return all;
}

static cpr_error judged(const engine_under_test *engine, const cpr_route_request *request, int64_t threads,
                        cpr_offsets_scan *scan) {
    const cpr_conversion_facts facts = facts_of_request(request);
    const cpr_error refused =
        cpr_conversion_refused(&request->cu_seqlens, request->geometry, facts.source, facts.target, CPR_CPU);
    if (refused.status != CPR_OK)
        return refused;
    const cpr_offsets offsets = cpr_offsets_of(&request->cu_seqlens);
    *scan = scanned(engine, &offsets, &facts, threads);
    return engine->offsets_judged(&offsets, &facts, scan);
}

/* However many threads there are, they come to what is expected, and to the same digest. */
static bool judges_as_expected(const route_case *c, const engine_under_test *engine,
                               const cpr_route_request *request, verdict *v) {
    const int64_t numbers[] = {1, 1 + (int64_t)salt_below(c->salt, 60, 40), CPR_MOVE_THREADS};
    cpr_offsets_scan scans[3] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
    for (int i = 0; i < 3; i++) {
        const cpr_error error = judged(engine, request, numbers[i], &scans[i]);
        if (!as_expected(c, error.status, &error, "the kernel's threads", v))
            return false;
        if (c->expected.status == CPR_OK && scans[i].digest != scans[0].digest)
            return law_fail(v, "a digest depends on the number of threads", "%" PRId64 " threads",
                            numbers[i]);
    }
    return true;
}

/*==============================================================================
 * MARK: - Ranks among each other
 *============================================================================*/

typedef struct device {
    const engine_under_test *engine;
    const route_case *c;
    int64_t ranks, rows;
    size_t row_bytes, unit;
    int64_t blocks;
    cpr_offsets offsets;
    cpr_conversion_facts facts; /* of the direction */
    device_rows *source, *target;
    cpr_direct_note *notes;
    scratch memory;
} device;

static cpr_error answer_on(const device *d, cpr_error own) {
    cpr_direct_findings all = {INT64_MAX, INT64_MAX};
    for (int64_t r = 0; r < d->ranks; r++) {
        const cpr_direct_findings one = d->engine->direct_found_in(r, &d->notes[r], &d->notes[0]);
        all.failed = one.failed < all.failed ? one.failed : all.failed;
        all.different = one.different < all.different ? one.different : all.different;
    }
    const int64_t failed = all.failed == INT64_MAX ? 0 : all.failed;
    const int64_t different = all.different == INT64_MAX ? 0 : all.different;
    return cpr_direct_answer(own, &all, &d->notes[failed], &d->notes[different], &d->notes[0]);
}

static bool answers(const device *d, cpr_error own, cpr_error wanted, const char *what, verdict *v) {
    const cpr_error answer = answer_on(d, own);
    return same_error(&answer, what, &wanted, "what the rank must answer", "ranks do not agree rightly", v);
}

/* One rank is odd: it was refused, or has other offsets. */
static bool ranks_agree(device *d, uint64_t digest, verdict *v) {
    const int64_t odd = (int64_t)salt_below(d->c->salt, 61, (uint64_t)d->ranks);
    const cpr_error fine = cpr_nothing_found(), wrong = {CPR_DECREASING, 3, 1, 2};
    for (int64_t r = 0; r < d->ranks; r++)
        d->notes[r] = (cpr_direct_note){CPR_OK, digest};
    if (!answers(d, fine, fine, "a rank among its like", v))
        return false;
    d->notes[odd].status = wrong.status;
    if (!answers(d, wrong, wrong, "a rank whose offsets are wrong", v) ||
        (d->ranks > 1 &&
         !answers(d, fine, (cpr_error){CPR_PEER_FAILED, odd, wrong.status, 0}, "a rank beside it", v)))
        return false;
    d->notes[odd] = (cpr_direct_note){CPR_OK, digest + 1};
    const int64_t first = odd > 0 ? odd : 1;
    return d->ranks == 1 || answers(d, fine,
                                    (cpr_error){CPR_DIVERGENT_METADATA, first,
                                                (int64_t)d->notes[first].digest, (int64_t)d->notes[0].digest},
                                    "a rank among others with other offsets", v);
}

/* Empty sequences are no difference, other boundaries are. */
static bool digest_tells(device *d, uint64_t digest, verdict *v) {
    const route_case *c = d->c;
    int64_t *cu = scratch_int64(&d->memory, c->entries + 1);
    if (!cu)
        return subject_no_memory(v);
    const int64_t at = (int64_t)salt_below(c->salt, 62, (uint64_t)c->entries);
    for (int64_t i = 0; i <= c->entries; i++)
        cu[i] = c->cu[i - (i > at)];
    const cpr_cu_seqlens repeated = cpr_cu_seqlens_int64(cu, c->entries + 1);
    const cpr_offsets offsets = cpr_offsets_of(&repeated);
    if (scanned(d->engine, &offsets, &d->facts, 3).digest != digest)
        return law_fail(v, "an empty sequence changes the digest", "entry %" PRId64 " repeated", at);
    if (c->entries < 2 || c->cu[c->entries - 1] == 0)
        return true;
    for (int64_t i = 0; i <= c->entries; i++)
        cu[i] = cu[i] == c->cu[c->entries - 1] ? cu[i] + 2 * d->ranks : cu[i];
    return scanned(d->engine, &offsets, &d->facts, 3).digest != digest ||
           law_fail(v, "a digest does not tell a difference", "the last boundary moved by %" PRId64,
                    2 * d->ranks);
}

/*==============================================================================
 * MARK: - Moving
 *============================================================================*/

static bool move_unit(const device *d, int64_t rank, int64_t unit, cpr_direct_place place, int64_t *moved,
                      verdict *v) {
    const device_rows *from = &d->source[rank];
    if (place.peer < 0 || place.peer >= d->ranks || unit < 0 || (uint64_t)unit >= from->size / d->unit ||
        place.unit < 0 || (uint64_t)place.unit >= d->target[place.peer].size / d->unit)
        return law_fail(v, "a thread leaves the memory",
                        "unit %" PRId64 " of rank %" PRId64 " to unit %" PRId64 " of rank %" PRId64, unit,
                        rank, place.unit, place.peer);
    memcpy(d->target[place.peer].bytes + (size_t)place.unit * d->unit, from->bytes + (size_t)unit * d->unit,
           d->unit);
    ++*moved;
    return true;
}

static bool run_thread(const device *d, const cpr_places *places, int64_t block, int thread, int64_t *moved,
                       verdict *v) {
    const int64_t units_per_row = (int64_t)(d->row_bytes / d->unit);
    const int64_t chunks = cpr_direct_chunks(places, units_per_row);
    for (int64_t number = cpr_move_first_chunk(block, thread); number < chunks;
         number += cpr_move_chunk_stride(d->blocks)) {
        const cpr_direct_chunk chunk =
            d->engine->direct_chunk_at(places, units_per_row, d->engine->direct_turn(places, chunks, number));
        for (int64_t unit = chunk.begin + thread % CPR_MOVE_LANES; unit < chunk.end; unit += CPR_MOVE_LANES) {
            const cpr_direct_place place = chunk.in_one_run
                                               ? cpr_direct_in_one_run(&chunk, units_per_row, unit)
                                               : d->engine->direct_by_lookup(places, units_per_row, unit);
            if (!move_unit(d, places->rank, unit, place, moved, v))
                return false;
        }
    }
    return true;
}

static bool run_rank(const device *d, int64_t rank, verdict *v) {
    const cpr_places places = cpr_places_of(&d->offsets, &d->facts, rank);
    int64_t moved = 0;
    for (int64_t block = 0; block < d->blocks; block++)
        for (int thread = 0; thread < CPR_MOVE_THREADS; thread++)
            if (!run_thread(d, &places, block, thread, &moved, v))
                return false;
    const int64_t units = d->rows * (int64_t)(d->row_bytes / d->unit);
    return moved == units || law_fail(v, "units are not moved once each",
                                      "%" PRId64 " units moved, there are %" PRId64, moved, units);
}

static bool make_rows(device *d, unsigned draw, device_rows **rows) {
    *rows = scratch_bytes(&d->memory, (size_t)d->ranks * sizeof **rows);
    for (int64_t r = 0; *rows && r < d->ranks; r++) {
        if (!device_rows_make(&d->memory, (size_t)d->rows * d->row_bytes, device_rows_shift(d->c, draw),
                              &(*rows)[r]))
            return false;
        const size_t unit = cpr_move_unit_bytes(d->row_bytes, (*rows)[r].bytes, NULL);
        d->unit = unit < d->unit ? unit : d->unit;
    }
    return *rows != NULL;
}

static bool convert(device *d, const char *direction, verdict *v) {
    device_rows *wanted;
    d->unit = WIDEST_UNIT;
    if (!make_rows(d, 64, &d->source) || !make_rows(d, 65, &d->target) || !make_rows(d, 66, &wanted))
        return subject_no_memory(v);
    if (!device_rows_paint(d->c, (cpr_layout)d->facts.source, d->row_bytes, &d->memory, d->source, v) ||
        !device_rows_paint(d->c, (cpr_layout)d->facts.target, d->row_bytes, &d->memory, wanted, v))
        return false;
    for (int64_t r = 0; r < d->ranks; r++)
        if (!run_rank(d, r, v))
            return false;
    return device_rows_same(d->c, d->target, wanted, d->row_bytes, "rows do not go where they belong",
                            direction, v);
}

static void play(device *d, verdict *v) {
    const uint64_t digest = scanned(d->engine, &d->offsets, &d->facts, 2).digest;
    if (!ranks_agree(d, digest, v) || !digest_tells(d, digest, v) || !convert(d, "there", v))
        return;
    const int source = d->facts.source;
    d->facts.source = d->facts.target;
    d->facts.target = source;
    convert(d, "back", v);
}

void judge_direct(const route_case *c, const engine_under_test *engine, verdict *v) {
    boundaries b = boundaries_make(c);
    const bool good = judges_as_expected(c, engine, &b.request, v);
    verdict unlisted = {.outcome = LAW_PASSED};
    if (good && c->expected.status == CPR_OK && subject_listable(c, &unlisted)) {
        const oracle_pack pack = oracle_pack_of(c);
        device d = {.engine = engine,
                    .c = c,
                    .ranks = c->geometry.cp_size,
                    .rows = oracle_rows(&pack),
                    .row_bytes = device_row_bytes(c, 63),
                    .blocks = 1 + (int64_t)salt_below(c->salt, 11, 4),
                    .offsets = cpr_offsets_of(&b.request.cu_seqlens),
                    .facts = facts_of_request(&b.request)};
        d.notes = scratch_bytes(&d.memory, (size_t)d.ranks * sizeof *d.notes);
        if (d.notes)
            play(&d, v);
        else
            subject_no_memory(v);
        scratch_free(&d.memory);
    }
    boundaries_free(&b);
}
