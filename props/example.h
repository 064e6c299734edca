/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests by hand-written example share: the builders, an allocator that counts, and comparing with literals. */
#ifndef CPROUTE_PROPS_EXAMPLE_H
#define CPROUTE_PROPS_EXAMPLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cproute/cproute.h"

#define LENGTH_OF(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

typedef cpr_status build_fn(const cpr_route_request *request, const cpr_allocator *allocator,
                            cpr_route **route, cpr_error *error);

static build_fn *const BUILDERS[] = {cpr_route_build, cpr_route_build_definition, cpr_route_build_per_token};
enum { BUILDER_COUNT = sizeof BUILDERS / sizeof BUILDERS[0] };

/* Counts what is held; fails allocation number fail_at, counted from 0. */
typedef struct ledger {
    int64_t allocations;
    int64_t fail_at;
    size_t held;
} ledger;

static inline void *ledger_allocate(void *context, size_t size) {
    ledger *book = context;
    assert_true(size > 0);
    if (book->allocations++ == book->fail_at)
        return NULL;
    book->held += size;
    return malloc(size);
}

static inline void ledger_release(void *context, void *memory, size_t size) {
    ledger *book = context;
    assert_non_null(memory);
    assert_true(size <= book->held);
    book->held -= size;
    free(memory);
}

static inline cpr_allocator ledger_allocator(ledger *book) {
    *book = (ledger){.fail_at = -1};
    return (cpr_allocator){ledger_allocate, ledger_release, book};
}

static inline cpr_route_request request_of(const int64_t *boundaries, int64_t count, cpr_geometry geometry,
                                           cpr_layout source, cpr_layout target) {
    return (cpr_route_request){
        .cu_seqlens = cpr_cu_seqlens_int64(boundaries, count),
        .rows = CPR_ROWS_UNCHECKED,
        .geometry = geometry,
        .source = source,
        .target = target,
    };
}

/* A route that must build. */
static inline cpr_route *route_of(const int64_t *boundaries, int64_t count, cpr_geometry geometry,
                                  cpr_layout source, cpr_layout target) {
    const cpr_route_request request = request_of(boundaries, count, geometry, source, target);
    cpr_route *route = NULL;
    assert_int_equal(cpr_route_build(&request, NULL, &route, NULL), CPR_OK);
    return route;
}

static inline void expect_error(const cpr_error *error, cpr_status status, int64_t index, int64_t got,
                                int64_t wanted) {
    assert_string_equal(cpr_status_name(error->status), cpr_status_name(status));
    assert_int_equal(error->index, index);
    assert_int_equal(error->got, got);
    assert_int_equal(error->wanted, wanted);
}

/* Of a call: what it returned is what it wrote. */
static inline void expect_outcome(cpr_status returned, const cpr_error *error, cpr_status status,
                                  int64_t index, int64_t got, int64_t wanted) {
    expect_error(error, status, index, got, wanted);
    assert_string_equal(cpr_status_name(returned), cpr_status_name(error->status));
}

static inline void expect_numbers(const int64_t *got, const int64_t *wanted, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(got[i], wanted[i]);
}

static inline void expect_runs(const cpr_run_list *list, const cpr_run *wanted, int64_t count) {
    assert_int_equal(list->count, count);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(list->runs[i].peer, wanted[i].peer);
        assert_int_equal(list->runs[i].source_row, wanted[i].source_row);
        assert_int_equal(list->runs[i].target_row, wanted[i].target_row);
        assert_int_equal(list->runs[i].length, wanted[i].length);
    }
}

#endif
