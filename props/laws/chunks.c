/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "laws.h"
#include "tensor_group.h"
#include <inttypes.h>

typedef struct chunking {
    const engine_under_test *engine;
    tensor_group tensor;
    int64_t boundaries[2]; /* of the one sequence */
    cpr_layout source, target;
    cpr_geometry geometry;
    int64_t tp_rank;
} chunking;

/* Of one sequence, tails that come after all heads come where zigzag has them. */
static cpr_layout ascending(cpr_layout layout) {
    return layout == CPR_HEADS_THEN_TAILS ? CPR_ZIGZAG : layout;
}

static cpr_status plan_of(const chunking *k, cpr_chunk_plan *plan, cpr_error *error) {
    const cpr_tensor_ranks tp = tensor_ranks_of(&k->tensor, k->tp_rank);
    return k->engine->chunk_plan(k->boundaries[1], k->geometry, &tp, k->source, k->target, NULL, plan, error);
}

static cpr_status route_of(const chunking *k, cpr_route **route, cpr_error *error) {
    const cpr_tensor_ranks tp = tensor_ranks_of(&k->tensor, k->tp_rank);
    const cpr_route_request request = {
        .cu_seqlens = cpr_cu_seqlens_int64(k->boundaries, 2),
        .rows = CPR_ROWS_UNCHECKED,
        .geometry = k->geometry,
        .source = ascending(k->source),
        .target = ascending(k->target),
    };
    return k->engine->build_fused(&request, &tp, NULL, route, error);
}

/* Moves written out as runs, and those that go on where the one before ended joined. */
static int64_t runs_of(const cpr_chunk_plan *plan, cpr_side side, int64_t *rows, int64_t *peers) {
    const cpr_chunk_move *moves = side == CPR_SEND ? plan->send : plan->recv;
    int64_t count = 0;
    for (int64_t i = 0; i < plan->chunks; i++)
        for (int64_t row = 0; row < plan->chunk_rows; row++) {
            rows[count] = moves[i].chunk * plan->chunk_rows + row;
            peers[count++] = moves[i].peer;
        }
    return count;
}

static bool same_side(const chunking *k, const cpr_chunk_plan *plan, const cpr_route *route, cpr_side side,
                      scratch *s, verdict *v) {
    const cpr_run_list *list = side == CPR_SEND ? &route->send : &route->recv;
    int64_t *rows = scratch_int64(s, list->rows), *peers = scratch_int64(s, list->rows);
    int64_t *wanted = scratch_int64(s, list->rows), *wanted_peers = scratch_int64(s, list->rows);
    if (!rows || !peers || !wanted || !wanted_peers)
        return subject_no_memory(v);
    int64_t count = plan->chunks * plan->chunk_rows, at = 0;
    if (!same_numbers(&count, "the plan", &list->rows, "the route", 1, "rows", "a plan moves other rows", v))
        return false;
    runs_of(plan, side, rows, peers);
    for (int64_t i = 0; i < list->count; i++)
        for (int64_t row = 0; row < list->runs[i].length; row++)
            wanted_peers[at++] = list->runs[i].peer;
    k->engine->rows(route, side, CPR_INT64, wanted, list->rows, NULL);
    return same_numbers(rows, "the plan", wanted, "the route", count, "row", "a plan moves other rows", v) &&
           same_numbers(peers, "the plan", wanted_peers, "the route", count, "peer",
                        "a plan moves rows elsewhere", v);
}

static bool judge_legal(const chunking *k, verdict *v) {
    scratch s = {0};
    cpr_chunk_plan plan = {.chunks = -7};
    cpr_route *route = NULL;
    cpr_error error;
    bool good = call_ok(plan_of(k, &plan, &error), &error, "chunk_plan", v) &&
                call_ok(route_of(k, &route, &error), &error, "build_fused", v);
    if (good && (plan.geometry.cp_size != route->geometry.cp_size ||
                 plan.geometry.cp_rank != route->geometry.cp_rank))
        good = law_fail(v, "a plan is for another rank", "%" PRId64 " of %" PRId64, plan.geometry.cp_rank,
                        plan.geometry.cp_size);
    good = good && same_side(k, &plan, route, CPR_SEND, &s, v) && same_side(k, &plan, route, CPR_RECV, &s, v);
    cpr_route_free(route);
    scratch_free(&s);
    return good;
}

static bool judge_refused(const chunking *k, cpr_error wanted, const char *what, verdict *v) {
    cpr_chunk_plan plan = {.chunks = -7};
    cpr_error error;
    return call_refused(plan_of(k, &plan, &error), &error, wanted, what, v) &&
           (plan.chunks == -7 || law_fail(v, "an output is touched on failure", "chunk_plan"));
}

static bool cuts_in_two(cpr_layout layout) {
    return layout != CPR_CONTIGUOUS;
}

/* A row more than can be cut: by 2P, or, where both layouts are contiguous and windows are chunks, by P. */
static bool judge_ragged(const chunking *whole, verdict *v) {
    chunking k = *whole;
    k.boundaries[1]++;
    const int64_t length = k.boundaries[1], ranks = k.geometry.cp_size;
    if (ranks == 1)
        return true;
    if (cuts_in_two(k.source) || cuts_in_two(k.target)) {
        const bool flat_only = (k.source == CPR_FLAT_ZIGZAG || k.source == CPR_CONTIGUOUS) &&
                               (k.target == CPR_FLAT_ZIGZAG || k.target == CPR_CONTIGUOUS);
        return judge_refused(&k, (cpr_error){CPR_NOT_DIVISIBLE_2CP, flat_only ? -1 : 0, length, 2 * ranks},
                             "a ragged sequence", v);
    }
    return judge_refused(&k, (cpr_error){CPR_NOT_DIVISIBLE_CP, -1, length, ranks}, "a ragged sequence", v);
}

/* One TP rank of every CP rank, so that all are seen over many cases. */
static void judge(chunking *k, const route_case *c, verdict *v) {
    const bool odd = k->tensor.tp_size > 1 && k->tensor.tp_size % 2 != 0;
    const cpr_error no_segments = {CPR_NOT_DIVISIBLE_CP_TP, -1, k->tensor.tp_size, 2};
    for (int64_t rank = 0; rank < k->tensor.cp_size; rank++) {
        k->geometry.cp_rank = rank;
        k->tp_rank = (int64_t)salt_below(c->salt + (uint64_t)rank, 32, (uint64_t)k->tensor.tp_size);
        const bool good = odd ? judge_refused(k, no_segments, "an odd tp_size", v)
                              : judge_legal(k, v) && judge_ragged(k, v);
        if (!good)
            return;
    }
}

void judge_chunks(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_legal(c, v))
        return;
    if (c->geometry.cp_size > GROUP_MAX) {
        law_skip(v, "too many ranks to build");
        return;
    }
    scratch s = {0};
    chunking k = {.engine = engine, .source = c->source, .target = c->target, .geometry = c->geometry};
    if (tensor_group_draw(&k.tensor, c, &s)) {
        k.boundaries[1] = 2 * k.tensor.ranks * (int64_t)salt_below(c->salt, 33, 4);
        judge(&k, c, v);
    } else {
        subject_no_memory(v);
    }
    scratch_free(&s);
}
