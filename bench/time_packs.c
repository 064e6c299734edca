/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a build costs that is asked for straight from C; bench/compare_upstream.py calls it.
 *
 *     time_packs CP_SIZE SEQUENCES TOKENS    equal sequences, rank CP_SIZE / 2, zigzag to contiguous
 *
 * Prints one line of JSON with the medians, in nanoseconds of processor time, of
 *   runs          cpr_route_build in memory that is there, and nothing given back
 *   runs_malloc   cpr_route_build and cpr_route_free with malloc and free
 *   rows          as runs, and the split sizes and int64 rows of both sides, where they are no identity
 */
#define _POSIX_C_SOURCE 200809L
#include "cproute/cproute.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 31 };
static const double NS_OF_ROUND = 2e6;

/* Memory that was touched before. */
typedef struct arena {
    char *memory;
    size_t size, used;
} arena;

static void *take(void *context, size_t size) {
    arena *a = context;
    const size_t begin = a->used;
    const size_t end = begin + (size + 63) / 64 * 64;
    if (end > a->size)
        return NULL;
    a->used = end;
    return a->memory + begin;
}

static void give_back(void *context, void *memory, size_t size) {
    (void)context;
    (void)memory;
    (void)size;
}

typedef struct subject {
    cpr_route_request request;
    arena memory;
    int64_t *rows, *splits;
} subject;

/* False if the request is refused. */
typedef bool build_fn(subject *s);

static bool build_in_arena(subject *s, cpr_route **route) {
    const cpr_allocator allocator = {take, give_back, &s->memory};
    s->memory.used = 0;
    return cpr_route_build(&s->request, &allocator, route, NULL) == CPR_OK;
}

static bool build_runs(subject *s) {
    cpr_route *route;
    return build_in_arena(s, &route);
}

static bool build_runs_with_malloc(subject *s) {
    cpr_route *route;
    if (cpr_route_build(&s->request, NULL, &route, NULL) != CPR_OK)
        return false;
    cpr_route_free(route);
    return true;
}

static bool expand(const subject *s, const cpr_route *route, cpr_side side, const cpr_run_list *list) {
    return cpr_route_splits(route, side, s->splits, route->geometry.cp_size, NULL) == CPR_OK &&
           (list->identity || cpr_route_rows(route, side, CPR_INT64, s->rows, list->rows, NULL) == CPR_OK);
}

static bool build_rows(subject *s) {
    cpr_route *route;
    return build_in_arena(s, &route) && expand(s, route, CPR_SEND, &route->send) &&
           expand(s, route, CPR_RECV, &route->recv);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double time_of(subject *s, build_fn *build, int64_t repetitions) {
    const double begun = now();
    for (int64_t i = 0; i < repetitions; i++)
        if (!build(s))
            exit(1);
    return (now() - begun) / (double)repetitions;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(subject *s, build_fn *build) {
    double times[ROUNDS];
    const double once = time_of(s, build, 3);
    const int64_t repetitions = 1 + (int64_t)(NS_OF_ROUND / (once + 1));
    for (int i = 0; i < ROUNDS; i++)
        times[i] = time_of(s, build, repetitions);
    qsort(times, ROUNDS, sizeof times[0], ascending);
    return times[ROUNDS / 2];
}

static bool prepare(subject *s, int64_t ranks, int64_t sequences, int64_t tokens) {
    int32_t *cu = malloc((size_t)(sequences + 1) * sizeof *cu);
    if (!cu)
        return false;
    for (int64_t i = 0; i <= sequences; i++)
        cu[i] = (int32_t)(tokens / sequences * i);
    s->request = (cpr_route_request){
        .cu_seqlens = cpr_cu_seqlens_int32(cu, sequences + 1),
        .rows = CPR_ROWS_UNCHECKED,
        .geometry = {ranks, ranks / 2},
        .source = CPR_ZIGZAG,
        .target = CPR_CONTIGUOUS,
    };
    cpr_route *route;
    if (cpr_route_build(&s->request, NULL, &route, NULL) != CPR_OK)
        return false;
    s->memory.size = sizeof *route + (size_t)(route->send.count + route->recv.count) * sizeof(cpr_run) + 256;
    s->memory.memory = calloc(1, s->memory.size);
    s->rows = calloc((size_t)route->send.rows + 1, sizeof *s->rows);
    s->splits = calloc((size_t)ranks, sizeof *s->splits);
    cpr_route_free(route);
    return s->memory.memory && s->rows && s->splits;
}

int main(int argc, char **argv) {
    const int64_t ranks = argc == 4 ? strtoll(argv[1], NULL, 10) : 0;
    const int64_t sequences = argc == 4 ? strtoll(argv[2], NULL, 10) : 0;
    const int64_t tokens = argc == 4 ? strtoll(argv[3], NULL, 10) : 0;
    if (ranks < 1 || sequences < 1 || tokens < sequences || tokens > INT32_MAX) {
        fputs("usage: time_packs CP_SIZE SEQUENCES TOKENS\n", stderr);
        return 2;
    }
    subject s = {0};
    if (!prepare(&s, ranks, sequences, tokens)) {
        fputs("time_packs: this pack cannot be routed\n", stderr);
        return 1;
    }
    printf("{\"runs\": %.1f, \"runs_malloc\": %.1f, \"rows\": %.1f}\n", median_of(&s, build_runs),
           median_of(&s, build_runs_with_malloc), median_of(&s, build_rows));
    free((void *)(uintptr_t)s.request.cu_seqlens.data);
    free(s.memory.memory);
    free(s.rows);
    free(s.splits);
    return 0;
}
