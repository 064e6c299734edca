/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic CP: one process life in which every micro-batch has a cp_size and boundaries of its own. Boundaries are rewritten in
 * place, in one tensor that keeps its length and its total, so that nothing but its contents tells a stale route; the cache
 * stands between. At last one rank is given the route of the micro-batch before: all ranks must refuse.
 */
#include "tests.h"
#include "trip.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MICRO_BATCHES = 40, QUICK_MICRO_BATCHES = 6, MOST_SIZES = 8, ROW_BYTES = 40 };

typedef struct world {
    const stage *whole;
    stage parts[MOST_SIZES]; /* this rank's group of every size */
    int64_t sizes[MOST_SIZES], size_count;
    pack *pack; /* the one tensor */
    cpr_cache *cache;
    uint64_t generation, random;
} world;

/* 1, 2, 4, ..., and all ranks; 3 for groups that do not divide. */
static void choose_sizes(world *w) {
    const int64_t ranks = w->whole->cp_size;
    for (int64_t size = 1; size <= ranks && w->size_count < MOST_SIZES - 2; size *= 2)
        w->sizes[w->size_count++] = size;
    if (ranks > 3)
        w->sizes[w->size_count++] = 3;
    if (ranks & (ranks - 1))
        w->sizes[w->size_count++] = ranks;
}

/* Ranks that are left over have no group of that size. */
static bool open_parts(world *w) {
    choose_sizes(w);
    for (int64_t i = 0; i < w->size_count; i++) {
        const int64_t size = w->sizes[i], rank = w->whole->first, full = w->whole->cp_size / size * size;
        stage_step(w->whole, "ncclCommSplit into groups of %" PRId64, size);
        if (!stage_split(w->whole, rank < full ? (int)(rank / size) : -1, &w->parts[i]))
            return false;
    }
    return true;
}

static void close_parts(world *w) {
    for (int64_t i = 0; i < w->size_count; i++)
        stage_close(&w->parts[i]);
}

/* Lengths that all sizes divide, drawn anew; the total stays. All ranks draw alike. */
static void rewrite_boundaries(world *w) {
    int64_t unit = 2;
    for (int64_t i = 0; i < w->size_count; i++)
        unit *= (unit / 2) % w->sizes[i] == 0 ? 1 : w->sizes[i];
    pack_redraw(w->pack, "rewritten in place", unit, &w->random);
    w->generation++;
}

static cpr_lookup lookup_of(const world *w, const stage *part, cpr_layout source, cpr_layout target,
                            cpr_guard guard) {
    return (cpr_lookup){
        .tensor = {.handle = 1,
                   .storage = 1,
                   .stride = 1,
                   .generation = w->generation,
                   .has_generation = true,
                   .view = cpr_cu_seqlens_int64(w->pack->cu, w->pack->entries)},
        .rows = pack_tokens(w->pack),
        .geometry = {part->cp_size, part->first},
        .source = source,
        .target = target,
        .guard = guard,
    };
}

/* From the cache; for a group of one, where there is nothing to exchange, made by hand. */
static bool get_route(world *w, const stage *part, cpr_guard guard, const cpr_route **cached,
                      cpr_route **made) {
    const cpr_lookup lookup = lookup_of(w, part, CPR_ZIGZAG, CPR_CONTIGUOUS, guard);
    cpr_error error;
    bool hit;
    if (!stage_cpr(w->whole, cpr_cache_get(w->cache, &lookup, cached, &hit, &error), &error, "cpr_cache_get"))
        return false;
    if (!*cached)
        *made = build_route(part, w->pack, part->first, CPR_ZIGZAG, CPR_CONTIGUOUS);
    return *cached || *made;
}

/* As trip_make, with a route of the cache's. */
static bool convert_with(const stage *part, const cpr_route *route, pack *p, uint64_t salt) {
    trip t;
    const trip_plan plan = {p, CPR_ZIGZAG, CPR_CONTIGUOUS, ROW_BYTES, 0};
    bool good = trip_open(&t, part, &plan);
    if (good) {
        cpr_error error;
        cpr_cuda_exchange_free(t.conversion.exchange);
        t.conversion.exchange = NULL;
        good = stage_cpr(
            part,
            cpr_cuda_exchange_create(part->group, route, ROW_BYTES, NULL, &t.conversion.exchange, &error),
            &error, "cpr_cuda_exchange_create with the cache's route");
    }
    good = good && trip_there_and_back(&t, salt);
    trip_close(&t);
    return good;
}

static bool convert_by_route(world *w, const stage *part, int64_t number) {
    const cpr_route *cached = NULL;
    cpr_route *made = NULL;
    const bool good =
        get_route(w, part, number % 2 ? CPR_GUARD_VERSION : CPR_GUARD_CONTENT, &cached, &made) &&
        convert_with(part, cached ? cached : made, w->pack, (uint64_t)number);
    cpr_route_release(cached);
    cpr_route_free(made);
    return good;
}

static bool convert_without_route(world *w, const stage *part, int64_t number) {
    const trip_plan plan = {w->pack, CPR_ZIGZAG, CPR_CONTIGUOUS, ROW_BYTES, 0};
    return trip_make(part, &plan, (uint64_t)number);
}

static bool play_micro_batch(world *w, int64_t number) {
    rewrite_boundaries(w);
    const stage *part = &w->parts[random_next(&w->random) % (uint64_t)w->size_count];
    if (!part->group)
        return true;
    stage_step(w->whole, "micro-batch %" PRId64 " with cp_size %" PRId64, number, part->cp_size);
    return part->direct ? convert_without_route(w, part, number) : convert_by_route(w, part, number);
}

/* As a framework would that keeps a route for as long as the tensor is the same. */
static bool stale_is_refused(world *w) {
    const stage *s = w->whole;
    if (s->cp_size < 2)
        return true;
    stage_step(s, "a stale route on one rank");
    rewrite_boundaries(w);
    cpr_route *stale = build_route(s, w->pack, s->first, CPR_ZIGZAG, CPR_CONTIGUOUS);
    rewrite_boundaries(w);
    cpr_route *right = build_route(s, w->pack, s->first, CPR_ZIGZAG, CPR_CONTIGUOUS);
    const int64_t culprit = stage_culprit(s);
    cpr_cuda_exchange *exchange = NULL;
    cpr_error error;
    const cpr_status status = cpr_cuda_exchange_create(s->group, s->first == culprit ? stale : right,
                                                       ROW_BYTES, NULL, &exchange, &error);
    cpr_route_free(stale);
    cpr_route_free(right);
    cpr_cuda_exchange_free(exchange);
    return (status == CPR_DIVERGENT_METADATA && error.index == culprit) ||
           stage_fail(s,
                      "a stale route on rank %" PRId64 " of %" PRId64 ": %s, index %" PRId64
                      "; wanted divergent_metadata with its rank",
                      culprit, s->cp_size, cpr_status_name(status), error.index);
}

bool test_dynamic_cp(stage *s) {
    world w = {.whole = s, .pack = malloc(sizeof *w.pack), .random = s->options->seed};
    cpr_error error;
    const cpr_cache_options cache_options = {.max_entries = 8};
    bool good =
        (w.pack || stage_fail(s, "no memory for a pack")) &&
        stage_cpr(s, cpr_cache_create(&cache_options, NULL, &w.cache, &error), &error, "cpr_cache_create") &&
        open_parts(&w);
    const int64_t batches = s->options->quick ? QUICK_MICRO_BATCHES : MICRO_BATCHES;
    for (int64_t number = 0; good && number < batches; number++)
        good = play_micro_batch(&w, number);
    good = good && (s->direct || stale_is_refused(&w));
    close_parts(&w);
    cpr_cache_free(w.cache);
    free(w.pack);
    return good;
}

bool test_direct_split(stage *s) {
    s->direct = true;
    return test_dynamic_cp(s);
}
