/* SPDX-License-Identifier: Apache-2.0 */
#include "guard.h"
#include "laws/cache_walk.h"
#include "laws/cache_world.h"
#include <stdlib.h>
#include <string.h>

enum {
    KEY_DIRECTION = 1,
    KEY_GROUP = 2, /* size and rank */
    KEY_IDENTITY = 4,
    KEY_ADDRESS = 8, /* of the first entry */
    KEY_OFFSET = 16,
    KEY_SHAPE = 32,
    KEY_VERSION = 64, /* 32 bits; tensors without one raise */
    KEY_DEVICE = 128
};

const guard guards[] = {
    {.name = "attribute",
     .meaning = "a route is on the parameters object; its rows must be as many as the tensor has",
     .in_params = true,
     .checks_rows = true},
    {.name = "attribute, header",
     .meaning = "the same, and the route's header names the group, but not the direction",
     .in_params = true,
     .checks_rows = true,
     .checks_group = true},
    {.name = "id, version",
     .meaning = "id() of the tensor and its _version",
     .key = KEY_DIRECTION | KEY_GROUP | KEY_IDENTITY | KEY_VERSION},
    {.name = "data_ptr, version",
     .meaning = "data_ptr() and _version",
     .key = KEY_DIRECTION | KEY_GROUP | KEY_ADDRESS | KEY_VERSION},
    {.name = "data_ptr, offset, shape, version",
     .meaning = "data_ptr(), storage_offset(), shape, device and _version, in a dictionary that copies share",
     .in_params = true,
     .key = KEY_DIRECTION | KEY_GROUP | KEY_ADDRESS | KEY_OFFSET | KEY_SHAPE | KEY_VERSION | KEY_DEVICE},
    {.name = "held identity, version",
     .meaning = "the tensor object itself, which the route keeps alive, and its _version",
     .in_params = true,
     .one_route = true,
     .holds = true,
     .key = KEY_DIRECTION | KEY_GROUP | KEY_IDENTITY | KEY_VERSION | KEY_DEVICE},
    {.name = "cproute version", .meaning = "CPR_GUARD_VERSION", .ours = CPR_GUARD_VERSION},
    {.name = "cproute content", .meaning = "CPR_GUARD_CONTENT", .ours = CPR_GUARD_CONTENT},
};
const size_t guard_count = sizeof guards / sizeof *guards;

/*------------------------------------------------------------------------------
 * A published key
 *----------------------------------------------------------------------------*/

/* Fields that the guard does not look at are 0. */
typedef struct key {
    uint64_t params, identity, address, version;
    int64_t offset, count, device, device_index;
    cpr_geometry geometry;
    cpr_layout source, target;
} key;
_Static_assert(sizeof(key) == 8 * sizeof(int64_t) + sizeof(cpr_geometry) + 2 * sizeof(cpr_layout),
               "keys compare as bytes");

/* What was built: the boundaries that it was built from, and for whom. */
typedef struct kept {
    key key;
    uint64_t identity;
    int64_t count;
    int64_t entries[CACHE_ENTRIES_MAX];
    cpr_geometry geometry;
    cpr_layout source, target;
} kept;

enum { KEPT_MAX = CACHE_OPS_MAX };

typedef struct run {
    const guard *g;
    world w;
    cpr_cache *cache; /* of this library's guards */
    kept kept[KEPT_MAX];
    int kept_count;
    uint64_t refused;
    guard_outcome outcome; /* of the step at hand */
} run;

typedef struct answer {
    bool refused, hit;
    cpr_route *made;         /* to be freed, or */
    const cpr_route *shared; /* to be released */
} answer;

static key key_of(const run *r, const cache_op *op, const world_tensor *t) {
    const unsigned fields = r->g->key;
    key k;
    memset(&k, 0, sizeof k);
    if (r->g->in_params)
        k.params = r->w.params[op->name];
    if (fields & KEY_IDENTITY)
        k.identity = t->identity;
    if (fields & KEY_ADDRESS)
        k.address = world_address(&r->w, t);
    if (fields & KEY_VERSION)
        k.version = (uint32_t)world_version(&r->w, t);
    if (fields & KEY_OFFSET)
        k.offset = t->offset;
    if (fields & KEY_SHAPE)
        k.count = t->count;
    if (fields & KEY_DEVICE) {
        k.device = t->device;
        k.device_index = t->device_index;
    }
    if (fields & KEY_GROUP)
        k.geometry = op->geometry;
    if (fields & KEY_DIRECTION) {
        k.source = op->source;
        k.target = op->target;
    }
    return k;
}

static kept *find(run *r, const key *k) {
    for (int i = 0; i < r->kept_count; i++)
        if (memcmp(&r->kept[i].key, k, sizeof *k) == 0)
            return &r->kept[i];
    return NULL;
}

static cpr_route *build(const int64_t *entries, int64_t count, cpr_geometry geometry, cpr_layout source,
                        cpr_layout target, int64_t rows) {
    const cpr_route_request request = {
        .cu_seqlens = cpr_cu_seqlens_int64(entries, count),
        .rows = rows,
        .geometry = geometry,
        .source = source,
        .target = target,
    };
    cpr_route *route = NULL;
    cpr_route_build(&request, NULL, &route, NULL);
    return route;
}

static bool readable(const world_tensor *t) {
    return t->dtype == CPR_INT32 || t->dtype == CPR_INT64;
}

static bool right_rows(const run *r, const cache_op *op, const world_tensor *t, const cpr_route *route) {
    int64_t entries[CACHE_ENTRIES_MAX];
    world_entries(&r->w, t, entries);
    const int64_t rows = op->rows != CPR_ROWS_UNCHECKED ? op->rows : t->count > 0 ? entries[t->count - 1] : 0;
    return route->send.rows == rows / op->geometry.cp_size;
}

static answer serve(const run *r, const kept *k, const cache_op *op, const world_tensor *t) {
    answer a = {.hit = true,
                .made = build(k->entries, k->count, k->geometry, k->source, k->target, CPR_ROWS_UNCHECKED)};
    const bool other_group =
        k->geometry.cp_size != op->geometry.cp_size || k->geometry.cp_rank != op->geometry.cp_rank;
    a.refused = !a.made || (r->g->checks_rows && !right_rows(r, op, t, a.made)) ||
                (r->g->checks_group && other_group);
    return a;
}

static void keep(run *r, const kept *k) {
    for (int i = 0; i < r->kept_count && r->g->one_route; i++)
        if (r->kept[i].key.params == k->key.params && r->kept[i].source == k->source &&
            r->kept[i].target == k->target) {
            r->kept[i] = *k;
            return;
        }
    if (r->kept_count < KEPT_MAX)
        r->kept[r->kept_count++] = *k;
}

static answer ask_published(run *r, const cache_op *op, const world_tensor *t) {
    if ((r->g->key & KEY_VERSION) && t->inference)
        return (answer){.refused = true};
    const key wanted = key_of(r, op, t);
    const kept *found = find(r, &wanted);
    if (found)
        return serve(r, found, op, t);
    kept k = {.key = wanted,
              .identity = t->identity,
              .count = t->count,
              .geometry = op->geometry,
              .source = op->source,
              .target = op->target};
    world_entries(&r->w, t, k.entries);
    answer a = {.made =
                    readable(t) ? build(k.entries, k.count, k.geometry, k.source, k.target, op->rows) : NULL};
    a.refused = !a.made;
    if (a.made)
        keep(r, &k);
    return a;
}

/* A copy of the parameters object takes along what is kept in it. */
static void copy_params(run *r, uint64_t from, uint64_t to) {
    for (int i = r->kept_count - 1; i >= 0 && r->g->in_params; i--)
        if (r->kept[i].key.params == from && r->kept_count < KEPT_MAX) {
            r->kept[r->kept_count] = r->kept[i];
            r->kept[r->kept_count++].key.params = to;
        }
}

static bool holds(void *context, uint64_t identity) {
    const run *r = context;
    for (int i = 0; i < r->kept_count && r->g->holds; i++)
        if (r->kept[i].identity == identity)
            return true;
    return false;
}

/*------------------------------------------------------------------------------
 * This library's
 *----------------------------------------------------------------------------*/

static answer ask_ours(run *r, const cache_op *op, const world_view *view) {
    const cpr_lookup lookup = cache_lookup_of(op, &view->tensor, r->g->ours);
    answer a = {0};
    a.refused = cpr_cache_get(r->cache, &lookup, &a.shared, &a.hit, NULL) != CPR_OK;
    return a;
}

static void tensor_dies(void *context, uint64_t identity) {
    const run *r = context;
    if (r->cache)
        cpr_cache_tensor_freed(r->cache, identity);
}

static int64_t entries_kept(const run *r) {
    return r->cache ? cpr_cache_get_stats(r->cache).entries : r->kept_count;
}

/*------------------------------------------------------------------------------
 * Judging
 *----------------------------------------------------------------------------*/

static cpr_route *truth(const cache_op *op, const world_view *view, cpr_error *error) {
    const cpr_lookup lookup = cache_lookup_of(op, &view->tensor, CPR_GUARD_DEFAULT);
    const cpr_route_request request = {
        .cu_seqlens = lookup.tensor.view,
        .rows = lookup.rows,
        .geometry = lookup.geometry,
        .source = lookup.source,
        .target = lookup.target,
    };
    cpr_route *route = NULL;
    cpr_route_build(&request, NULL, &route, error);
    return route;
}

static bool judge_answer(run *r, const cache_op *op, const world_view *view, const answer *a, int64_t step,
                         verdict *v) {
    cpr_error error;
    cpr_route *right = truth(op, view, &error);
    const cpr_route *served = a->made ? a->made : a->shared;
    bool good = true;
    if (a->refused)
        r->refused += right != NULL;
    else if (!served)
        good = true;
    else if (!right)
        good = law_fail(v, "what must be refused is served", "step %lld: right is %s", (long long)step + 1,
                        cpr_status_name(error.status));
    else if (!cpr_route_equal(served, right))
        good = law_fail(v, "a stale route is served", "step %lld", (long long)step + 1);
    cpr_route_free(right);
    return good;
}

static bool step_get(run *r, const cache_op *op, int64_t step, verdict *v) {
    const world_tensor *t = world_named(&r->w, op->name);
    world_view view;
    if (!t)
        return true;
    if (!world_view_make(&r->w, t, false, &view))
        return law_skip(v, "no memory for the law");
    const answer a = r->g->ours ? ask_ours(r, op, &view) : ask_published(r, op, t);
    const bool good = judge_answer(r, op, &view, &a, step, v);
    r->outcome = a.refused ? GUARD_REFUSES : !good ? GUARD_STALE : a.hit ? GUARD_HIT : GUARD_MISS;
    cpr_route_free(a.made);
    cpr_route_release(a.shared);
    world_view_free(&view);
    return good;
}

static bool judge_growth(const run *r, int64_t step, verdict *v) {
    return entries_kept(r) <= GUARD_BOUND ||
           law_fail(v, "it grows without bound", "step %lld: %lld routes are kept", (long long)step + 1,
                    (long long)entries_kept(r));
}

/* 2^32 writes and some: a counter of 32 bits says `value`, one of 64 bits does not. */
static void wrap_version(world *w, const cache_op *op) {
    const world_tensor *t = world_named(w, op->name);
    if (t) {
        uint64_t *version = &w->counters[t->counter].version;
        *version = ((*version >> 32) + 1) << 32 | (uint64_t)op->value;
    }
}

static bool step(run *r, const mutation *m, const cache_op *op, int64_t number, verdict *v) {
    verdict unwanted = {.outcome = LAW_PASSED};
    if (op->kind == CACHE_GET && m->grows) {
        step_get(r, op, number, &unwanted);
        return judge_growth(r, number, v);
    }
    if (op->kind == CACHE_GET)
        return step_get(r, op, number, v);
    if (op->kind == CACHE_SET_VERSION && m->wraps)
        wrap_version(&r->w, op);
    else
        world_step(&r->w, op);
    if (op->kind == CACHE_CLONE && world_named(&r->w, op->name) && op->name != op->other)
        copy_params(r, r->w.params_from[op->name], r->w.params[op->name]);
    return true;
}

/* NULL without memory. */
static run *run_begin(const guard *g, int64_t max_entries) {
    run *r = calloc(1, sizeof *r);
    const cpr_cache_options options = {.max_entries = max_entries};
    if (!r || (g->ours && cpr_cache_create(&options, NULL, &r->cache, NULL) != CPR_OK)) {
        free(r);
        return NULL;
    }
    r->g = g;
    world_begin(&r->w, 0);
    r->w.freed = tensor_dies;
    r->w.held = holds;
    r->w.context = r;
    return r;
}

static void run_end(run *r) {
    world_end(&r->w);
    cpr_cache_free(r->cache);
    free(r);
}

uint64_t guard_judge(const guard *g, const mutation *m, const cache_case *c, verdict *v) {
    run *r = run_begin(g, m->grows ? GUARD_BOUND : CACHE_OPS_DRAWN);
    if (!r) {
        law_skip(v, "no memory for the law");
        return 0;
    }
    bool good = true;
    for (int64_t i = 0; good && i < c->op_count; i++)
        good = step(r, m, &c->ops[i], i, v);
    const uint64_t refused = r->refused;
    run_end(r);
    return refused;
}

void guard_trace(const guard *g, const cache_case *c, guard_outcome *outcomes) {
    static const mutation anything = {.name = "anything"};
    run *r = run_begin(g, c->max_entries);
    memset(outcomes, 0, (size_t)c->op_count * sizeof *outcomes);
    for (int64_t i = 0; r && i < c->op_count; i++) {
        verdict v = {.outcome = LAW_PASSED};
        r->outcome = GUARD_NOT_ASKED;
        step(r, &anything, &c->ops[i], i, &v);
        outcomes[i] = r->outcome;
    }
    if (r)
        run_end(r);
}
