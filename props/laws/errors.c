/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "laws.h"
#include "ledger.h"
#include "subject.h"
#include <inttypes.h>

enum { RANKS_MAX = 16 };

/* What is not a route, and must still be there after a failure. */
static cpr_route untouched_route(void) {
    return (cpr_route){.total_tokens = -77};
}

static bool left_untouched(bool untouched, const char *name, verdict *v) {
    return untouched || law_fail(v, "an output is touched on failure", "%s wrote its output", name);
}

static bool refuses(const route_case *c, const engine_under_test *engine, builder by,
                    const cpr_route_request *request, cpr_error *error, verdict *v) {
    const char *name = builder_names[by];
    /* In half of the cases there is no memory: its lack is told last. */
    ledger books = {.fail_at = c->salt % 2};
    const cpr_allocator allocator = ledger_allocator(&books);
    cpr_route untouched = untouched_route(), *route = &untouched;
    const cpr_status status = engine->build[by](request, &allocator, &route, error);
    const bool good = as_expected(c, status, error, name, v) && left_untouched(route == &untouched, name, v);
    if (status == CPR_OK)
        cpr_route_free(route);
    return ledger_settled(&books, name, v) && good;
}

/* The error pointer may be NULL. */
static bool refuses_without_details(const route_case *c, const engine_under_test *engine, builder by,
                                    const cpr_route_request *request, verdict *v) {
    cpr_route untouched = untouched_route(), *route = &untouched;
    const cpr_status status = engine->build[by](request, NULL, &route, NULL);
    if (status != c->expected.status)
        return law_fail(v, "the status depends on whether details are asked for", "%s: %s, %s",
                        builder_names[by], cpr_status_name(status), cpr_status_name(c->expected.status));
    return left_untouched(route == &untouched, builder_names[by], v);
}

static bool refused_by_all(const route_case *c, const engine_under_test *engine,
                           const cpr_route_request *request, cpr_error *first, verdict *v) {
    for (int by = 0; by < BUILDER_COUNT; by++) {
        cpr_error error;
        if (!refuses(c, engine, (builder)by, request, &error, v) ||
            !refuses_without_details(c, engine, (builder)by, request, v))
            return false;
        if (by == 0 && first->status == CPR_OK)
            *first = error;
        if (!same_error(&error, builder_names[by], first, "the first rank and builder",
                        "an error is not the same everywhere", v))
            return false;
    }
    return true;
}

static bool is_about_rank(cpr_status status) {
    return status == CPR_BAD_CP_SIZE || status == CPR_BAD_RANK;
}

static bool refused_on_every_rank(const route_case *c, const engine_under_test *engine,
                                  const cpr_route_request *request, cpr_error *first, verdict *v) {
    const int64_t ranks = request->geometry.cp_size;
    if (!refused_by_all(c, engine, request, first, v))
        return false;
    if (is_about_rank(c->expected.status))
        return true;
    const int64_t tried = ranks < RANKS_MAX ? ranks : RANKS_MAX;
    for (int64_t i = 0; i < tried; i++) {
        /* All of them, or the first, the last and some. */
        const int64_t rank = i == tried - 1 ? ranks - 1
                             : ranks <= RANKS_MAX || i == 0
                                 ? i
                                 : (int64_t)salt_below(c->salt, (unsigned)i, (uint64_t)ranks);
        const cpr_route_request other = request_of_rank(request, rank);
        if (!refused_by_all(c, engine, &other, first, v))
            return false;
    }
    return true;
}

/* What the intervals of one layout answer, kept in *error: one layout of a wrong pair can be right. */
static bool ask_for_intervals(const engine_under_test *engine, const cpr_route_request *request,
                              cpr_layout layout, cpr_error *error, verdict *v) {
    const char *name = "the intervals of a layout";
    ledger books = {0};
    const cpr_allocator allocator = ledger_allocator(&books);
    cpr_intervals untouched = {0}, *intervals = &untouched;
    const cpr_status status = engine->layout_intervals(&request->cu_seqlens, request->rows, request->geometry,
                                                       layout, &allocator, &intervals, error);
    const bool good = status == CPR_OK || left_untouched(intervals == &untouched, name, v);
    if (status == CPR_OK)
        cpr_intervals_free(intervals);
    return ledger_settled(&books, name, v) && good;
}

/* A layout's intervals fail as a route from it to itself would. */
static bool layouts_refuse(const engine_under_test *engine, const cpr_route_request *request,
                           const cpr_error *expected, verdict *v) {
    cpr_error source = {0}, target = {0};
    if (!ask_for_intervals(engine, request, request->source, &source, v) ||
        !ask_for_intervals(engine, request, request->target, &target, v))
        return false;
    switch (expected->status) {
    case CPR_BAD_LAYOUT: {
        cpr_error wanted = *expected;
        wanted.index = 0;
        return same_error(expected->index == 0 ? &source : &target, "the intervals of a layout", &wanted,
                          "the builders", "intervals and routes fail differently", v);
    }
    case CPR_NOT_DIVISIBLE_2CP:
    case CPR_NOT_DIVISIBLE_CP: {
        /* One of the two layouts is to blame. */
        const bool by_source = source.status == expected->status && source.index == expected->index;
        return same_error(by_source ? &source : &target, "the intervals of a layout", expected,
                          "the builders", "intervals and routes fail differently", v);
    }
    case CPR_NOT_DIVISIBLE_CP_TP:
    case CPR_OVERFLOW:
        return true;
    default:
        return same_error(&source, "the intervals of the source", expected, "the builders",
                          "intervals and routes fail differently", v) &&
               same_error(&target, "the intervals of the target", expected, "the builders",
                          "intervals and routes fail differently", v);
    }
}

static bool transport_check_refuses(const engine_under_test *engine, const cpr_route_request *request,
                                    const cpr_error *expected, verdict *v) {
    ledger books = {0};
    const cpr_allocator allocator = ledger_allocator(&books);
    cpr_error error;
    engine->transport_check(request, 1, 64, &allocator, &error);
    const bool good = same_error(&error, "transport_check", expected, "the builders",
                                 "transport_check and builders fail differently", v);
    return ledger_settled(&books, "transport_check", v) && good;
}

void judge_errors(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (c->expected.status == CPR_OK) {
        law_skip(v, "the case is legal");
        return;
    }
    boundaries b = boundaries_make(c);
    cpr_error first = {.status = CPR_OK};
    if (refused_on_every_rank(c, engine, &b.request, &first, v) &&
        layouts_refuse(engine, &b.request, &first, v))
        transport_check_refuses(engine, &b.request, &first, v);
    boundaries_free(&b);
}
