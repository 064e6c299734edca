/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that are found before a byte moves: one rank is wrong, all learn of it, and the next exchange works. */
#include "fault.h"

#include "laws/ledger.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 4096, MOST_ATTEMPTS = 64 };

typedef struct scene {
    stage *stage;
    pack *pack;
    cpr_route *route; /* the right one */
    int64_t culprit;
    bool am_culprit;
} scene;

static bool open_scene(scene *c, stage *s) {
    *c = (scene){.stage = s, .pack = malloc(sizeof *c->pack), .culprit = stage_culprit(s)};
    c->am_culprit = s->first == c->culprit;
    if (!c->pack)
        return stage_fail(s, "no memory for a pack");
    if (!fault_pack(s, TOKENS, c->pack))
        return false;
    c->route = build_route(s, c->pack, s->first, CPR_ZIGZAG, CPR_CONTIGUOUS);
    return c->route;
}

static void close_scene(scene *c) {
    cpr_route_free(c->route);
    free(c->pack);
}

static cpr_error create_with(const scene *c, const cpr_route *route, size_t row_bytes,
                             const cpr_allocator *allocator) {
    cpr_cuda_exchange *exchange = NULL;
    cpr_error error;
    cpr_cuda_exchange_create(c->stage->group, route, row_bytes, allocator, &exchange, &error);
    cpr_cuda_exchange_free(exchange);
    return error;
}

static bool works(const scene *c, uint64_t salt) {
    const trip_plan plan = {c->pack, CPR_ZIGZAG, CPR_CONTIGUOUS, FAULT_ROW_BYTES, 0};
    return trip_make(c->stage, &plan, salt);
}

static bool refuses_other_offsets(const scene *c) {
    const stage *s = c->stage;
    pack *other = malloc(sizeof *other);
    if (!other)
        return stage_fail(s, "no memory for a pack");
    stage_step(s, "other offsets on one rank");
    *other = *c->pack;
    for (int64_t i = 1; i < other->entries - 1; i++) /* reversed lengths: the same total */
        other->cu[i] = pack_tokens(c->pack) - c->pack->cu[other->entries - 1 - i];
    cpr_route *wrong = build_route(s, other, s->first, CPR_ZIGZAG, CPR_CONTIGUOUS);
    const cpr_error error = create_with(c, c->am_culprit ? wrong : c->route, FAULT_ROW_BYTES, NULL);
    cpr_route_free(wrong);
    free(other);
    return fault_is(s, "other offsets on one rank", &error, "divergent_metadata", c->culprit, ANYTHING,
                    ANYTHING);
}

static bool refuses_other_width(const scene *c) {
    stage_step(c->stage, "rows of another width on one rank");
    const size_t right = FAULT_ROW_BYTES, wrong = 2 * FAULT_ROW_BYTES;
    const cpr_error error = create_with(c, c->route, c->am_culprit ? wrong : right, NULL);
    return fault_is(c->stage, "rows of another width on one rank", &error, "divergent_metadata", c->culprit,
                    ANYTHING, ANYTHING);
}

/* The message to rank 0 has a row too many. */
static bool refuses_wrong_splits(const scene *c) {
    const stage *s = c->stage;
    stage_step(s, "wrong split sizes on one rank");
    cpr_route damaged = *c->route;
    const size_t bytes = (size_t)damaged.send.count * sizeof *damaged.send.runs;
    cpr_run *runs = malloc(bytes);
    if (!runs)
        return stage_fail(s, "no memory for runs");
    memcpy(runs, damaged.send.runs, bytes);
    runs[0].length++; /* the first run is for rank 0: every split size is above zero */
    damaged.send.runs = runs;
    damaged.send.rows++;
    int64_t splits[MAX_RANKS];
    cpr_error error;
    bool good =
        stage_cpr(s, cpr_route_splits(c->route, CPR_SEND, splits, s->cp_size, &error), &error, "splits");
    int64_t right = c->am_culprit ? splits[0] : 0; /* known to the culprit alone */
    good = good && stage_sum(s, &right);
    error = create_with(c, c->am_culprit ? &damaged : c->route, FAULT_ROW_BYTES, NULL);
    free(runs);
    return good && fault_is(s, "wrong split sizes on one rank", &error, "split_mismatch",
                            c->culprit * s->cp_size, right + 1, right);
}

static bool refuses_no_route(const scene *c) {
    stage_step(c->stage, "no route on one rank");
    const cpr_error error = create_with(c, c->am_culprit ? NULL : c->route, FAULT_ROW_BYTES, NULL);
    if (c->am_culprit)
        return error.status != CPR_OK || stage_fail(c->stage, "no route on this rank, and it was taken");
    return fault_is(c->stage, "no route on one rank", &error, "peer_failed", c->culprit, ANYTHING, ANYTHING);
}

static bool refuses_foreign_rank(const scene *c) {
    const stage *s = c->stage;
    stage_step(s, "the route of another rank on one rank");
    cpr_route *foreign = build_route(s, c->pack, 0, CPR_ZIGZAG, CPR_CONTIGUOUS);
    const cpr_error error = create_with(c, c->am_culprit ? foreign : c->route, FAULT_ROW_BYTES, NULL);
    cpr_route_free(foreign);
    if (c->am_culprit)
        return fault_is(s, "the route of another rank", &error, "bad_rank", c->culprit, 0, c->culprit);
    return error.status != CPR_OK ||
           stage_fail(s, "the route of another rank was taken on rank %" PRId64, c->culprit);
}

/* Refused on this rank alone, before anything is enqueued: no other rank is waiting. */
static bool refuses_overlap(const scene *c) {
    const stage *s = c->stage;
    stage_step(s, "source and target overlap");
    trip t;
    const trip_plan plan = {c->pack, CPR_ZIGZAG, CPR_CONTIGUOUS, FAULT_ROW_BYTES, 0};
    cpr_error error = {0};
    bool good = trip_open(&t, s, &plan);
    if (good) {
        char *rows = t.start.rows[0];
        cpr_cuda_exchange_run(t.conversion.exchange, CPR_FORWARD, rows, rows + FAULT_ROW_BYTES, s->stream,
                              &error);
        good =
            fault_is(s, "overlap", &error, "bad_row", -1, ANYTHING, ANYTHING) && trip_there_and_back(&t, 5);
    }
    trip_close(&t);
    return good;
}

bool test_refusals(stage *s) {
    static bool (*const refusals[])(const scene *) = {refuses_other_offsets, refuses_other_width,
                                                      refuses_wrong_splits,  refuses_no_route,
                                                      refuses_foreign_rank,  refuses_overlap};
    scene c;
    bool good = open_scene(&c, s) && works(&c, 1);
    for (size_t i = 0; good && i < sizeof refusals / sizeof *refusals; i++)
        good = refusals[i](&c) && works(&c, 2 + i);
    close_scene(&c);
    return good;
}

/* Allocation k of the culprit fails, for every k until none is left to fail. */
bool test_no_memory(stage *s) {
    scene c;
    bool good = open_scene(&c, s) && works(&c, 1);
    bool succeeded = false;
    int64_t attempts = 0;
    for (uint64_t k = 1; good && !succeeded && k <= MOST_ATTEMPTS; k++) {
        stage_step(s, "allocation %" PRIu64 " of rank %" PRId64 " fails", k, c.culprit);
        ledger books = {.fail_at = k};
        const cpr_allocator allocator = ledger_allocator(&books);
        const cpr_error error = create_with(&c, c.route, FAULT_ROW_BYTES, c.am_culprit ? &allocator : NULL);
        succeeded = error.status == CPR_OK;
        attempts++;
        verdict v = {.outcome = LAW_PASSED};
        if (c.am_culprit && !ledger_settled(&books, "cpr_cuda_exchange_create", &v))
            good = stage_fail(s, "allocation %" PRIu64 " failed: %s: %s", k, v.reason, v.details);
        else if (succeeded)
            good = !c.am_culprit || books.allocations < k ||
                   stage_fail(s, "allocation %" PRIu64 " failed, and nobody noticed", k);
        else if (c.am_culprit)
            good = fault_is(s, "no memory", &error, "no_memory", ANYTHING, ANYTHING, ANYTHING);
        else
            good = fault_is(s, "no memory on another rank", &error, "peer_failed", c.culprit, CPR_NO_MEMORY,
                            ANYTHING);
        good = good && works(&c, k);
    }
    if (good && (!succeeded || attempts < 2))
        good = stage_fail(s, "%" PRId64 " attempts, the last %s: the culprit's allocations were not reached",
                          attempts, succeeded ? "good" : "bad");
    close_scene(&c);
    return good;
}

/* Takes all device memory but a little, by pieces that grow smaller. */
static bool hog_device_memory(const stage *s, void **pieces, int64_t most, int64_t *count) {
    size_t there, total;
    if (!CUDA_TRY(s, cudaMemGetInfo(&there, &total)))
        return false;
    for (size_t piece = there; piece > (1 << 20) && *count < most;) {
        if (cudaMalloc(&pieces[*count], piece) == cudaSuccess)
            (*count)++;
        else
            piece /= 2;
    }
    cudaGetLastError(); /* the last refusal */
    return true;
}

bool test_device_memory(stage *s) {
    enum { MOST_PIECES = 64 };
    if (s->shares_gpus)
        return test_skip(s, "ranks share a GPU: its memory would be gone for all");
    scene c;
    void *pieces[MOST_PIECES];
    int64_t count = 0;
    bool good = open_scene(&c, s) && works(&c, 1);
    if (good && c.am_culprit)
        good = hog_device_memory(s, pieces, MOST_PIECES, &count);
    stage_meet(s); /* taking it all lasts longer than ranks may keep each other waiting */
    stage_step(s, "rank %" PRId64 " has no device memory left", c.culprit);
    const size_t wide = 1 << 20; /* 4 GiB of rows in all */
    cpr_error error = {0};
    if (good)
        error = create_with(&c, c.route, wide, NULL);
    while (count > 0)
        cudaFree(pieces[--count]);
    if (good && c.am_culprit)
        good = error.status == CPR_CUDA_ERROR || error.status == CPR_NO_MEMORY ||
               stage_fail(s, "no device memory on this rank: %s", cpr_status_name(error.status));
    else if (good)
        good = error.status != CPR_OK ||
               stage_fail(s, "no device memory on rank %" PRId64 ", and nothing told", c.culprit);
    close_scene(&c);
    return good;
}
