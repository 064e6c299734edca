/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "crossing.h"
#include "group.h"
#include "laws.h"
#include "oracle.h"
#include "subject.h"
#include "tensor_group.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WORK_MAX = 1 << 21 };

typedef struct fusion {
    const engine_under_test *engine;
    const route_case *c;
    cpr_route_request request;
    tensor_group tensor;
    int64_t rows, window;     /* of a CP rank, of a TP rank */
    group routes;             /* by group rank */
    int64_t *source, *target; /* tokens of CP ranks, one after the other */
    scratch memory;
} fusion;

static cpr_status build(const fusion *f, int64_t cp_rank, int64_t tp_rank, cpr_route **route,
                        cpr_error *error) {
    const cpr_route_request request = request_of_rank(&f->request, cp_rank);
    const cpr_tensor_ranks tp = tensor_ranks_of(&f->tensor, tp_rank);
    return f->engine->build_fused(&request, &tp, NULL, route, error);
}

static bool all_refuse(const fusion *f, cpr_error wanted, const char *what, verdict *v) {
    for (int64_t logical = 0; logical < f->tensor.ranks; logical++) {
        cpr_route *route = NULL;
        cpr_error error;
        const cpr_status status =
            build(f, logical / f->tensor.tp_size, logical % f->tensor.tp_size, &route, &error);
        cpr_route_free(route);
        if (!call_refused(status, &error, wanted, what, v))
            return false;
    }
    return true;
}

static bool build_all(fusion *f, verdict *v) {
    f->routes.size = f->tensor.ranks;
    f->routes.routes = calloc((size_t)f->tensor.ranks, sizeof(cpr_route *));
    if (!f->routes.routes)
        return subject_no_memory(v);
    for (int64_t logical = 0; logical < f->tensor.ranks; logical++) {
        cpr_error error;
        const int64_t cp_rank = logical / f->tensor.tp_size, tp_rank = logical % f->tensor.tp_size;
        cpr_route **route = &f->routes.routes[tensor_group_rank(&f->tensor, cp_rank, tp_rank)];
        if (!call_ok(build(f, cp_rank, tp_rank, route, &error), &error, "build_fused", v))
            return false;
        const char *why = "";
        if (!f->engine->validate(*route, NULL, &why))
            return law_fail(v, "a fused route does not validate", "logical rank %" PRId64 ": %s", logical,
                            why);
        if ((*route)->send.rows != f->window || (*route)->recv.rows != f->window)
            return law_fail(v, "a window has other rows", "logical rank %" PRId64 ": %" PRId64, logical,
                            (*route)->send.rows);
    }
    return true;
}

static bool list_tokens(fusion *f) {
    const oracle_pack pack = oracle_pack_of(f->c);
    f->source = scratch_int64(&f->memory, oracle_total(&pack));
    f->target = scratch_int64(&f->memory, oracle_total(&pack));
    for (int64_t rank = 0; f->source && f->target && rank < pack.cp_size; rank++) {
        oracle_tokens(&pack, f->c->source, rank, f->source + rank * f->rows);
        oracle_tokens(&pack, f->c->target, rank, f->target + rank * f->rows);
    }
    return f->source && f->target;
}

/* Messages by group rank, rows in the order of the stream: put together token by token. */
static bool lists_are_right(fusion *f, verdict *v) {
    const int64_t ranks = f->tensor.ranks;
    crossing x;
    int64_t *splits = scratch_int64(&f->memory, 2 * ranks), *rows = scratch_int64(&f->memory, 2 * f->window);
    if (!splits || !rows || !crossing_make(&x, ranks, f->tensor.cp_size * f->rows, &f->memory))
        return subject_no_memory(v);
    for (int64_t logical = 0; logical < ranks; logical++) {
        crossing_put(&x, CPR_SEND, f->tensor.order[logical], f->source + logical * f->window, f->window);
        crossing_put(&x, CPR_RECV, f->tensor.order[logical], f->target + logical * f->window, f->window);
    }
    for (int64_t rank = 0; rank < ranks; rank++)
        for (int side = CPR_SEND; side <= CPR_RECV; side++) {
            const cpr_route *route = f->routes.routes[rank];
            const int64_t count = crossing_list(&x, (cpr_side)side, rank, splits, rows);
            f->engine->splits(route, (cpr_side)side, splits + ranks, ranks, NULL);
            f->engine->rows(route, (cpr_side)side, CPR_INT64, rows + f->window, f->window, NULL);
            if (!same_numbers(&f->window, "the window", &count, "token by token", 1, "rows",
                              "a fused route has other rows", v) ||
                !same_numbers(splits + ranks, "build_fused", splits, "token by token", ranks, "split",
                              "a fused route has other splits", v) ||
                !same_numbers(rows + f->window, "build_fused", rows, "token by token", count, "row",
                              "a fused route has other rows", v))
                return false;
        }
    return true;
}

/* Shards over one block, `rows` each, handed out in an order. */
static cpr_shard *shards_over(fusion *f, int64_t *block, int64_t ranks, const int64_t *order,
                              cpr_layout layout) {
    cpr_shard *shards = scratch_bytes(&f->memory, (size_t)ranks * sizeof *shards);
    const int64_t rows = f->tensor.cp_size * f->rows / ranks;
    for (int64_t i = 0; shards && i < ranks; i++)
        shards[order ? order[i] : i] = (cpr_shard){block + i * rows, rows, layout};
    return shards;
}

/*
 * A gather puts the windows of a CP rank one after the other, as they lie in these blocks already; a swap is the exchange
 * between CP ranks; a scatter cuts what it brings into windows. The fused exchange must leave the same block.
 */
static bool composes(fusion *f, verdict *v) {
    const int64_t tokens = f->tensor.cp_size * f->rows, ranks = f->tensor.ranks, cp = f->tensor.cp_size;
    int64_t *fused = scratch_int64(&f->memory, tokens), *swapped = scratch_int64(&f->memory, tokens);
    group plain;
    if (!fused || !swapped)
        return subject_no_memory(v);
    cpr_shard *fused_sources = shards_over(f, f->source, ranks, f->tensor.order, f->c->source);
    cpr_shard *fused_targets = shards_over(f, fused, ranks, f->tensor.order, f->c->target);
    cpr_shard *sources = shards_over(f, f->source, cp, NULL, f->c->source);
    cpr_shard *targets = shards_over(f, swapped, cp, NULL, f->c->target);
    if (!fused_sources || !fused_targets || !sources || !targets)
        return subject_no_memory(v);
    if (!group_build(&plain, f->engine, &f->request, v))
        return false;
    cpr_error error;
    const bool good = call_ok(f->engine->exchange_host(group_routes(&f->routes), ranks, sizeof *fused,
                                                       fused_sources, fused_targets, NULL, &error),
                              &error, "the fused exchange", v) &&
                      call_ok(f->engine->exchange_host(group_routes(&plain), cp, sizeof *swapped, sources,
                                                       targets, NULL, &error),
                              &error, "the swap", v) &&
                      same_numbers(fused, "the fused exchange", swapped, "gather, swap, scatter", tokens,
                                   "token", "a fused exchange is not gather, swap and scatter", v) &&
                      same_numbers(fused, "the fused exchange", f->target, "the definition", tokens, "token",
                                   "a fused exchange moves rows wrongly", v);
    group_free(&plain);
    return good;
}

static bool is_natural(const fusion *f) {
    for (int64_t i = 0; i < f->tensor.ranks; i++)
        if (f->tensor.order[i] != i)
            return false;
    return true;
}

/* With tp_size 1 and ranks in order it is the plain route, digest and all; else the group is told by the digest. */
static bool plain_if_plain(const fusion *f, verdict *v) {
    cpr_route *plain;
    const cpr_route_request request = request_of_rank(&f->request, 0);
    if (!engine_builds(f->engine, &request, &plain, v))
        return false;
    const cpr_route *fused = f->routes.routes[tensor_group_rank(&f->tensor, 0, 0)];
    const bool natural = is_natural(f);
    const bool good =
        f->tensor.tp_size == 1 && natural
            ? same_route(fused, "build_fused", plain, "the builder",
                         "a fused route without TP is not the plain one", v)
            : fused->boundaries_digest != plain->boundaries_digest ||
                  law_fail(v, "a digest does not tell the group", "tp_size %" PRId64, f->tensor.tp_size);
    cpr_route_free(plain);
    return good;
}

/* One logical rank is given the place of another. */
static bool refuses_bad_order(fusion *f, verdict *v) {
    if (f->tensor.ranks < 2)
        return true;
    int64_t *order = scratch_int64(&f->memory, f->tensor.ranks);
    if (!order)
        return subject_no_memory(v);
    memcpy(order, f->tensor.order, (size_t)f->tensor.ranks * sizeof *order);
    const int64_t last = f->tensor.ranks - 1;
    const int64_t wrong[] = {order[0], -1, f->tensor.ranks};
    order[last] = wrong[salt_below(f->c->salt, 30, 3)];
    const cpr_tensor_ranks tp = {f->tensor.tp_size, 0, order};
    cpr_route *route = NULL;
    cpr_error error;
    const cpr_status status = f->engine->build_fused(&f->request, &tp, NULL, &route, &error);
    cpr_route_free(route);
    return call_refused(status, &error, (cpr_error){CPR_BAD_RANK, last, order[last], f->tensor.ranks},
                        "a group order that is no permutation", v);
}

static bool refuses_bad_tp_rank(const fusion *f, verdict *v) {
    const int64_t wrong = salt_below(f->c->salt, 31, 2) ? -1 : f->tensor.tp_size;
    const cpr_tensor_ranks tp = tensor_ranks_of(&f->tensor, wrong);
    cpr_route *route = NULL;
    cpr_error error;
    const cpr_status status = f->engine->build_fused(&f->request, &tp, NULL, &route, &error);
    cpr_route_free(route);
    return call_refused(status, &error, (cpr_error){CPR_BAD_RANK, -1, wrong, f->tensor.tp_size},
                        "a TP rank out of range", v);
}

static void judge(fusion *f, verdict *v) {
    const bool tails_last = f->c->source == CPR_HEADS_THEN_TAILS;
    if (tails_last || f->c->target == CPR_HEADS_THEN_TAILS) {
        all_refuse(f, (cpr_error){CPR_BAD_LAYOUT, tails_last ? 0 : 1, CPR_HEADS_THEN_TAILS, CPR_LAYOUT_COUNT},
                   "a layout that does not ascend", v);
        return;
    }
    if (f->rows % f->tensor.tp_size != 0) {
        all_refuse(f, (cpr_error){CPR_NOT_DIVISIBLE_CP_TP, -1, f->rows, f->tensor.tp_size}, "ragged windows",
                   v);
        return;
    }
    if (!refuses_bad_order(f, v) || !refuses_bad_tp_rank(f, v) || !build_all(f, v) || !plain_if_plain(f, v))
        return;
    if (!list_tokens(f))
        subject_no_memory(v);
    else if (lists_are_right(f, v))
        composes(f, v);
}

void judge_fused(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_listable(c, v))
        return;
    fusion f = {.engine = engine, .c = c, .request = subject_request(c)};
    f.rows = route_case_tokens(c) / c->geometry.cp_size;
    if (!tensor_group_draw(&f.tensor, c, &f.memory))
        subject_no_memory(v);
    else if (route_case_tokens(c) * f.tensor.ranks > WORK_MAX || f.tensor.ranks > GROUP_MAX)
        law_skip(v, "too many tokens and ranks to look at one by one");
    else {
        f.window = f.rows / f.tensor.tp_size;
        judge(&f, v);
    }
    if (f.routes.routes)
        group_free(&f.routes);
    scratch_free(&f.memory);
}
