/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "laws.h"
#include "oracle.h"
#include "scratch.h"
#include "subject.h"
#include <inttypes.h>

/* What one rank sends and receives, row by row, as the definition has it. */
typedef struct neighbourhood {
    const cpr_route *route;
    oracle_pack pack;
    cpr_layout source, target;
    int64_t rank, ranks, rows;
} neighbourhood;

typedef struct stop {
    int64_t peer;
    int64_t target_row;
} stop;

/* The other end of a local row: where it is sent, or where it comes from and lands here. */
static stop stop_of(const neighbourhood *n, cpr_side side, int64_t row) {
    const oracle_place here = {n->rank, row};
    if (side == CPR_SEND) {
        const int64_t token = oracle_token_at(&n->pack, n->source, here);
        const oracle_place there = oracle_place_of(&n->pack, n->target, token);
        return (stop){there.rank, there.row};
    }
    const int64_t token = oracle_token_at(&n->pack, n->target, here);
    return (stop){oracle_place_of(&n->pack, n->source, token).rank, row};
}

static bool comes_before(stop a, stop b) {
    return a.peer < b.peer || (a.peer == b.peer && a.target_row < b.target_row);
}

static bool rows_are_ordered(const neighbourhood *n, cpr_side side, const int64_t *rows, verdict *v) {
    stop before = {-1, -1};
    for (int64_t i = 0; i < n->rows; i++) {
        if (rows[i] < 0 || rows[i] >= n->rows)
            return law_fail(v, "a row outside the rank", "side %d entry %" PRId64 ": row %" PRId64, side, i,
                            rows[i]);
        const stop now = stop_of(n, side, rows[i]);
        if (!comes_before(before, now))
            return law_fail(v, "rows are out of order",
                            "side %d entry %" PRId64 ": rank %" PRId64 " row %" PRId64 " after rank %" PRId64
                            " row %" PRId64,
                            side, i, now.peer, now.target_row, before.peer, before.target_row);
        before = now;
    }
    return true;
}

static bool splits_group_the_rows(const neighbourhood *n, cpr_side side, const int64_t *rows,
                                  const int64_t *splits, verdict *v) {
    int64_t entry = 0;
    for (int64_t peer = 0; peer < n->ranks; peer++)
        for (int64_t i = 0; i < splits[peer] && entry < n->rows; i++, entry++)
            if (stop_of(n, side, rows[entry]).peer != peer)
                return law_fail(v, "a row is in another rank's message",
                                "side %d entry %" PRId64 ": in the message of rank %" PRId64
                                ", belongs to rank %" PRId64,
                                side, entry, peer, stop_of(n, side, rows[entry]).peer);
    return entry == n->rows ||
           law_fail(v, "splits do not add up to the rows", "side %d: splits end at %" PRId64 " of %" PRId64,
                    side, entry, n->rows);
}

static bool runs_are_ordered(const cpr_run_list *list, cpr_side side, verdict *v) {
    for (int64_t i = 1; i < list->count; i++) {
        const cpr_run *a = &list->runs[i - 1], *b = &list->runs[i];
        if (!comes_before((stop){a->peer, a->target_row}, (stop){b->peer, b->target_row}))
            return law_fail(v, "runs are out of order",
                            "side %d run %" PRId64 ": rank %" PRId64 " row %" PRId64 " after rank %" PRId64
                            " row %" PRId64,
                            side, i, b->peer, b->target_row, a->peer, a->target_row);
        if (a->peer == b->peer && a->source_row + a->length == b->source_row &&
            a->target_row + a->length == b->target_row)
            return law_fail(v, "runs are not maximal",
                            "side %d run %" PRId64 " goes on where the one before it ended", side, i);
    }
    return true;
}

static bool same_in_int32(const neighbourhood *n, const engine_under_test *engine, cpr_side side,
                          const int64_t *rows, scratch *s, verdict *v) {
    int32_t *narrow = scratch_bytes(s, (size_t)n->rows * sizeof *narrow);
    int64_t *widened = scratch_int64(s, n->rows);
    if (!narrow || !widened)
        return subject_no_memory(v);
    cpr_error error;
    const cpr_status status = engine->rows(n->route, side, CPR_INT32, narrow, n->rows, &error);
    if (!call_ok(status, &error, "rows in int32", v))
        return false;
    for (int64_t i = 0; i < n->rows; i++)
        widened[i] = narrow[i];
    return same_numbers(widened, "int32", rows, "int64", n->rows, "rows", "rows depend on their dtype", v);
}

static bool judge_side(const neighbourhood *n, const engine_under_test *engine, cpr_side side, scratch *s,
                       verdict *v) {
    int64_t *rows = scratch_int64(s, n->rows), *splits = scratch_int64(s, n->ranks);
    if (!rows || !splits)
        return subject_no_memory(v);
    cpr_error error;
    cpr_status status = engine->rows(n->route, side, CPR_INT64, rows, n->rows, &error);
    if (!call_ok(status, &error, "rows", v))
        return false;
    status = engine->splits(n->route, side, splits, n->ranks, &error);
    if (!call_ok(status, &error, "splits", v))
        return false;
    return same_in_int32(n, engine, side, rows, s, v) && rows_are_ordered(n, side, rows, v) &&
           splits_group_the_rows(n, side, rows, splits, v) &&
           runs_are_ordered(side == CPR_SEND ? &n->route->send : &n->route->recv, side, v);
}

static bool layout_ascends(const route_case *c, const engine_under_test *engine, cpr_layout layout,
                           verdict *v) {
    if (!oracle_ascends(layout, c->geometry.cp_size))
        return true;
    const cpr_route_request request = subject_request(c);
    cpr_intervals *intervals = NULL;
    cpr_error error;
    const cpr_status status = engine->layout_intervals(&request.cu_seqlens, request.rows, c->geometry, layout,
                                                       NULL, &intervals, &error);
    if (!call_ok(status, &error, "intervals of a layout", v))
        return false;
    bool good = true;
    for (int64_t i = 1; i < intervals->count && good; i++)
        if (intervals->items[i].begin < intervals->items[i - 1].end)
            good =
                law_fail(v, "a layout does not ascend",
                         "%s interval %" PRId64 ": begins at %" PRId64 ", the one before ends at %" PRId64,
                         cpr_layout_name(layout), i, intervals->items[i].begin, intervals->items[i - 1].end);
    cpr_intervals_free(intervals);
    return good;
}

void judge_order(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_listable(c, v))
        return;
    const cpr_route_request request = subject_request(c);
    cpr_route *route;
    if (!engine_builds(engine, &request, &route, v))
        return;
    neighbourhood n = {
        route, oracle_pack_of(c), c->source, c->target, c->geometry.cp_rank, c->geometry.cp_size, 0};
    n.rows = oracle_rows(&n.pack);
    scratch s = {0};
    if (judge_side(&n, engine, CPR_SEND, &s, v) && judge_side(&n, engine, CPR_RECV, &s, v) &&
        layout_ascends(c, engine, c->source, v))
        layout_ascends(c, engine, c->target, v);
    scratch_free(&s);
    cpr_route_free(route);
}
