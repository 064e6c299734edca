/* SPDX-License-Identifier: Apache-2.0 */
#include "text_outcome.h"
#include "text_shapes.h"

#include <inttypes.h>
#include <stdlib.h>

static const cpr_error NO_ERROR = {CPR_OK, -1, 0, 0};
static const cpr_error OUT_OF_MEMORY = {CPR_NO_MEMORY, -1, 0, 0};

enum { MAX_EXCHANGED_TOKENS = 1 << 20, MAX_EXCHANGED_RANKS = 1 << 10, MAX_ENUMERATION_WORK = 1 << 28 };

bool errors_equal(const cpr_error *a, const cpr_error *b) {
    return a->status == b->status && a->index == b->index && a->got == b->got && a->wanted == b->wanted;
}

/*------------------------------------------------------------------------------
 * Sizes
 *----------------------------------------------------------------------------*/

int64_t text_case_tokens(const text_case *c) {
    return offsets_tokens(&c->cu);
}

bool text_case_is_enumerable(const text_case *c) {
    int64_t tokens = text_case_tokens(c), ranks = c->cp_size;
    return !c->big && tokens <= CASE_ENUMERABLE && ranks >= 1 && ranks <= JUDGED_RANKS_MAX &&
           tokens * ranks * ranks <= MAX_ENUMERATION_WORK;
}

judged_ranks text_case_ranks(const text_case *c) {
    judged_ranks ranks = {0};
    bool legal = c->cp_size >= 1 && c->cp_size <= CPR_CP_SIZE_MAX;
    if (!c->every_rank || !legal) {
        ranks.items[ranks.count++] = c->every_rank ? 0 : c->rank;
        return ranks;
    }
    if (c->cp_size <= JUDGED_RANKS_MAX) {
        for (int64_t r = 0; r < c->cp_size; r++)
            ranks.items[ranks.count++] = r;
        return ranks;
    }
    for (int64_t i = 0; i < JUDGED_RANKS_MAX; i++)
        ranks.items[ranks.count++] = i * (c->cp_size - 1) / (JUDGED_RANKS_MAX - 1);
    return ranks;
}

/*------------------------------------------------------------------------------
 * Requests
 *----------------------------------------------------------------------------*/

cpr_layout text_case_from(const text_case *c) {
    return c->shard_given ? c->shard : c->from;
}

cpr_layout text_case_to(const text_case *c) {
    return c->unshard_given ? c->unshard : c->to;
}

static bool make_request(const text_case *c, offsets *o, int64_t rows, int64_t rank,
                         cpr_route_request *request, cpr_error *error) {
    *request = (cpr_route_request){
        .cu_seqlens = {.device = c->device},
        .rows = rows,
        .geometry = {.cp_size = c->cp_size, .cp_rank = rank},
        .source = text_case_from(c),
        .target = text_case_to(c),
        .tp_size = c->tp_size,
    };
    cpr_dtype dtype = c->dtype_given ? c->dtype : offsets_smallest_dtype(o);
    return offsets_hand_over(o, dtype, request, error);
}

bool text_case_request(text_case *c, int64_t rank, cpr_route_request *request, cpr_error *error) {
    return make_request(c, &c->cu, text_case_rows(c, &c->cu), rank, request, error);
}

static cpr_status build_from(text_case *c, offsets *o, int64_t rows, int64_t rank, cpr_route **route,
                             cpr_error *error) {
    cpr_route_request request;
    if (!make_request(c, o, rows, rank, &request, error))
        return error->status;
    return cpr_route_build(&request, NULL, route, error);
}

cpr_status text_case_route(text_case *c, text_builder_fn *build, int64_t rank, cpr_layout from, cpr_layout to,
                           cpr_route **route, cpr_error *error) {
    cpr_route_request request;
    if (!text_case_request(c, rank, &request, error))
        return error->status;
    request.source = from;
    request.target = to;
    return build(&request, NULL, route, error);
}

static cpr_status share_from(text_case *c, offsets *o, cpr_layout layout, int64_t rank, int64_list *tokens,
                             cpr_error *error) {
    cpr_route_request request;
    if (!make_request(c, o, text_case_rows(c, o), rank, &request, error))
        return error->status;
    cpr_intervals *share = NULL;
    if (cpr_layout_intervals(&request.cu_seqlens, request.rows, request.geometry, layout, NULL, &share,
                             error) != CPR_OK)
        return error->status;
    bool room = true;
    for (int64_t i = 0; i < share->count && room; i++)
        for (int64_t token = share->items[i].begin; token < share->items[i].end && room; token++)
            room = int64_list_append(tokens, token);
    cpr_intervals_free(share);
    if (!room)
        *error = OUT_OF_MEMORY;
    return error->status;
}

cpr_status text_case_share(text_case *c, cpr_layout layout, int64_t rank, int64_list *tokens,
                           cpr_error *error) {
    return share_from(c, &c->cu, layout, rank, tokens, error);
}

/*------------------------------------------------------------------------------
 * Exchange between all ranks of the case
 *----------------------------------------------------------------------------*/

/* Every rank may have boundaries of its own. */
static bool lists_tokens(const text_case *c) {
    int64_t most = text_case_tokens(c);
    for (size_t i = 0; i < c->rank_cu.count; i++) {
        int64_t tokens = offsets_tokens(&c->rank_cu.items[i].numbers);
        most = tokens > most ? tokens : most;
    }
    return !c->big && most <= MAX_EXCHANGED_TOKENS;
}

typedef struct exchange {
    int64_t ranks;
    size_t row_bytes; /* 0: rows are not listed, so whether they may move is all that is seen */
    cpr_route **routes;
    int64_list *sent, *arrived, *wanted;
    cpr_shard *sources, *targets;
} exchange;

static bool exchange_start(exchange *e, const text_case *c) {
    size_t count = (size_t)c->cp_size;
    *e = (exchange){
        .ranks = c->cp_size,
        .row_bytes = lists_tokens(c) ? sizeof(int64_t) : 0,
        .routes = calloc(count, sizeof *e->routes),
        .sent = calloc(count, sizeof *e->sent),
        .arrived = calloc(count, sizeof *e->arrived),
        .wanted = calloc(count, sizeof *e->wanted),
        .sources = calloc(count, sizeof *e->sources),
        .targets = calloc(count, sizeof *e->targets),
    };
    return e->routes && e->sent && e->arrived && e->wanted && e->sources && e->targets;
}

/* The boundaries that a rank builds from. */
static offsets *offsets_of_rank(text_case *c, int64_t rank) {
    for (size_t i = 0; i < c->rank_cu.count; i++)
        if (c->rank_cu.items[i].rank == rank)
            return &c->rank_cu.items[i].numbers;
    return &c->cu;
}

/* The tokens that a rank has, and those that it must get. */
static bool exchange_fill(exchange *e, text_case *c, int64_t r, cpr_layout held, cpr_layout to,
                          cpr_error *error) {
    offsets *o = offsets_of_rank(c, r);
    if (share_from(c, o, held, r, &e->sent[r], error) != CPR_OK ||
        share_from(c, o, to, r, &e->wanted[r], error) != CPR_OK)
        return false;
    bool room = true;
    for (int64_t i = 0; i < e->wanted[r].count && room; i++)
        room = int64_list_append(&e->arrived[r], -1);
    if (!room)
        *error = OUT_OF_MEMORY;
    return room;
}

static void free_lists(int64_list *lists, int64_t count) {
    for (int64_t r = 0; lists && r < count; r++)
        int64_list_free(&lists[r]);
    free(lists);
}

static void exchange_end(exchange *e) {
    for (int64_t r = 0; e->routes && r < e->ranks; r++)
        cpr_route_free(e->routes[r]);
    free(e->routes);
    free_lists(e->sent, e->ranks);
    free_lists(e->arrived, e->ranks);
    free_lists(e->wanted, e->ranks);
    free(e->sources);
    free(e->targets);
}

/* Rank r holds its tokens of `held`, tagged so, and has the route from->to. */
static bool exchange_join(exchange *e, text_case *c, int64_t r, cpr_layout held, cpr_layout from,
                          cpr_layout to, cpr_error *error) {
    offsets *o = offsets_of_rank(c, r);
    cpr_route_request request;
    if (!make_request(c, o, text_case_rows(c, o), r, &request, error))
        return false;
    request.source = from;
    request.target = to;
    if (cpr_route_build(&request, NULL, &e->routes[r], error) != CPR_OK ||
        (e->row_bytes && !exchange_fill(e, c, r, held, to, error)))
        return false;
    e->sources[r] = (cpr_shard){e->sent[r].items, e->routes[r]->send.rows, held};
    e->targets[r] = (cpr_shard){e->arrived[r].items, e->routes[r]->recv.rows, to};
    return true;
}

static void judge_arrival(const exchange *e, verdict *v) {
    for (int64_t r = 0; r < e->ranks; r++)
        for (int64_t i = 0; i < e->wanted[r].count; i++)
            if (e->arrived[r].items[i] != e->wanted[r].items[i]) {
                law_fail(v, "another token arrived",
                         "rank %" PRId64 " row %" PRId64 ": got %" PRId64 ", want %" PRId64, r, i,
                         e->arrived[r].items[i], e->wanted[r].items[i]);
                return;
            }
}

static cpr_error exchange_tokens(text_case *c, verdict *v, cpr_layout held, cpr_layout from, cpr_layout to) {
    exchange e;
    cpr_error error = OUT_OF_MEMORY;
    if (c->cp_size > MAX_EXCHANGED_RANKS) {
        law_fail(v, "the case is too large for an exchange", "%d ranks are the limit", MAX_EXCHANGED_RANKS);
        return NO_ERROR;
    }
    bool ready = exchange_start(&e, c);
    for (int64_t r = 0; r < c->cp_size && ready; r++)
        ready = exchange_join(&e, c, r, held, from, to, &error);
    if (ready && cpr_exchange_host((const cpr_route *const *)e.routes, e.ranks, e.row_bytes, e.sources,
                                   e.targets, NULL, &error) == CPR_OK)
        judge_arrival(&e, v);
    exchange_end(&e);
    return error;
}

/*------------------------------------------------------------------------------
 * Operations, each after those before it went well
 *----------------------------------------------------------------------------*/

/* Key/value boundaries are validated as the query's are, and must give the same sequences. */
static cpr_error kv_outcome(text_case *c, verdict *v) {
    (void)v;
    cpr_error error = NO_ERROR;
    cpr_route *q = NULL, *kv = NULL;
    int64_t rank = c->every_rank ? 0 : c->rank;
    if (!c->kv_given || build_from(c, &c->cu, text_case_rows(c, &c->cu), rank, &q, &error) != CPR_OK)
        return error;
    if (build_from(c, &c->kv, CPR_ROWS_UNCHECKED, rank, &kv, &error) == CPR_OK) {
        if (q->boundaries_digest != kv->boundaries_digest)
            error.status = CPR_DIVERGENT_METADATA;
        cpr_route_free(kv);
    }
    cpr_route_free(q);
    return error;
}

static cpr_error rank_cu_outcome(text_case *c, verdict *v) {
    (void)v;
    for (size_t i = 0; i < c->rank_cu.count; i++) {
        cpr_error error;
        cpr_route *route = NULL;
        rank_numbers *own = &c->rank_cu.items[i];
        if (build_from(c, &own->numbers, text_case_rows(c, &own->numbers), own->rank, &route, &error) !=
            CPR_OK)
            return error;
        cpr_route_free(route);
    }
    return NO_ERROR;
}

static cpr_error a2av_outcome(text_case *c, verdict *v) {
    if (!c->a2av)
        return NO_ERROR;
    return exchange_tokens(c, v, text_case_from(c), text_case_from(c), text_case_to(c));
}

static cpr_error splits_outcome(text_case *c, verdict *v) {
    (void)v;
    cpr_error error = NO_ERROR;
    for (size_t i = 0; i < c->splits.count && error.status == CPR_OK; i++) {
        cpr_route *route = NULL;
        const rank_numbers *own = &c->splits.items[i];
        if (build_from(c, &c->cu, text_case_rows(c, &c->cu), own->rank, &route, &error) != CPR_OK)
            return error;
        int64_t nothing = 0;
        const int64_t *splits = own->numbers.list.items ? own->numbers.list.items : &nothing;
        cpr_splits_check(route, CPR_SEND, splits, own->numbers.list.count, &error);
        cpr_route_free(route);
    }
    return error;
}

/* Undoing a distribution is gathering the shards: a route to contiguous, where rank after rank is the
 * stream. */
static cpr_error unshard_outcome(text_case *c, verdict *v) {
    if (!c->unshard_given)
        return NO_ERROR;
    return exchange_tokens(c, v, c->shard, c->unshard, CPR_CONTIGUOUS);
}

static cpr_error transport_outcome(text_case *c, verdict *v) {
    cpr_error first = NO_ERROR;
    if (!c->transport)
        return first;
    judged_ranks ranks = text_case_ranks(c);
    for (size_t i = 0; i < ranks.count && i < 8; i++) {
        cpr_route_request request;
        cpr_error error;
        if (text_case_request(c, ranks.items[i], &request, &error))
            cpr_transport_check(&request, c->row_width, (int)c->count_bits, NULL, &error);
        if (i == 0)
            first = error;
        else if (!errors_equal(&first, &error))
            law_fail(v, "ranks differ about the transport", "rank %" PRId64 ": %s, rank %" PRId64 ": %s",
                     ranks.items[0], cpr_status_name(first.status), ranks.items[i],
                     cpr_status_name(error.status));
    }
    return first;
}

cpr_error text_case_outcome(text_case *c, verdict *v) {
    static cpr_error (*const steps[])(text_case *, verdict *) = {
        kv_outcome, rank_cu_outcome, a2av_outcome, splits_outcome, unshard_outcome, transport_outcome};
    cpr_error error = NO_ERROR;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && error.status == CPR_OK; i++)
        error = steps[i](c, v);
    return error.status == CPR_OK ? text_shapes_outcome(c) : error;
}
