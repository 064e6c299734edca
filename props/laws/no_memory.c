/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "group.h"
#include "laws.h"
#include "ledger.h"
#include "subject.h"
#include <inttypes.h>
#include <string.h>

enum {
    ROW_BYTES = 3,
    TOKENS_MAX = 4096,
    RANKS_MAX = 16,
    ATTEMPTS_MAX = 10000 /* far above what any entry point allocates for such cases */
};

/* What every entry point is tried with, and what it answers when memory lasts. */
typedef struct trial {
    const engine_under_test *engine;
    const cpr_route_request *request;
    const group *routes;
    const cpr_intervals *intervals;
    cpr_shard *sources, *targets;
} trial;

typedef enum attempt { RAN_OUT, SUCCEEDED, BROKE_THE_LAW } attempt;

typedef attempt try_fn(const trial *t, const cpr_allocator *allocator, verdict *v);

static attempt failed_properly(cpr_status status, const cpr_error *error, const char *what, verdict *v) {
    const cpr_error wanted = {CPR_NO_MEMORY, -1, 0, 0};
    return call_refused(status, error, wanted, what, v) ? RAN_OUT : BROKE_THE_LAW;
}

static attempt touched(const char *what, verdict *v) {
    law_fail(v, "an output is touched on failure", "%s", what);
    return BROKE_THE_LAW;
}

static attempt try_builder(const trial *t, builder by, const cpr_allocator *allocator, verdict *v) {
    cpr_route untouched = {0}, *route = &untouched;
    cpr_error error;
    const cpr_status status = t->engine->build[by](t->request, allocator, &route, &error);
    if (status != CPR_OK)
        return route == &untouched ? failed_properly(status, &error, builder_names[by], v)
                                   : touched(builder_names[by], v);
    const cpr_route *wanted = t->routes->routes[t->request->geometry.cp_rank];
    const bool good = same_route(route, builder_names[by], wanted, "with plenty of memory",
                                 "the answer depends on the allocator", v);
    cpr_route_free(route);
    return good ? SUCCEEDED : BROKE_THE_LAW;
}

static attempt try_interval(const trial *t, const cpr_allocator *allocator, verdict *v) {
    return try_builder(t, BY_INTERVALS, allocator, v);
}

static attempt try_definition(const trial *t, const cpr_allocator *allocator, verdict *v) {
    return try_builder(t, BY_DEFINITION, allocator, v);
}

static attempt try_per_token(const trial *t, const cpr_allocator *allocator, verdict *v) {
    return try_builder(t, PER_TOKEN, allocator, v);
}

static bool same_intervals(const cpr_intervals *a, const cpr_intervals *b, verdict *v) {
    const bool same = a->count == b->count && a->rows == b->rows &&
                      (a->count == 0 || memcmp(a->items, b->items, (size_t)a->count * sizeof *a->items) == 0);
    return same || law_fail(v, "the answer depends on the allocator",
                            "intervals: %" PRId64 " with %" PRId64 " rows; %" PRId64 " with %" PRId64 " rows",
                            a->count, a->rows, b->count, b->rows);
}

static attempt try_intervals(const trial *t, const cpr_allocator *allocator, verdict *v) {
    cpr_intervals untouched = {0}, *intervals = &untouched;
    cpr_error error;
    const cpr_status status =
        t->engine->layout_intervals(&t->request->cu_seqlens, t->request->rows, t->request->geometry,
                                    t->request->source, allocator, &intervals, &error);
    if (status != CPR_OK)
        return intervals == &untouched ? failed_properly(status, &error, "layout_intervals", v)
                                       : touched("layout_intervals", v);
    const bool good = same_intervals(intervals, t->intervals, v);
    cpr_intervals_free(intervals);
    return good ? SUCCEEDED : BROKE_THE_LAW;
}

/* A validator that has no memory answers false, and only the books tell that from a finding. */
static attempt try_validate(const trial *t, const cpr_allocator *allocator, verdict *v) {
    const ledger *books = allocator->context;
    const char *why = NULL;
    if (t->engine->validate(t->routes->routes[t->request->geometry.cp_rank], allocator, &why))
        return SUCCEEDED;
    if (books->fail_at != 0 && books->allocations >= books->fail_at && why)
        return RAN_OUT;
    law_fail(v, "a built route does not validate", "%s", why ? why : "no reason given");
    return BROKE_THE_LAW;
}

static attempt try_transport_check(const trial *t, const cpr_allocator *allocator, verdict *v) {
    cpr_error error;
    const cpr_status status = t->engine->transport_check(t->request, 1, 64, allocator, &error);
    return status == CPR_OK ? SUCCEEDED : failed_properly(status, &error, "transport_check", v);
}

static bool targets_hold(const trial *t, uint8_t byte, cpr_layout layout) {
    for (int64_t r = 0; r < t->routes->size; r++) {
        const uint8_t *bytes = t->targets[r].data;
        if (t->targets[r].layout != layout)
            return false;
        for (int64_t i = 0; i < t->targets[r].rows * ROW_BYTES; i++)
            if (bytes[i] != byte)
                return false;
    }
    return true;
}

static void fill(const trial *t, cpr_shard *shards, uint8_t byte, cpr_layout layout) {
    for (int64_t r = 0; r < t->routes->size; r++) {
        memset(shards[r].data, byte, (size_t)shards[r].rows * ROW_BYTES);
        shards[r].layout = layout;
    }
}

static attempt try_exchange(const trial *t, const cpr_allocator *allocator, verdict *v) {
    cpr_error error;
    fill(t, t->sources, 0x11, t->request->source);
    fill(t, t->targets, 0x22, CPR_LAYOUT_COUNT);
    const cpr_status status = t->engine->exchange_host(group_routes(t->routes), t->routes->size, ROW_BYTES,
                                                       t->sources, t->targets, allocator, &error);
    if (status != CPR_OK)
        return targets_hold(t, 0x22, CPR_LAYOUT_COUNT) ? failed_properly(status, &error, "exchange_host", v)
                                                       : touched("exchange_host", v);
    if (targets_hold(t, 0x11, t->request->target))
        return SUCCEEDED;
    law_fail(v, "an exchange moves rows wrongly", "with an allocator of the caller");
    return BROKE_THE_LAW;
}

/* The shape that an entry point makes of a route is judged by its own law; here it is made and freed. */
static attempt finished(cpr_status status, const cpr_error *error, bool untouched, const char *what,
                        verdict *v) {
    if (status == CPR_OK)
        return SUCCEEDED;
    return untouched ? failed_properly(status, error, what, v) : touched(what, v);
}

static const cpr_route *own_route(const trial *t) {
    return t->routes->routes[t->request->geometry.cp_rank];
}

static attempt try_flat_of(const trial *t, const cpr_route *encoded, const cpr_allocator *allocator,
                           verdict *v) {
    scratch s = {0};
    int64_t count = 0;
    cpr_error error;
    cpr_flat_size(encoded, &count, NULL);
    int64_t *flat = scratch_int64(&s, count);
    cpr_route *route = NULL;
    cpr_status status = flat ? t->engine->flat_encode(encoded, flat, count, &error) : CPR_OK;
    if (flat && status == CPR_OK)
        status = t->engine->flat_route(flat, count, t->request, allocator, &route, &error);
    cpr_route_free(status == CPR_OK ? route : NULL);
    scratch_free(&s);
    if (status == CPR_LAYOUT_MISMATCH && encoded != own_route(t))
        return SUCCEEDED;
    return finished(status, &error, status == CPR_OK || !route, "flat_route", v);
}

static attempt try_flat(const trial *t, const cpr_allocator *allocator, verdict *v) {
    return try_flat_of(t, own_route(t), allocator, v);
}

/* The tensor of the other direction, which takes more to refuse, unless both are the same. */
static attempt try_flat_reversed(const trial *t, const cpr_allocator *allocator, verdict *v) {
    const cpr_route_request reverse = request_reversed(t->request);
    cpr_route *opposite;
    if (!engine_builds(t->engine, &reverse, &opposite, v))
        return BROKE_THE_LAW;
    const attempt result = try_flat_of(t, opposite, allocator, v);
    cpr_route_free(opposite);
    return result;
}

static attempt try_two_view(const trial *t, const cpr_allocator *allocator, verdict *v) {
    cpr_two_view *view = NULL;
    cpr_error error;
    const cpr_status status = t->engine->two_view(own_route(t), allocator, &view, &error);
    if (status == CPR_BAD_LAYOUT)
        return SUCCEEDED;
    cpr_two_view_free(status == CPR_OK ? view : NULL);
    return finished(status, &error, status == CPR_OK || !view, "two_view", v);
}

static attempt try_group(const trial *t, const cpr_allocator *allocator, verdict *v) {
    cpr_route_group *all = NULL;
    cpr_error error;
    const cpr_status status = t->engine->build_group(t->request, allocator, &all, &error);
    cpr_route_group_free(status == CPR_OK ? all : NULL);
    return finished(status, &error, status == CPR_OK || !all, "build_group", v);
}

/* With an order handed over, which is the natural one. */
static attempt try_fused(const trial *t, const cpr_allocator *allocator, verdict *v) {
    int64_t order[RANKS_MAX];
    for (int64_t i = 0; i < RANKS_MAX; i++)
        order[i] = i;
    const cpr_tensor_ranks tp = {.tp_size = 1, .group_ranks = order};
    cpr_route *route = NULL;
    cpr_error error;
    const cpr_status status = t->engine->build_fused(t->request, &tp, allocator, &route, &error);
    if (status == CPR_BAD_LAYOUT)
        return SUCCEEDED;
    cpr_route_free(status == CPR_OK ? route : NULL);
    return finished(status, &error, status == CPR_OK || !route, "build_fused", v);
}

static attempt try_padded_plan(const trial *t, const cpr_allocator *allocator, verdict *v) {
    const int32_t total = (int32_t)own_route(t)->total_tokens;
    const int32_t entries[] = {0, total / 3, total};
    const cpr_cu_seqlens cu = cpr_cu_seqlens_int32(entries, 3);
    const cpr_geometry geometry = t->request->geometry;
    cpr_padded_plan *plan = NULL;
    cpr_error error;
    const cpr_status status = t->engine->padded_plan(&cu, total, geometry, allocator, &plan, &error);
    cpr_padded_plan_free(status == CPR_OK ? plan : NULL);
    return finished(status, &error, status == CPR_OK || !plan, "padded_plan", v);
}

static attempt try_successors(const trial *t, const cpr_allocator *allocator, verdict *v) {
    const cpr_padding padding = {.padded = t->request->cu_seqlens};
    scratch s = {0};
    int64_t *successors = scratch_int64(&s, own_route(t)->send.rows);
    cpr_error error;
    const cpr_status status =
        successors ? t->engine->successors(&padding, t->request->geometry, t->request->source, allocator,
                                           successors, own_route(t)->send.rows, &error)
                   : CPR_OK;
    scratch_free(&s);
    return finished(status, &error, true, "successors", v);
}

static const struct {
    const char *name;
    try_fn *try;
} entry_points[] = {
    {"the interval builder", try_interval},
    {"the definition builder", try_definition},
    {"the per-token builder", try_per_token},
    {"build_group", try_group},
    {"layout_intervals", try_intervals},
    {"validate", try_validate},
    {"transport_check", try_transport_check},
    {"exchange_host", try_exchange},
    {"flat_route", try_flat},
    {"flat_route of the other direction", try_flat_reversed},
    {"two_view", try_two_view},
    {"build_fused", try_fused},
    {"padded_plan", try_padded_plan},
    {"successors", try_successors},
};

/* Allocation 1 fails, then 2, and so on, until the call needs no more of them. */
static bool try_until_success(const trial *t, try_fn *try, const char *name, verdict *v) {
    for (uint64_t k = 1; k <= ATTEMPTS_MAX; k++) {
        ledger books = {.fail_at = k};
        const cpr_allocator allocator = ledger_allocator(&books);
        const attempt result = try(t, &allocator, v);
        if (!ledger_settled(&books, name, v) || result == BROKE_THE_LAW)
            return false;
        const bool failed_one = books.allocations >= k;
        if (result == SUCCEEDED && failed_one)
            return law_fail(v, "a failed allocation goes unnoticed",
                            "%s succeeded although allocation %" PRIu64 " failed", name, k);
        if (result == RAN_OUT && !failed_one)
            return law_fail(v, "no_memory with memory left", "%s failed after %" PRIu64 " good allocations",
                            name, books.allocations);
        if (result == SUCCEEDED)
            return true;
    }
    return law_fail(v, "allocations without end", "%s made more than %d", name, ATTEMPTS_MAX);
}

static cpr_shard *make_shards(const group *g, scratch *s) {
    cpr_shard *shards = scratch_bytes(s, (size_t)g->size * sizeof *shards);
    if (!shards)
        return NULL;
    for (int64_t r = 0; r < g->size; r++) {
        const int64_t rows = g->routes[r]->send.rows;
        shards[r] = (cpr_shard){.data = scratch_bytes(s, (size_t)rows * ROW_BYTES), .rows = rows};
        if (!shards[r].data)
            return NULL;
    }
    return shards;
}

static void judge_entry_points(const trial *t, verdict *v) {
    for (size_t i = 0; i < sizeof entry_points / sizeof *entry_points; i++)
        if (!try_until_success(t, entry_points[i].try, entry_points[i].name, v))
            return;
}

void judge_no_memory(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_listable(c, v))
        return;
    if (route_case_tokens(c) > TOKENS_MAX || c->geometry.cp_size > RANKS_MAX) {
        law_skip(v, "too much for so many attempts");
        return;
    }
    const cpr_route_request request = subject_request(c);
    group g;
    if (!group_build(&g, engine, &request, v))
        return;
    scratch s = {0};
    cpr_intervals *intervals = NULL;
    cpr_error error;
    const cpr_status status = engine->layout_intervals(&request.cu_seqlens, request.rows, request.geometry,
                                                       request.source, NULL, &intervals, &error);
    const trial t = {engine, &request, &g, intervals, make_shards(&g, &s), make_shards(&g, &s)};
    if (!t.sources || !t.targets)
        subject_no_memory(v);
    else if (call_ok(status, &error, "intervals of a layout", v))
        judge_entry_points(&t, v);
    cpr_intervals_free(intervals);
    scratch_free(&s);
    group_free(&g);
}
