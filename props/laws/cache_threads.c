/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_walk.h"
#include "laws.h"
#include "subject.h"
#include <inttypes.h>
#include <pthread.h>

enum { THREADS = 8, IDENTITIES_EACH = 1 << 20, ROOM = 4096 };

/* AFL++ takes what depends on the order of threads for instability, so with it they run one after another; what happens at
 * once is for libFuzzer and ThreadSanitizer. */
#ifdef __AFL_COMPILER
static const bool at_once = false;
#else
static const bool at_once = true;
#endif

typedef struct worker {
    pthread_t thread;
    const cache_case *c;
    cache_walk_options options;
    verdict v;
} worker;

static void *work(void *argument) {
    worker *w = argument;
    cache_walk(w->c, &w->options, &w->v);
    return NULL;
}

/* Returns how many ran. */
static int run(worker workers[THREADS], const cache_case *c, const cache_engine *engine, cpr_cache *cache) {
    int started = 0;
    for (; started < THREADS; started++) {
        worker *w = &workers[started];
        w->c = c;
        w->v = (verdict){.outcome = LAW_PASSED, .reason = ""};
        w->options = (cache_walk_options){.engine = engine,
                                          .watch = WATCH_ANSWERS,
                                          .shared = cache,
                                          .first_identity = (uint64_t)started * IDENTITIES_EACH};
        if (pthread_create(&w->thread, NULL, work, w) != 0)
            break;
        if (!at_once)
            pthread_join(w->thread, NULL);
    }
    for (int i = 0; at_once && i < started; i++)
        pthread_join(workers[i].thread, NULL);
    return started;
}

/* Does what is built depend on the script alone, and not on who comes first? */
static bool builds_are_certain(const cache_case *c) {
    for (int64_t i = 0; i < c->op_count; i++)
        if (c->ops[i].kind == CACHE_PREBUILD)
            return false;
    return c->guard != CPR_GUARD_DEFAULT;
}

static cpr_cache *make_cache(void) {
    const cpr_cache_options options = {.max_entries = ROOM};
    cpr_cache *cache = NULL;
    cpr_cache_create(&options, NULL, &cache, NULL);
    return cache;
}

/* What one thread alone would build. */
static cpr_cache_stats alone(const cache_case *c, const cache_engine *engine, verdict *v) {
    cpr_cache_stats stats = {0};
    cpr_cache *cache = make_cache();
    if (cache) {
        cache_walk(c, &(cache_walk_options){.engine = engine, .watch = WATCH_ANSWERS, .shared = cache}, v);
        stats = cpr_cache_get_stats(cache);
    }
    cpr_cache_free(cache);
    return stats;
}

/* Contents are the same for all and identities are everybody's own. */
static void judge_builds(const cache_case *c, const cpr_cache_stats *one, const cpr_cache_stats *all,
                         int threads, verdict *v) {
    const uint64_t times = c->guard == CPR_GUARD_CONTENT ? 1 : (uint64_t)threads;
    if (all->builds != times * one->builds || all->checks != times * one->checks)
        law_fail(v, "threads build otherwise than one alone",
                 "%d threads: %" PRIu64 " builds and %" PRIu64 " checks; one alone: %" PRIu64 " and %" PRIu64,
                 threads, all->builds, all->checks, one->builds, one->checks);
}

void judge_cache_threads(const cache_case *c, const cache_engine *engine, verdict *v) {
    worker workers[THREADS];
    cpr_cache *cache = make_cache();
    if (!cache) {
        subject_no_memory(v);
        return;
    }
    const int threads = run(workers, c, engine, cache);
    const cpr_cache_stats all = cpr_cache_get_stats(cache);
    cpr_cache_free(cache);
    for (int i = 0; i < threads; i++)
        if (workers[i].v.outcome == LAW_FAILED)
            law_fail(v, workers[i].v.reason, "thread %d: %.500s", i, workers[i].v.details);
    if (v->outcome == LAW_PASSED && builds_are_certain(c)) {
        const cpr_cache_stats one = alone(c, engine, v);
        judge_builds(c, &one, &all, threads, v);
    }
}
