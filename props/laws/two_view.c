/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "crossing.h"
#include "laws.h"
#include "subject.h"
#include <inttypes.h>
#include <string.h>

static bool same_index(const int64_t *a, const int64_t *b, int64_t rows, const char *what, verdict *v) {
    if (!a != !b)
        return law_fail(v, "the two directions give two views", "%s: one is an identity", what);
    return !a ||
           same_numbers(a, "made there", b, "made back", rows, what, "the two directions give two views", v);
}

static bool same_view(const cpr_two_view *a, const cpr_two_view *b, verdict *v) {
    const int64_t ranks = a->geometry.cp_size;
    if (b->geometry.cp_size != ranks || b->geometry.cp_rank != a->geometry.cp_rank || b->rows != a->rows ||
        b->boundaries_digest != a->boundaries_digest)
        return law_fail(v, "the two directions give two views", "what they are of");
    return same_index(a->zigzag_index, b->zigzag_index, a->rows, "zigzag index", v) &&
           same_index(a->contiguous_index, b->contiguous_index, a->rows, "contiguous index", v) &&
           same_numbers(a->zigzag_split_sizes, "made there", b->zigzag_split_sizes, "made back", ranks,
                        "zigzag split", "the two directions give two views", v) &&
           same_numbers(a->contiguous_split_sizes, "made there", b->contiguous_split_sizes, "made back",
                        ranks, "contiguous split", "the two directions give two views", v);
}

/* Against messages that are put together token by token. */
static bool side_is(const crossing *x, cpr_side side, const cpr_two_view *view, const int64_t *index,
                    const int64_t *splits, const char *what, scratch *s, verdict *v) {
    int64_t *wanted_splits = scratch_int64(s, x->ranks), *wanted = scratch_int64(s, view->rows);
    int64_t *got = scratch_int64(s, view->rows);
    if (!wanted_splits || !wanted || !got)
        return subject_no_memory(v);
    const int64_t rows = crossing_list(x, side, view->geometry.cp_rank, wanted_splits, wanted);
    bool identity = true;
    for (int64_t i = 0; i < rows; i++) {
        identity &= wanted[i] == i;
        got[i] = index ? index[i] : i;
    }
    return same_numbers(&view->rows, "the view", &rows, "the layouts", 1, what, "a view has other rows", v) &&
           same_numbers(got, "the view", wanted, "the layouts", rows, what, "a view has other rows", v) &&
           same_numbers(splits, "the view", wanted_splits, "the layouts", x->ranks, what,
                        "a view has other splits", v) &&
           (identity == !index || law_fail(v, "an identity is written out", "%s", what));
}

static bool is_right(const cpr_two_view *view, const crossing *x, scratch *s, verdict *v) {
    if (view->zigzag_index)
        return law_fail(v, "the zigzag side is no identity", "rank %" PRId64, view->geometry.cp_rank);
    return side_is(x, CPR_SEND, view, view->zigzag_index, view->zigzag_split_sizes, "zigzag", s, v) &&
           side_is(x, CPR_RECV, view, view->contiguous_index, view->contiguous_split_sizes, "contiguous", s,
                   v);
}

static cpr_two_view *make(const engine_under_test *engine, const cpr_route_request *request, verdict *v) {
    cpr_route *route;
    cpr_two_view *view = NULL;
    cpr_error error;
    if (engine_builds(engine, request, &route, v) &&
        call_ok(engine->two_view(route, NULL, &view, &error), &error, "two_view", v) &&
        view->boundaries_digest != route->boundaries_digest) {
        law_fail(v, "a view is of other boundaries than its route", "digests differ");
        cpr_two_view_free(view);
        view = NULL;
    }
    cpr_route_free(route);
    return view;
}

static bool judge_rank(const engine_under_test *engine, cpr_route_request request, const crossing *x,
                       scratch *s, verdict *v) {
    request.source = CPR_ZIGZAG;
    request.target = CPR_CONTIGUOUS;
    cpr_two_view *there = make(engine, &request, v);
    request.source = CPR_CONTIGUOUS;
    request.target = CPR_ZIGZAG;
    cpr_two_view *back = make(engine, &request, v);
    const bool good = there && back && same_view(there, back, v) && is_right(there, x, s, v);
    cpr_two_view_free(there);
    cpr_two_view_free(back);
    return good;
}

static bool fill_crossing(const route_case *c, crossing *x, scratch *s) {
    const oracle_pack pack = oracle_pack_of(c);
    const int64_t rows = oracle_rows(&pack);
    int64_t *tokens = scratch_int64(s, rows);
    if (!tokens || !crossing_make(x, pack.cp_size, oracle_total(&pack), s))
        return false;
    for (int64_t rank = 0; rank < pack.cp_size; rank++) {
        oracle_tokens(&pack, CPR_ZIGZAG, rank, tokens);
        crossing_put(x, CPR_SEND, rank, tokens, rows);
        oracle_tokens(&pack, CPR_CONTIGUOUS, rank, tokens);
        crossing_put(x, CPR_RECV, rank, tokens, rows);
    }
    return true;
}

/* The case's own route, if it is between other layouts. */
static bool refuses_others(const route_case *c, const engine_under_test *engine, verdict *v) {
    const bool zigzag = c->source == CPR_ZIGZAG, contiguous = c->source == CPR_CONTIGUOUS;
    const cpr_layout other = zigzag ? CPR_CONTIGUOUS : CPR_ZIGZAG;
    if ((zigzag || contiguous) && c->target == other)
        return true;
    const cpr_error wanted = zigzag || contiguous
                                 ? (cpr_error){CPR_BAD_LAYOUT, 1, (int)c->target, (int)other}
                                 : (cpr_error){CPR_BAD_LAYOUT, 0, (int)c->source, CPR_ZIGZAG};
    const cpr_route_request request = subject_request(c);
    cpr_route *route;
    cpr_two_view *view = NULL;
    cpr_error error;
    if (!engine_builds(engine, &request, &route, v))
        return false;
    const cpr_status status = engine->two_view(route, NULL, &view, &error);
    cpr_route_free(route);
    cpr_two_view_free(view);
    return call_refused(status, &error, wanted, "two_view of another route", v);
}

static bool zigzag_is_legal(const engine_under_test *engine, const cpr_route_request *request) {
    cpr_route_request zigzag = *request;
    cpr_route *route = NULL;
    zigzag.source = zigzag.target = CPR_ZIGZAG;
    const bool legal = engine->build[BY_INTERVALS](&zigzag, NULL, &route, NULL) == CPR_OK;
    cpr_route_free(route);
    return legal;
}

enum { WORK_MAX = 1 << 22 };

void judge_two_view(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_listable(c, v) || !refuses_others(c, engine, v))
        return;
    const cpr_route_request request = subject_request(c);
    scratch s = {0};
    crossing x;
    if (!zigzag_is_legal(engine, &request))
        law_skip(v, "its lengths cannot be cut by zigzag");
    else if (route_case_tokens(c) * c->geometry.cp_size * c->geometry.cp_size > WORK_MAX)
        law_skip(v, "too many tokens and ranks to look at one by one");
    else if (!fill_crossing(c, &x, &s))
        subject_no_memory(v);
    else
        for (int64_t rank = 0; rank < c->geometry.cp_size; rank++)
            if (!judge_rank(engine, request_of_rank(&request, rank), &x, &s, v))
                break;
    scratch_free(&s);
}
