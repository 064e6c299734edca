/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed set of builds whose instructions ci/instructions.py counts under callgrind: one call of `counted` each, which
 * callgrind tells apart by its name. Prints what the engine was compiled with, then the name of each build and how many units
 * of work it did.
 */
#include "cproute/cproute.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct subject subject;

/* Returns units of work: runs found, rows written, entries read. */
typedef int64_t work_fn(const subject *s);

struct subject {
    work_fn *work;
    cpr_route_request request;
    cpr_route *route; /* of the request */
    void *memory;     /* for as many int64 as the route has rows */
};

static int64_t count_runs(const cpr_route *route) {
    return route->send.count + route->recv.count;
}

static int64_t build_one(const subject *s) {
    cpr_route *route;
    if (cpr_route_build(&s->request, NULL, &route, NULL) != CPR_OK)
        return 0;
    const int64_t runs = count_runs(route);
    cpr_route_free(route);
    return runs;
}

static int64_t build_all(const subject *s) {
    cpr_route_group *group;
    if (cpr_route_group_build(&s->request, NULL, &group, NULL) != CPR_OK)
        return 0;
    int64_t runs = 0;
    for (int64_t rank = 0; rank < group->size; rank++)
        runs += count_runs(group->routes[rank]);
    cpr_route_group_free(group);
    return runs;
}

/* Refused by the last of all rules. */
static int64_t validate(const subject *s) {
    cpr_route_request request = s->request;
    cpr_route *route;
    request.tp_size = s->route->total_tokens;
    return cpr_route_build(&request, NULL, &route, NULL) == CPR_NOT_DIVISIBLE_CP_TP ? request.cu_seqlens.count
                                                                                    : 0;
}

static int64_t write_rows(const subject *s, cpr_dtype dtype) {
    const int64_t rows = s->route->recv.rows;
    return cpr_route_rows(s->route, CPR_RECV, dtype, s->memory, rows, NULL) == CPR_OK ? rows : 0;
}

static int64_t write_rows32(const subject *s) {
    return write_rows(s, CPR_INT32);
}

static int64_t write_rows64(const subject *s) {
    return write_rows(s, CPR_INT64);
}

static const struct {
    const char *name;
    work_fn *work;
    cpr_geometry geometry;
    int64_t sequences, chunk; /* mean length of a sequence is 2 * cp_size * chunk */
    int64_t slots;            /* empty ones behind each sequence */
    cpr_layout source, target;
} BUILDS[] = {
    {"build-p8-s64", build_one, {8, 3}, 64, 128, 0, CPR_ZIGZAG, CPR_CONTIGUOUS},
    {"build-p8-s64-back", build_one, {8, 3}, 64, 128, 0, CPR_CONTIGUOUS, CPR_ZIGZAG},
    {"build-p8-s64-last-rank", build_one, {8, 7}, 64, 128, 0, CPR_ZIGZAG, CPR_CONTIGUOUS},
    {"build-p4-s16", build_one, {4, 2}, 16, 768, 0, CPR_ZIGZAG, CPR_CONTIGUOUS},
    {"build-p4-s4096", build_one, {4, 2}, 4096, 3, 0, CPR_ZIGZAG, CPR_CONTIGUOUS},
    {"build-p64-s4096", build_one, {64, 32}, 4096, 1, 0, CPR_ZIGZAG, CPR_CONTIGUOUS},
    {"build-p4-s4096-slots", build_one, {4, 2}, 4096, 3, 2, CPR_ZIGZAG, CPR_CONTIGUOUS},
    {"build-p1024-s1", build_one, {1024, 512}, 1, 4096, 0, CPR_ZIGZAG, CPR_CONTIGUOUS},
    {"build-p1024-s64", build_one, {1024, 512}, 64, 64, 0, CPR_ZIGZAG, CPR_CONTIGUOUS},
    {"build-p16-per-sequence", build_one, {16, 5}, 256, 16, 0, CPR_ZIGZAG, CPR_PER_SEQUENCE_CONTIGUOUS},
    {"build-p16-tails-apart", build_one, {16, 5}, 256, 16, 0, CPR_CONTIGUOUS, CPR_HEADS_THEN_TAILS},
    {"build-p16-flat-zigzag", build_one, {16, 5}, 256, 16, 0, CPR_ZIGZAG, CPR_FLAT_ZIGZAG},
    {"build-p16-same", build_one, {16, 5}, 256, 16, 0, CPR_ZIGZAG, CPR_ZIGZAG},
    {"all-ranks-p8-s64", build_all, {8, 3}, 64, 128, 0, CPR_ZIGZAG, CPR_CONTIGUOUS},
    {"all-ranks-p256-s4", build_all, {256, 3}, 4, 128, 0, CPR_ZIGZAG, CPR_CONTIGUOUS},
    {"validate-s4096", validate, {4, 2}, 4096, 3, 0, CPR_ZIGZAG, CPR_CONTIGUOUS},
    {"rows32-p4-s16", write_rows32, {4, 2}, 16, 768, 0, CPR_ZIGZAG, CPR_CONTIGUOUS},
    {"rows64-p4-s16", write_rows64, {4, 2}, 16, 768, 0, CPR_ZIGZAG, CPR_CONTIGUOUS},
    {"rows32-p4-s4096", write_rows32, {4, 2}, 4096, 3, 0, CPR_ZIGZAG, CPR_CONTIGUOUS},
    {"rows64-p4-s4096", write_rows64, {4, 2}, 4096, 3, 0, CPR_ZIGZAG, CPR_CONTIGUOUS},
    {"rows64-p64-s4096", write_rows64, {64, 32}, 4096, 1, 0, CPR_ZIGZAG, CPR_CONTIGUOUS},
};

/* Callgrind counts inside this function alone. */
__attribute__((noinline)) int64_t counted(const subject *s);
int64_t counted(const subject *s) {
    return s->work(s);
}

#define TEXT(number)   #number
#define NUMBER(number) TEXT(number)
#if defined(__clang__)
#define COMPILER "clang " NUMBER(__clang_major__) "." NUMBER(__clang_minor__) "." NUMBER(__clang_patchlevel__)
#else
#define COMPILER "gcc " NUMBER(__GNUC__) "." NUMBER(__GNUC_MINOR__) "." NUMBER(__GNUC_PATCHLEVEL__)
#endif
#if defined(__x86_64__)
#define PROCESSOR "x86_64"
#elif defined(__aarch64__)
#define PROCESSOR "aarch64"
#else
#define PROCESSOR "another processor"
#endif

static int32_t *boundaries_of(int64_t ranks, int64_t sequences, int64_t chunk, int64_t slots) {
    const int64_t places = sequences * (1 + slots);
    int32_t *cu = malloc((size_t)(places + 1) * sizeof *cu);
    if (!cu)
        exit(1);
    cu[0] = 0;
    for (int64_t i = 0; i < places; i++) {
        const int64_t of_sequence = chunk > 2 ? chunk + i / (1 + slots) % 5 - 2 : chunk;
        cu[i + 1] = cu[i] + (i % (1 + slots) == 0 ? (int32_t)(2 * ranks * of_sequence) : 0);
    }
    return cu;
}

/* Returns the units of work. */
static int64_t run_build(size_t number) {
    const cpr_geometry geometry = BUILDS[number].geometry;
    const int64_t sequences = BUILDS[number].sequences, slots = BUILDS[number].slots;
    int32_t *cu = boundaries_of(geometry.cp_size, sequences, BUILDS[number].chunk, slots);
    subject s = {
        .work = BUILDS[number].work,
        .request = {.cu_seqlens = cpr_cu_seqlens_int32(cu, sequences * (1 + slots) + 1),
                    .rows = CPR_ROWS_UNCHECKED,
                    .geometry = geometry,
                    .source = BUILDS[number].source,
                    .target = BUILDS[number].target},
    };
    int64_t units = 0;
    if (cpr_route_build(&s.request, NULL, &s.route, NULL) == CPR_OK) {
        s.memory = malloc((size_t)s.route->recv.rows * sizeof(int64_t));
        units = s.memory ? counted(&s) : 0;
        free(s.memory);
        cpr_route_free(s.route);
    }
    free(cu);
    return units;
}

int main(void) {
    puts(COMPILER ", " PROCESSOR ", " COUNTED_FLAGS);
    for (size_t i = 0; i < sizeof BUILDS / sizeof BUILDS[0]; i++) {
        const int64_t units = run_build(i);
        printf("%s %" PRId64 "\n", BUILDS[i].name, units);
        if (units == 0)
            return 1;
    }
    return 0;
}
