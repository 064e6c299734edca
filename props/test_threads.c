/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header promises that any number of threads may call anything at once. Every thread judges every law, all of them read
 * one shared route and call all that there is for a cache on one; ThreadSanitizer is the judge of the rest. Without cmocka, which keeps its state in globals.
 */
#include "kit/runner.h"
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, CASES = 100, EXPANSIONS = 200, CACHE_ROUNDS = 100 };

typedef struct worker {
    pthread_t thread;
    uint64_t number;
    const cpr_route *shared;
    cpr_cache *cache;
    const char *failed; /* what failed, NULL if nothing did */
} worker;

static const char *first_failing_law(uint64_t seed) {
    const run_options options = {.seed = seed, .cases = CASES, .in_process = true};
    for (size_t i = 0; i < law_count; i++)
        if (run_law(&laws[i], &options).failed)
            return laws[i].id;
    return NULL;
}

static bool shared_route_reads_well(const cpr_route *route) {
    int64_t rows[8];
    for (int i = 0; i < EXPANSIONS; i++)
        if (!cpr_route_validate(route, NULL, NULL) ||
            cpr_route_rows(route, CPR_RECV, CPR_INT64, rows, 8, NULL) != CPR_OK)
            return false;
    return true;
}

static const int32_t OFFSETS[] = {0, 4, 16};

static bool asks_well(cpr_cache *cache, const cpr_lookup *lookup) {
    const cpr_route *route;
    const cpr_packed_params params = {.q = lookup->tensor, .has_q = true};
    cpr_tensor resolved;
    if (cpr_cache_get(cache, lookup, &route, NULL, NULL) != CPR_OK)
        return false;
    const bool right = route->total_tokens == 16;
    cpr_route_release(route);
    return right && cpr_cache_prebuild(cache, lookup, NULL) == CPR_OK &&
           cpr_cache_resolve(cache, &params, 16, 2, CPR_ZIGZAG, lookup->guard, &resolved, NULL, NULL) ==
               CPR_OK;
}

/* All threads at the same two tensors. */
static bool shared_cache_works(cpr_cache *cache, uint64_t number) {
    for (uint64_t i = number; i < number + CACHE_ROUNDS; i++) {
        const uint64_t handle = 1 + i % 2;
        const cpr_lookup lookup = {
            .tensor = {.handle = handle,
                       .storage = handle,
                       .stride = 1,
                       .generation = i % 3,
                       .has_generation = true,
                       .view = cpr_cu_seqlens_int32(OFFSETS, 3)},
            .rows = 16,
            .geometry = {.cp_size = 2, .cp_rank = 0},
            .source = CPR_ZIGZAG,
            .target = CPR_CONTIGUOUS,
            .guard = i % 5 == 0 ? CPR_GUARD_CONTENT : CPR_GUARD_VERSION,
            .use = i % 7 == 0 ? CPR_USE_CAPTURE : CPR_USE_EAGER,
        };
        if (!asks_well(cache, &lookup) ||
            cpr_cache_set_limits(cache, 8 + (int64_t)(i % 32), 0, NULL) != CPR_OK ||
            cpr_cache_get_stats(cache).entries < 0)
            return false;
        cpr_cache_capture_released(cache, handle);
        cpr_cache_invalidate(cache, handle);
        cpr_cache_tensor_freed(cache, handle);
        if (i % 11 == 0)
            cpr_cache_clear(cache);
    }
    return true;
}

static void *work(void *argument) {
    worker *w = argument;
    w->failed = !shared_route_reads_well(w->shared)        ? "the shared route"
                : !shared_cache_works(w->cache, w->number) ? "the shared cache"
                                                           : first_failing_law(w->number);
    return NULL;
}

int main(void) {
    const cpr_route_request request = {
        .cu_seqlens = cpr_cu_seqlens_int32(OFFSETS, 3),
        .rows = CPR_ROWS_UNCHECKED,
        .geometry = {.cp_size = 2, .cp_rank = 0},
        .source = CPR_ZIGZAG,
        .target = CPR_CONTIGUOUS,
    };
    const cpr_cache_options options = {.max_entries = 8};
    cpr_route *shared;
    cpr_cache *cache;
    if (cpr_route_build(&request, NULL, &shared, NULL) != CPR_OK ||
        cpr_cache_create(&options, NULL, &cache, NULL) != CPR_OK)
        return 1;

    worker workers[THREADS];
    int started = 0, failures = 0;
    for (; started < THREADS; started++) {
        workers[started] = (worker){.number = (uint64_t)started, .shared = shared, .cache = cache};
        if (pthread_create(&workers[started].thread, NULL, work, &workers[started]) != 0)
            break;
    }
    failures += started < THREADS;
    for (int i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].failed) {
            printf("thread %d: %s failed\n", i, workers[i].failed);
            failures++;
        }
    }
    cpr_cache_free(cache);
    cpr_route_free(shared);
    printf("%d threads, %zu laws, %d cases each: %s\n", THREADS, law_count, CASES,
           failures ? "FAILED" : "passed");
    return failures != 0;
}
