/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "group.h"
#include "laws.h"
#include "oracle.h"
#include "paint.h"
#include "subject.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { UNTOUCHED_BYTE = 0xa5 }; /* in the paint's range, so rows of it must be told apart by their place */
#define UNTOUCHED_LAYOUT CPR_LAYOUT_COUNT

typedef struct trip {
    const engine_under_test *engine;
    const route_case *c;
    int64_t ranks, rows;
    size_t row_bytes;
    group there, back;
    cpr_shard *start, *away, *home;
    scratch memory;
} trip;

/* What the exchange is called with; mistakes are made in copies of these. */
typedef struct call {
    const cpr_route **routes;
    cpr_shard *sources, *targets;
    size_t row_bytes;
} call;

/* Which details of an error the contract states. */
typedef enum precision { STATUS_AND_INDEX, STATUS_AND_GOT, EVERY_DETAIL } precision;

static cpr_shard *make_shards(trip *t, cpr_layout layout) {
    cpr_shard *shards = scratch_bytes(&t->memory, (size_t)t->ranks * sizeof *shards);
    if (!shards)
        return NULL;
    for (int64_t r = 0; r < t->ranks; r++) {
        const size_t bytes = (size_t)t->rows * t->row_bytes;
        shards[r] = (cpr_shard){scratch_bytes(&t->memory, bytes), t->rows, layout};
        if (!shards[r].data)
            return NULL;
        memset(shards[r].data, UNTOUCHED_BYTE, bytes);
    }
    return shards;
}

static bool paint_shards(trip *t, cpr_shard *shards, cpr_layout layout, verdict *v) {
    const oracle_pack pack = oracle_pack_of(t->c);
    int64_t *tokens = scratch_int64(&t->memory, t->rows);
    if (!tokens)
        return subject_no_memory(v);
    for (int64_t r = 0; r < t->ranks; r++) {
        oracle_tokens(&pack, layout, r, tokens);
        paint_rows(tokens, t->rows, t->row_bytes, shards[r].data);
    }
    return true;
}

static bool same_shards(const trip *t, const cpr_shard *got, const cpr_shard *wanted, cpr_layout layout,
                        const char *reason, verdict *v) {
    for (int64_t r = 0; r < t->ranks; r++) {
        if (got[r].layout != layout)
            return law_fail(v, "a shard is tagged with the wrong layout",
                            "rank %" PRId64 ": %s, should be %s", r, cpr_layout_name(got[r].layout),
                            cpr_layout_name(layout));
        const int64_t at = paint_first_difference(got[r].data, wanted[r].data, t->rows, t->row_bytes);
        if (at < t->rows)
            return law_fail(v, reason,
                            "rank %" PRId64 " row %" PRId64 " of %zu bytes: first byte %d, should be %d", r,
                            at, t->row_bytes, ((const uint8_t *)got[r].data)[(size_t)at * t->row_bytes],
                            ((const uint8_t *)wanted[r].data)[(size_t)at * t->row_bytes]);
    }
    return true;
}

static bool travel(trip *t, verdict *v) {
    cpr_shard *wanted = make_shards(t, t->c->target);
    if (!wanted)
        return subject_no_memory(v);
    if (!paint_shards(t, t->start, t->c->source, v) || !paint_shards(t, wanted, t->c->target, v))
        return false;
    cpr_error error;
    cpr_status status = t->engine->exchange_host(group_routes(&t->there), t->ranks, t->row_bytes, t->start,
                                                 t->away, NULL, &error);
    if (!call_ok(status, &error, "exchange", v) ||
        !same_shards(t, t->away, wanted, t->c->target, "an exchange moves rows wrongly", v))
        return false;
    status = t->engine->exchange_host(group_routes(&t->back), t->ranks, t->row_bytes, t->away, t->home, NULL,
                                      &error);
    return call_ok(status, &error, "exchange back", v) &&
           same_shards(t, t->home, t->start, t->c->source, "there and back is not the start", v);
}

/* Refusals. */

static bool call_make(trip *t, call *made, verdict *v) {
    const size_t ranks = (size_t)t->ranks;
    made->row_bytes = t->row_bytes;
    made->routes = scratch_bytes(&t->memory, ranks * sizeof *made->routes);
    made->sources = scratch_bytes(&t->memory, ranks * sizeof *made->sources);
    made->targets = make_shards(t, UNTOUCHED_LAYOUT);
    if (!made->routes || !made->sources || !made->targets)
        return subject_no_memory(v);
    memcpy(made->routes, t->there.routes, ranks * sizeof *made->routes);
    memcpy(made->sources, t->start, ranks * sizeof *made->sources);
    return true;
}

static bool targets_untouched(const trip *t, const call *made, const char *what, verdict *v) {
    for (int64_t r = 0; r < t->ranks; r++) {
        const uint8_t *bytes = made->targets[r].data;
        if (made->targets[r].layout != UNTOUCHED_LAYOUT)
            return law_fail(v, "an output is touched on failure", "%s: layout of target %" PRId64, what, r);
        for (size_t i = 0; i < (size_t)t->rows * t->row_bytes; i++)
            if (bytes[i] != UNTOUCHED_BYTE)
                return law_fail(v, "an output is touched on failure", "%s: byte %zu of target %" PRId64, what,
                                i, r);
    }
    return true;
}

static bool refused(const trip *t, const call *made, cpr_error wanted, precision how, const char *what,
                    verdict *v) {
    cpr_error error;
    const cpr_status status =
        t->engine->exchange_host((const cpr_route *const *)made->routes, t->ranks, made->row_bytes,
                                 made->sources, made->targets, NULL, &error);
    if (how != EVERY_DETAIL) {
        wanted.wanted = error.wanted;
        if (how == STATUS_AND_INDEX)
            wanted.got = error.got;
    }
    return call_refused(status, &error, wanted, what, v) && targets_untouched(t, made, what, v);
}

static bool refuses_wrong_tag(trip *t, int64_t rank, verdict *v) {
    call made;
    if (!call_make(t, &made, v))
        return false;
    const cpr_layout right = t->c->source, wrong = (cpr_layout)((right + 1) % CPR_LAYOUT_COUNT);
    made.sources[rank].layout = wrong;
    return refused(t, &made, (cpr_error){CPR_LAYOUT_MISMATCH, rank, wrong, right}, EVERY_DETAIL,
                   "a shard of another layout", v);
}

static bool refuses_wrong_rows(trip *t, int64_t rank, bool in_targets, verdict *v) {
    call made;
    if (!call_make(t, &made, v))
        return false;
    cpr_shard *shard = in_targets ? &made.targets[rank] : &made.sources[rank];
    const int64_t wrong = salt_below(t->c->salt, 3, 2) && t->rows > 0 ? t->rows - 1 : t->rows + 1;
    shard->rows = wrong;
    if (!refused(t, &made, (cpr_error){CPR_TOTAL_MISMATCH, rank, wrong, t->rows}, EVERY_DETAIL,
                 in_targets ? "a target of wrong rows" : "a source of wrong rows", v))
        return false;
    return shard->rows == wrong ||
           law_fail(v, "an output is touched on failure", "rows of shard %" PRId64, rank);
}

static bool refuses_other_rank(trip *t, int64_t rank, verdict *v) {
    call made;
    if (t->ranks == 1)
        return true;
    if (!call_make(t, &made, v))
        return false;
    const int64_t other = (rank + 1) % t->ranks;
    made.routes[rank] = t->there.routes[other];
    return refused(t, &made, (cpr_error){CPR_BAD_RANK, rank, other, rank}, EVERY_DETAIL,
                   "the route of another rank", v);
}

/* Rank 0 sets the measure: if it is the odd one out, rank 1 is the first that differs. */
static bool refuses_stranger(trip *t, int64_t rank, const cpr_route *stranger, const char *what, verdict *v) {
    call made;
    if (!call_make(t, &made, v))
        return false;
    made.routes[rank] = stranger;
    const cpr_error wanted = {CPR_DIVERGENT_METADATA, rank == 0 ? 1 : rank, 0, 0};
    return refused(t, &made, wanted, STATUS_AND_INDEX, what, v);
}

static bool refuses_swapped_direction(trip *t, int64_t rank, verdict *v) {
    if (t->ranks == 1 || t->c->source == t->c->target)
        return true;
    return refuses_stranger(t, rank, t->back.routes[rank], "a route of the other direction", v);
}

/* Twice as long boundaries: other tokens. Inner boundaries dropped: the same number of tokens. */
static bool refuses_other_boundaries(trip *t, int64_t rank, bool doubled, verdict *v) {
    const route_case *c = t->c;
    const int64_t total = t->ranks * t->rows;
    int64_t *cu = scratch_int64(&t->memory, c->entries);
    if (!cu)
        return subject_no_memory(v);
    bool inner = false;
    for (int64_t i = 0; i < c->entries; i++) {
        inner |= c->cu[i] != 0 && c->cu[i] != total;
        cu[i] = doubled ? 2 * c->cu[i] : i == 0 ? 0 : total;
    }
    if (t->ranks == 1 || total == 0 || (!doubled && !inner))
        return true;
    cpr_route_request request = subject_request(c);
    request.cu_seqlens = cpr_cu_seqlens_int64(cu, c->entries);
    request.rows = CPR_ROWS_UNCHECKED;
    request.geometry.cp_rank = rank;
    cpr_route *stranger = NULL;
    cpr_error error;
    const cpr_status status = t->engine->build[BY_INTERVALS](&request, NULL, &stranger, &error);
    const bool good = call_ok(status, &error, "the builder with other boundaries", v) &&
                      refuses_stranger(t, rank, stranger, "a route of other boundaries", v);
    cpr_route_free(stranger);
    return good;
}

/* One field of a route changed at a time, as if its rank had been built with other arguments. */
static bool refuses_relabelled(trip *t, int64_t rank, verdict *v) {
    if (t->ranks == 1)
        return true;
    const cpr_route *route = t->there.routes[rank];
    cpr_route source = *route, target = *route, tokens = *route, digest = *route;
    source.source = (cpr_layout)((route->source + 1) % CPR_LAYOUT_COUNT);
    target.target = (cpr_layout)((route->target + 1) % CPR_LAYOUT_COUNT);
    tokens.total_tokens += t->ranks;
    digest.boundaries_digest ^= 1;
    return refuses_stranger(t, rank, &source, "a route of another source layout", v) &&
           refuses_stranger(t, rank, &target, "a route of another target layout", v) &&
           refuses_stranger(t, rank, &tokens, "a route of another number of tokens", v) &&
           refuses_stranger(t, rank, &digest, "a route of another digest", v);
}

static bool refuses_split_mismatch(trip *t, int64_t rank, verdict *v) {
    call made;
    if (t->rows == 0)
        return true;
    if (!call_make(t, &made, v))
        return false;
    cpr_route damaged = *t->there.routes[rank];
    const size_t bytes = (size_t)damaged.send.count * sizeof(cpr_run);
    cpr_run *runs = scratch_bytes(&t->memory, bytes);
    if (!runs)
        return subject_no_memory(v);
    memcpy(runs, damaged.send.runs, bytes);
    cpr_run *longer = &runs[salt_below(t->c->salt, 4, (uint64_t)damaged.send.count)];
    longer->length++;
    damaged.send.runs = runs;
    damaged.send.rows++;
    made.routes[rank] = &damaged;

    int64_t right = 0;
    for (int64_t i = 0; i < damaged.send.count; i++)
        right += t->there.routes[rank]->send.runs[i].peer == longer->peer
                     ? t->there.routes[rank]->send.runs[i].length
                     : 0;
    const cpr_error wanted = {CPR_SPLIT_MISMATCH, rank * t->ranks + longer->peer, right + 1, right};
    return refused(t, &made, wanted, EVERY_DETAIL, "a message of another size on each side", v);
}

static bool refuses_overflow(trip *t, verdict *v) {
    call made;
    if (t->rows < 2)
        return true;
    if (!call_make(t, &made, v))
        return false;
    made.row_bytes = SIZE_MAX;
    return refused(t, &made, (cpr_error){CPR_OVERFLOW, -1, t->rows, 0}, STATUS_AND_GOT,
                   "rows too wide for the memory", v);
}

static bool refuse_all(trip *t, verdict *v) {
    const int64_t rank = (int64_t)salt_below(t->c->salt, 5, (uint64_t)t->ranks);
    return refuses_wrong_tag(t, rank, v) && refuses_wrong_rows(t, rank, false, v) &&
           refuses_wrong_rows(t, rank, true, v) && refuses_other_rank(t, rank, v) &&
           refuses_swapped_direction(t, rank, v) && refuses_relabelled(t, rank, v) &&
           refuses_other_boundaries(t, rank, true, v) && refuses_other_boundaries(t, rank, false, v) &&
           refuses_split_mismatch(t, rank, v) && refuses_overflow(t, v);
}

static void judge_trip(trip *t, verdict *v) {
    t->start = make_shards(t, t->c->source);
    t->away = make_shards(t, UNTOUCHED_LAYOUT);
    t->home = make_shards(t, UNTOUCHED_LAYOUT);
    if (!t->start || !t->away || !t->home)
        subject_no_memory(v);
    else if (travel(t, v))
        refuse_all(t, v);
}

void judge_round_trip(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_listable(c, v))
        return;
    const cpr_route_request request = subject_request(c), reverse = request_reversed(&request);
    const oracle_pack pack = oracle_pack_of(c);
    trip t = {.engine = engine,
              .c = c,
              .ranks = c->geometry.cp_size,
              .rows = oracle_rows(&pack),
              .row_bytes = paint_row_bytes(c->salt)};
    if (!group_build(&t.there, engine, &request, v))
        return;
    if (group_build(&t.back, engine, &reverse, v)) {
        judge_trip(&t, v);
        group_free(&t.back);
    }
    scratch_free(&t.memory);
    group_free(&t.there);
}
