/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_walk.h"
#include "compare.h"
#include "subject.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDENTITIES = 2 * CACHE_OPS_MAX + CACHE_NAMES_MAX, ATTEMPTS = 64 };

/* A captured graph: what was asked, and the route in it. */
typedef struct graph {
    bool captured;
    cache_op op;
    const cpr_route *route;
} graph;

typedef struct walk {
    const cache_case *c;
    const cache_walk_options *options;
    verdict *v;
    cpr_guard guard;
    bool predicts; /* the model knows what is kept: it does not count bytes */
    int64_t max_entries, max_bytes;
    int64_t step;
    world w;
    model m;
    ledger books;
    cpr_cache *cache;
    graph graphs[CACHE_NAMES_MAX];
    uint8_t last_graph;
    const cpr_route *handed[CACHE_NAMES_MAX]; /* the latest of each name, not given back yet */
    int32_t held[IDENTITIES];
    bool held_wrongly;
    cache_observation seen;
} walk;

/*------------------------------------------------------------------------------
 * Complaints
 *----------------------------------------------------------------------------*/

static bool watches(const walk *k, unsigned what) {
    return (k->options->watch & what) != 0;
}

/* Fails the law if it watches that. Returns whether to go on. */
static bool complain(const walk *k, unsigned what, const char *reason, const char *details) {
    char line[200];
    if (!watches(k, what))
        return true;
    cache_op_format(k->c, &k->c->ops[k->step], line, sizeof line);
    return law_fail(k->v, reason, "step %" PRId64 ", %s: %s", k->step + 1, line, details);
}

static void error_text(const cpr_error *error, char text[96]) {
    snprintf(text, 96, "%s %" PRId64 " | %" PRId64 " | %" PRId64, cpr_status_name(error->status),
             error->index, error->got, error->wanted);
}

static bool errors_same(const cpr_error *a, const cpr_error *b) {
    return a->status == b->status && a->index == b->index && a->got == b->got && a->wanted == b->wanted;
}

static bool complain_of_errors(const walk *k, unsigned what, const cpr_error *got, const cpr_error *wanted) {
    char details[240], a[96], b[96];
    error_text(got, a);
    error_text(wanted, b);
    snprintf(details, sizeof details, "the cache says %s, right is %s", a, b);
    return complain(k, what, "a wrong error, or none, or one too many", details);
}

/*------------------------------------------------------------------------------
 * Identities that the cache holds
 *----------------------------------------------------------------------------*/

static void hold(void *context, uint64_t handle) {
    ((walk *)context)->held[handle % IDENTITIES]++;
}

static void let_go(void *context, uint64_t handle) {
    walk *k = context;
    k->held_wrongly = k->held_wrongly || --k->held[handle % IDENTITIES] < 0;
}

static void tensor_dies(void *context, uint64_t identity) {
    walk *k = context;
    k->options->engine->tensor_freed(k->cache, identity);
    model_freed(&k->m, identity);
    k->held_wrongly = k->held_wrongly || k->held[identity % IDENTITIES] != 0;
}

/*------------------------------------------------------------------------------
 * Calls, each allocation failing first where the law wants that
 *----------------------------------------------------------------------------*/

typedef cpr_status call_fn(walk *k, void *call, cpr_error *error);

static bool stats_same(const cpr_cache_stats *a, const cpr_cache_stats *b) {
    return a->hits == b->hits && a->misses == b->misses && a->builds == b->builds &&
           a->bypasses == b->bypasses && a->checks == b->checks && a->evictions == b->evictions &&
           a->entries == b->entries && a->captured == b->captured && a->bytes == b->bytes;
}

/* Once an allocation has failed. Returns whether to try the next. */
static bool failed_well(const walk *k, const cpr_cache_stats *before, uint64_t live_blocks) {
    const cpr_cache_stats after = cpr_cache_get_stats(k->cache);
    if (!stats_same(before, &after))
        return complain(k, WATCH_NO_MEMORY, "a failed lookup changes the cache", "its statistics differ");
    if (k->books.live_blocks != live_blocks)
        return complain(k, WATCH_NO_MEMORY, "a failed lookup keeps memory", "the number of blocks differs");
    return true;
}

/* What is told where memory is lacking: lack of memory is the last thing that is wrong with a request. A cache that is too small for
 * a capture overflows too, and is asked only once there is something to keep. */
static bool told_in_order(const cpr_error *told, const cpr_error *otherwise) {
    const cpr_error no_memory = {CPR_NO_MEMORY, -1, 0, 0};
    const bool wrong_request = otherwise->status > CPR_NO_MEMORY && otherwise->status <= CPR_BAD_CP_SIZE;
    return (wrong_request && errors_same(told, otherwise)) ||
           ((!wrong_request || otherwise->status == CPR_OVERFLOW) && errors_same(told, &no_memory));
}

/* The call goes on to the end once none of its allocations failed. */
static cpr_error call(walk *k, call_fn *function, void *arguments) {
    cpr_error error, told[ATTEMPTS];
    uint64_t failed = 0;
    cpr_status status;
    for (;; failed++) {
        const cpr_cache_stats before = cpr_cache_get_stats(k->cache);
        const uint64_t live_blocks = k->books.live_blocks;
        k->books.allocations = 0;
        k->books.fail_at = watches(k, WATCH_NO_MEMORY) && failed < ATTEMPTS ? failed + 1 : 0;
        status = function(k, arguments, &error);
        const bool went_through = k->books.fail_at == 0 || k->books.allocations < k->books.fail_at;
        k->books.fail_at = 0;
        if (went_through)
            break;
        told[failed] = error;
        if (!failed_well(k, &before, live_blocks))
            return error;
    }
    if (status != error.status)
        complain(k, WATCH_ANSWERS, "status and error disagree", cpr_status_name(status));
    for (uint64_t i = 0; i < failed; i++)
        if (!told_in_order(&told[i], &error))
            complain_of_errors(k, WATCH_NO_MEMORY, &told[i], &error);
    return error;
}

/* What *hit is before a call: in turns, so that whatever is written on failure shows. */
static bool hit_before(const walk *k) {
    return k->step % 2 == 0;
}

typedef struct get_call {
    cpr_lookup lookup;
    const cpr_route *route; /* NULL on failure */
    bool hit;
} get_call;

static cpr_status call_get(walk *k, void *arguments, cpr_error *error) {
    static const cpr_route untouched;
    get_call *g = arguments;
    g->route = &untouched;
    g->hit = hit_before(k);
    const cpr_status status = k->options->engine->get(k->cache, &g->lookup, &g->route, &g->hit, error);
    if (status == CPR_OK)
        return status;
    if (g->route != &untouched)
        complain(k, WATCH_ANSWERS, "an output is touched on failure", "the route");
    if (g->hit != hit_before(k))
        complain(k, WATCH_ANSWERS, "an output is touched on failure", "whether it was a hit");
    g->route = NULL;
    return status;
}

static cpr_status call_prebuild(walk *k, void *arguments, cpr_error *error) {
    get_call *g = arguments;
    return k->options->engine->prebuild(k->cache, &g->lookup, error);
}

typedef struct resolve_call {
    cpr_packed_params params;
    const cache_op *op;
    cpr_tensor resolved;
    bool hit;
} resolve_call;

static cpr_status call_resolve(walk *k, void *arguments, cpr_error *error) {
    enum { NOBODY = -1 };
    resolve_call *r = arguments;
    r->resolved = (cpr_tensor){.handle = (uint64_t)NOBODY};
    r->hit = hit_before(k);
    const cpr_status status =
        k->options->engine->resolve(k->cache, &r->params, r->op->rows, r->op->geometry.cp_size, r->op->source,
                                    k->guard, &r->resolved, &r->hit, error);
    if (status != CPR_OK && r->resolved.handle != (uint64_t)NOBODY)
        complain(k, WATCH_VERDICTS, "an output is touched on failure", "the resolved tensor");
    if (status != CPR_OK && r->hit != hit_before(k))
        complain(k, WATCH_VERDICTS, "an output is touched on failure", "whether it was a hit");
    return status;
}

/*------------------------------------------------------------------------------
 * Judging a lookup
 *----------------------------------------------------------------------------*/

/* Without predictions: may the version guard be wrong about this tensor at all? */
static bool could_be_blind(const walk *k, const world_tensor *t, const cpr_lookup *lookup) {
    return lookup->guard != CPR_GUARD_CONTENT && world_untracked(&k->w, t) > 0;
}

/* A route that may have been found blindly is built from what a framework could read: nothing to compare with. */
static bool judge_route(walk *k, const world_tensor *t, const get_call *got, const cpr_route *oracle) {
    cpr_route *made = NULL;
    cpr_lookup readable = got->lookup;
    world_view view = {0};
    if (!oracle) {
        if (!world_view_make(&k->w, t, false, &view))
            return subject_no_memory(k->v);
        readable.tensor = view.tensor;
        model_build(&readable, &made);
        world_view_free(&view);
        oracle = made;
    }
    bool good = true;
    if (!oracle)
        good = complain(k, WATCH_ANSWERS, "a stale route is served", "these contents have no route");
    else if (!cpr_route_equal(got->route, oracle))
        good = complain(k, WATCH_ANSWERS, "a stale route is served", "it is not the route of these contents");
    cpr_route_free(made);
    return good;
}

static bool judge_without_model(walk *k, const world_tensor *t, const get_call *got, const cpr_error *error) {
    cpr_route *oracle;
    const bool eager = got->lookup.use == CPR_USE_EAGER || got->lookup.geometry.cp_size == 1;
    if (!got->lookup.tensor.view.data || could_be_blind(k, t, &got->lookup) || !eager)
        return true;
    const cpr_error wanted = model_build(&got->lookup, &oracle);
    bool good = errors_same(error, &wanted) || complain_of_errors(k, WATCH_ANSWERS, error, &wanted);
    if (good && oracle && got->route)
        good = judge_route(k, t, got, oracle);
    cpr_route_free(oracle);
    return good;
}

static bool judge_hit(const walk *k, unsigned what, bool hit, bool right) {
    if (hit && !right)
        return complain(k, what, "a hit where nothing right was kept", "it should have been a miss");
    if (!hit && right)
        return complain(k, what, "a needless miss", "a route for just this was kept");
    return true;
}

static bool judge_with_model(walk *k, const world_tensor *t, const get_call *got, const cpr_error *error,
                             const model_answer *right) {
    const unsigned captures = got->lookup.use == CPR_USE_EAGER ? 0 : WATCH_CAPTURES;
    if (!errors_same(error, &right->error))
        return complain_of_errors(k, WATCH_ANSWERS | captures, error, &right->error);
    if (error->status != CPR_OK)
        return true;
    if (!judge_hit(k, WATCH_HITS | captures, got->hit, right->hit))
        return false;
    if (right->nothing)
        return !got->route ||
               complain(k, WATCH_ANSWERS, "a route where there is nothing to exchange", "one rank");
    if (!got->route)
        return complain(k, WATCH_ANSWERS, "no route is handed out", "it succeeded");
    const bool known = right->hit && !right->stale && right->entry->route == got->route;
    if (right->entry)
        right->entry->route = got->route;
    return known || right->excused || judge_route(k, t, got, right->oracle);
}

/* Runs are read, so that ASan sees a route that is gone. */
static void give_back(const cpr_route *route) {
    volatile int64_t rows = 0;
    if (route)
        for (int64_t i = 0; i < route->send.count; i++)
            rows = rows + route->send.runs[i].length;
    cpr_route_release(route);
}

/*------------------------------------------------------------------------------
 * Steps
 *----------------------------------------------------------------------------*/

cpr_lookup cache_lookup_of(const cache_op *op, const cpr_tensor *tensor, cpr_guard guard) {
    return (cpr_lookup){
        .tensor = *tensor,
        .rows = op->rows,
        .geometry = op->geometry,
        .source = op->source,
        .target = op->target,
        .tp_size = op->tp_size,
        .guard = guard,
    };
}

static bool step_lookup(walk *k, uint8_t name, const cache_op *op, cpr_use use, const cpr_route *captured) {
    const world_tensor *t = world_named(&k->w, name);
    world_view view;
    if (!world_view_make(&k->w, t, op->blind, &view))
        return subject_no_memory(k->v);
    get_call got = {.lookup = cache_lookup_of(op, &view.tensor, k->guard)};
    got.lookup.use = use;
    got.lookup.captured = captured;
    k->seen.error = call(k, call_get, &got);
    k->seen.hit = got.hit && k->seen.error.status == CPR_OK;
    bool good = k->v->outcome != LAW_FAILED;
    if (good && k->predicts) {
        model_answer right = model_get(&k->m, &k->w, t, &got.lookup);
        k->seen.stale = k->seen.hit && right.stale;
        good = judge_with_model(k, t, &got, &k->seen.error, &right);
        cpr_route_free(right.oracle);
    } else if (good) {
        good = judge_without_model(k, t, &got, &k->seen.error);
    }
    world_view_free(&view);
    k->seen.route = got.route;
    return good;
}

static void keep_route(walk *k, uint8_t name, const cpr_route *route) {
    give_back(k->handed[name]);
    k->handed[name] = route;
}

static bool step_get(walk *k, const cache_op *op) {
    const bool good = step_lookup(k, op->name, op, CPR_USE_EAGER, NULL);
    keep_route(k, op->name, k->seen.route);
    return good;
}

static bool step_capture(walk *k, const cache_op *op) {
    const bool good = step_lookup(k, op->name, op, CPR_USE_CAPTURE, NULL);
    if (k->seen.error.status != CPR_OK)
        return good;
    give_back(k->graphs[op->name].route);
    k->graphs[op->name] = (graph){.captured = true, .op = *op, .route = k->seen.route};
    k->last_graph = op->name;
    return good;
}

static bool step_replay(walk *k, uint8_t name) {
    const graph *g = &k->graphs[name];
    if (!world_named(&k->w, name)) {
        k->seen.error = (cpr_error){CPR_CAPTURE_LAYOUT_CHANGE, -1, 0, 0};
        return true;
    }
    const bool good = step_lookup(k, name, &g->op, CPR_USE_REPLAY, g->route);
    give_back(k->seen.route);
    k->seen.route = NULL;
    return good;
}

static bool step_prebuild(walk *k, const cache_op *op) {
    const world_tensor *t = world_named(&k->w, op->name);
    world_view view;
    if (!world_view_make(&k->w, t, op->blind, &view))
        return subject_no_memory(k->v);
    get_call got = {.lookup = cache_lookup_of(op, &view.tensor, k->guard)};
    k->seen.error = call(k, call_prebuild, &got);
    bool good = k->v->outcome != LAW_FAILED;
    if (good && k->predicts) {
        model_answer right = model_prebuild(&k->m, &k->w, t, &got.lookup);
        if (!errors_same(&k->seen.error, &right.error))
            good = complain_of_errors(k, WATCH_ANSWERS, &k->seen.error, &right.error);
        cpr_route_free(right.oracle);
    }
    world_view_free(&view);
    return good;
}

typedef struct resolve_views {
    world_view items[MODEL_TENSORS];
} resolve_views;

static bool make_views(const walk *k, const world_tensor *const tensors[MODEL_TENSORS],
                       resolve_views *views) {
    memset(views, 0, sizeof *views);
    for (int i = 0; i < MODEL_TENSORS; i++)
        if (tensors[i] && !world_view_make(&k->w, tensors[i], false, &views->items[i]))
            return subject_no_memory(k->v);
    return true;
}

static bool judge_resolve(walk *k, const resolve_call *r, const model_params *tensors,
                          const world_tensor *chosen) {
    cpr_lookup lookup =
        cache_lookup_of(r->op, tensors->q_padded ? &r->params.q_padded : &r->params.q, k->guard);
    lookup.target = lookup.source;
    lookup.geometry.cp_rank = 0; /* of which resolving takes none */
    const model_answer right = model_resolve(&k->m, &k->w, tensors, &r->params, &lookup);
    if (right.excused)
        return true;
    if (!errors_same(&k->seen.error, &right.error))
        return complain_of_errors(k, WATCH_VERDICTS, &k->seen.error, &right.error);
    if (right.error.status != CPR_OK)
        return true;
    if (r->resolved.handle != chosen->identity)
        return complain(k, WATCH_VERDICTS, "another tensor is resolved", "padded goes before plain");
    return judge_hit(k, WATCH_VERDICTS, r->hit, right.hit);
}

static bool step_resolve(walk *k, const cache_op *op) {
    const model_params tensors = {
        .q = world_named(&k->w, op->name),
        .q_padded = world_named(&k->w, op->q_padded),
        .kv = world_named(&k->w, op->kv),
        .kv_padded = world_named(&k->w, op->kv_padded),
    };
    const world_tensor *const all[MODEL_TENSORS] = {tensors.q, tensors.q_padded, tensors.kv,
                                                    tensors.kv_padded};
    const world_tensor *chosen = tensors.q_padded ? tensors.q_padded : tensors.q;
    resolve_views views;
    bool good = make_views(k, all, &views);
    resolve_call r = {
        .op = op,
        .params = {.q = views.items[0].tensor,
                   .q_padded = views.items[1].tensor,
                   .kv = views.items[2].tensor,
                   .kv_padded = views.items[3].tensor,
                   .has_q = tensors.q,
                   .has_q_padded = tensors.q_padded,
                   .has_kv = tensors.kv,
                   .has_kv_padded = tensors.kv_padded},
    };
    if (good) {
        k->seen.error = call(k, call_resolve, &r);
        k->seen.hit = r.hit && k->seen.error.status == CPR_OK;
        good = k->v->outcome != LAW_FAILED;
    }
    if (good && !chosen) {
        const cpr_error wanted = {CPR_EMPTY_CU_SEQLENS, -1, 0, 1};
        good = errors_same(&k->seen.error, &wanted) ||
               complain_of_errors(k, WATCH_VERDICTS, &k->seen.error, &wanted);
    } else if (good && k->predicts) {
        good = judge_resolve(k, &r, &tensors, chosen);
    }
    for (int i = 0; i < MODEL_TENSORS; i++)
        world_view_free(&views.items[i]);
    return good;
}

static void step_limit(walk *k, int64_t max_entries) {
    k->max_entries = max_entries;
    model_limit(&k->m, max_entries);
    k->options->engine->set_limits(k->cache, max_entries, k->max_bytes, NULL);
}

static bool step(walk *k, const cache_op *op) {
    const world_tensor *t = world_named(&k->w, op->name);
    const uint8_t replayed = op->kind == CACHE_REPLAY && op->name == CACHE_NO_NAME ? k->last_graph : op->name;
    switch (op->kind) {
    case CACHE_GET:
        return (k->seen.skipped = !t) || step_get(k, op);
    case CACHE_CAPTURE:
        return (k->seen.skipped = !t) || step_capture(k, op);
    case CACHE_REPLAY:
        return (k->seen.skipped = !k->graphs[replayed].captured) || step_replay(k, replayed);
    case CACHE_PREBUILD:
        return (k->seen.skipped = !t) || step_prebuild(k, op);
    case CACHE_RESOLVE:
        return step_resolve(k, op);
    case CACHE_INVALIDATE:
        if (t) {
            k->options->engine->invalidate(k->cache, t->identity);
            model_invalidate(&k->m, t->identity);
        }
        return true;
    case CACHE_RELEASE:
        if (t) {
            k->options->engine->capture_released(k->cache, t->identity);
            model_release(&k->m, t->identity);
        }
        return true;
    case CACHE_CLEAR:
        if (k->options->shared)
            return true;
        k->options->engine->clear(k->cache);
        model_clear(&k->m);
        return true;
    case CACHE_CAP:
        if (!k->options->shared)
            step_limit(k, op->value);
        return true;
    default:
        world_step(&k->w, op);
        return true;
    }
}

/*------------------------------------------------------------------------------
 * After a step
 *----------------------------------------------------------------------------*/

static bool judge_bounds(const walk *k) {
    const cpr_cache_stats *s = &k->seen.stats;
    char details[160];
    snprintf(details, sizeof details,
             "%" PRId64 " entries (%" PRId64 " captured) of %" PRId64 ", %" PRId64 " bytes of %" PRId64,
             s->entries, s->captured, k->max_entries, s->bytes, k->max_bytes);
    if (s->entries > k->max_entries && s->entries > s->captured)
        return complain(k, WATCH_BOUNDS, "more entries than the bound", details);
    if (k->max_bytes > 0 && s->bytes > k->max_bytes && s->entries > s->captured)
        return complain(k, WATCH_BOUNDS, "more bytes than the bound", details);
    if (s->bytes > (int64_t)k->books.live_bytes)
        return complain(k, WATCH_BOUNDS, "bytes are counted that are not there", details);
    if (k->held_wrongly)
        return complain(k, WATCH_BOUNDS, "an identity is held wrongly",
                        "after its tensor died, or dropped twice");
    return true;
}

/* A binding keeps exactly those tensors alive whose identity is trusted. */
static bool judge_held(const walk *k) {
    int32_t trusting[IDENTITIES] = {0};
    char details[96];
    if (!k->predicts)
        return true;
    model_count_trust(&k->m, trusting, IDENTITIES);
    for (int i = 0; i < IDENTITIES; i++)
        if (k->held[i] != trusting[i]) {
            snprintf(details, sizeof details, "identity %d is held %d times and trusted by %d entries", i,
                     (int)k->held[i], (int)trusting[i]);
            return complain(k, WATCH_BOUNDS, "an identity is held wrongly", details);
        }
    return true;
}

static bool judge_counts(const walk *k) {
    const cpr_cache_stats *s = &k->seen.stats;
    const model *m = &k->m;
    char details[400];
    if (!k->predicts ||
        (s->hits == m->hits && s->misses == m->misses && s->builds == m->builds &&
         s->bypasses == m->bypasses && s->checks == m->checks && s->evictions == m->evictions &&
         s->entries == m->count && s->captured == model_captured(m)))
        return true;
    snprintf(details, sizeof details,
             "hits %" PRIu64 "/%" PRIu64 " misses %" PRIu64 "/%" PRIu64 " builds %" PRIu64 "/%" PRIu64
             " bypasses %" PRIu64 "/%" PRIu64 " checks %" PRIu64 "/%" PRIu64 " evictions %" PRIu64 "/%" PRIu64
             " entries %" PRId64 "/%d captured %" PRId64 "/%" PRId64,
             s->hits, m->hits, s->misses, m->misses, s->builds, m->builds, s->bypasses, m->bypasses,
             s->checks, m->checks, s->evictions, m->evictions, s->entries, m->count, s->captured,
             model_captured(m));
    return complain(k, WATCH_HITS, "the counts are wrong (cache/model)", details);
}

static bool judge_want(const walk *k, const cache_op *op) {
    const cpr_status status = k->seen.error.status;
    char details[160];
    snprintf(details, sizeof details, "it was %s",
             status != CPR_OK ? cpr_status_name(status)
             : k->seen.hit    ? "a hit"
                              : "a miss");
    if (op->kind == CACHE_COUNT && k->seen.stats.entries > op->value)
        return complain(k, WATCH_WANTS, "more entries than wanted", "");
    if (op->want == CACHE_WANT_ANYTHING || op->want == CACHE_WANT_CASE)
        return true;
    const bool good = !k->seen.skipped && (op->want == CACHE_WANT_ERROR  ? status == op->want_status
                                           : op->want == CACHE_WANT_HIT  ? status == CPR_OK && k->seen.hit
                                           : op->want == CACHE_WANT_MISS ? status == CPR_OK && !k->seen.hit
                                                                         : status == CPR_OK);
    return good || complain(k, WATCH_WANTS, "a step does not end as wanted", details);
}

static bool walk_step(walk *k, const cache_op *op) {
    k->seen = (cache_observation){.step = k->step, .op = op};
    const bool good = step(k, op);
    k->seen.stats = cpr_cache_get_stats(k->cache);
    if (k->options->observe)
        k->options->observe(k->options->context, &k->seen);
    return good && judge_bounds(k) && judge_held(k) && judge_counts(k) && judge_want(k, op);
}

static bool walk_begin(walk *k) {
    if (k->options->shared) {
        k->cache = k->options->shared;
        return true;
    }
    const cpr_cache_options options = {
        .max_entries = k->max_entries, .max_bytes = k->max_bytes, .hold = hold, .drop = let_go, .context = k};
    const cpr_allocator allocator = ledger_allocator(&k->books);
    cpr_error error;
    return cpr_cache_create(&options, &allocator, &k->cache, &error) == CPR_OK || subject_no_memory(k->v);
}

static void walk_end(walk *k) {
    world_end(&k->w);
    if (!k->options->shared)
        cpr_cache_free(k->cache);
    for (int i = 0; i < CACHE_NAMES_MAX; i++) {
        give_back(k->graphs[i].route);
        give_back(k->handed[i]);
    }
    if (!watches(k, WATCH_BOUNDS))
        return;
    if (k->v->outcome != LAW_FAILED)
        ledger_settled(&k->books, "the cache", k->v);
    for (int i = 0; i < IDENTITIES; i++)
        if (k->held[i] != 0)
            law_fail(k->v, "an identity is held for ever", "held %d times too often", k->held[i]);
}

void cache_walk(const cache_case *c, const cache_walk_options *options, verdict *v) {
    walk *k = calloc(1, sizeof *k);
    if (!k) {
        subject_no_memory(v);
        return;
    }
    k->c = c;
    k->options = options;
    k->v = v;
    k->guard = c->guard;
    k->max_entries = c->max_entries;
    k->max_bytes = c->max_bytes;
    k->predicts = c->max_bytes == 0 && !options->shared;
    world_begin(&k->w, options->first_identity);
    k->w.freed = tensor_dies;
    k->w.context = k;
    model_begin(&k->m, c->max_entries);
    if (walk_begin(k)) {
        bool good = true;
        for (k->step = 0; good && k->step < c->op_count; k->step++)
            good = walk_step(k, &c->ops[k->step]);
        walk_end(k);
    }
    model_end(&k->m);
    free(k);
}
