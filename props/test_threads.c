/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header promises that any number of threads may call anything at once. Every thread judges every law, and all
 * of them read one shared route; ThreadSanitizer is the judge of the rest. Without cmocka, which keeps its state in globals.
 */
#include "kit/runner.h"
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, CASES = 100, EXPANSIONS = 200 };

typedef struct worker {
    pthread_t thread;
    uint64_t number;
    const cpr_route *shared;
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

static void *work(void *argument) {
    worker *w = argument;
    w->failed = shared_route_reads_well(w->shared) ? first_failing_law(w->number) : "the shared route";
    return NULL;
}

int main(void) {
    const int32_t offsets[] = {0, 4, 16};
    const cpr_route_request request = {
        .cu_seqlens = cpr_cu_seqlens_int32(offsets, 3),
        .rows = CPR_ROWS_UNCHECKED,
        .geometry = {.cp_size = 2, .cp_rank = 0},
        .source = CPR_ZIGZAG,
        .target = CPR_CONTIGUOUS,
    };
    cpr_route *shared;
    if (cpr_route_build(&request, NULL, &shared, NULL) != CPR_OK)
        return 1;

    worker workers[THREADS];
    int started = 0, failures = 0;
    for (; started < THREADS; started++) {
        workers[started] = (worker){.number = (uint64_t)started, .shared = shared};
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
    cpr_route_free(shared);
    printf("%d threads, %zu laws, %d cases each: %s\n", THREADS, law_count, CASES,
           failures ? "FAILED" : "passed");
    return failures != 0;
}
