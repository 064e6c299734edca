/* SPDX-License-Identifier: Apache-2.0 */
#include "text_shapes.h"
#include "text_outcome.h"

#include <inttypes.h>
#include <stdlib.h>

static const cpr_error NO_ERROR = {CPR_OK, -1, 0, 0};
static const cpr_error OUT_OF_MEMORY = {CPR_NO_MEMORY, -1, 0, 0};

/*------------------------------------------------------------------------------
 * Lists
 *----------------------------------------------------------------------------*/

/* `count` numbers at the end of a list, to be written. NULL without memory, and where nobody wants so many. */
static int64_t *extend(int64_list *list, int64_t count, cpr_error *error) {
    const int64_t begin = list->count;
    if (count > CPR_ENUMERATION_MAX_TOKENS) {
        *error = (cpr_error){CPR_OVERFLOW, -1, count, CPR_ENUMERATION_MAX_TOKENS};
        return NULL;
    }
    for (int64_t i = 0; i < count; i++)
        if (!int64_list_append(list, 0)) {
            *error = OUT_OF_MEMORY;
            return NULL;
        }
    static int64_t nothing;
    return list->items ? list->items + begin : &nothing;
}

static bool append_all(int64_list *list, const int64_t *items, int64_t count, cpr_error *error) {
    int64_t *to = extend(list, count, error);
    for (int64_t i = 0; to && i < count; i++)
        to[i] = items[i];
    return to != NULL;
}

/*------------------------------------------------------------------------------
 * The TP x CP group
 *----------------------------------------------------------------------------*/

static int64_t tp_size_of(const text_case *c) {
    return c->fused ? c->fused_tp : 1;
}

/* A logical rank of a group of no size has a place all the same; the engine says what is wrong about it. */
static int64_t ranks_in_a_row(const text_case *c) {
    return tp_size_of(c) > 0 ? tp_size_of(c) : 1;
}

static cpr_tensor_ranks tensor_ranks(const text_case *c, int64_t logical) {
    return (cpr_tensor_ranks){tp_size_of(c), logical % ranks_in_a_row(c),
                              c->order_given ? c->order.list.items : NULL};
}

static cpr_status fused_route(text_case *c, int64_t logical, cpr_route **route, cpr_error *error) {
    const cpr_tensor_ranks tp = tensor_ranks(c, logical);
    cpr_route_request request;
    if (!text_case_request(c, logical / ranks_in_a_row(c), &request, error))
        return error->status;
    return cpr_route_build_fused(&request, &tp, NULL, route, error);
}

/* An order for another number of ranks would be read beyond its end. */
static bool order_fits(const text_case *c, cpr_error *error) {
    const int64_t ranks = c->cp_size * tp_size_of(c);
    if (!c->order_given || c->order.list.count == ranks)
        return true;
    *error = (cpr_error){CPR_TOTAL_MISMATCH, -1, c->order.list.count, ranks};
    return false;
}

static bool fused_rows(text_case *c, int64_t logical, cpr_side side, int64_list *answer, cpr_error *error) {
    cpr_route *route = NULL;
    if (!order_fits(c, error) || fused_route(c, logical, &route, error) != CPR_OK)
        return false;
    const int64_t rows = side == CPR_SEND ? route->send.rows : route->recv.rows;
    int64_t *to = extend(answer, rows, error);
    const bool good = to && cpr_route_rows(route, side, CPR_INT64, to, rows, error) == CPR_OK;
    cpr_route_free(route);
    return good;
}

static bool fused_splits(text_case *c, int64_t logical, cpr_side side, int64_list *answer, cpr_error *error) {
    cpr_route *route = NULL;
    if (!order_fits(c, error) || fused_route(c, logical, &route, error) != CPR_OK)
        return false;
    int64_t *to = extend(answer, route->geometry.cp_size, error);
    const bool good = to && cpr_route_splits(route, side, to, route->geometry.cp_size, error) == CPR_OK;
    cpr_route_free(route);
    return good;
}

static bool chunk_moves(const text_case *c, int64_t logical, cpr_side side, int64_list *answer,
                        cpr_error *error) {
    const cpr_tensor_ranks tp = tensor_ranks(c, logical);
    const cpr_geometry geometry = {c->cp_size, logical / ranks_in_a_row(c)};
    cpr_chunk_plan plan;
    if (!order_fits(c, error) || cpr_chunk_plan_make(text_case_tokens(c), geometry, &tp, text_case_from(c),
                                                     text_case_to(c), NULL, &plan, error) != CPR_OK)
        return false;
    const cpr_chunk_move *moves = side == CPR_SEND ? plan.send : plan.recv;
    bool good = true;
    for (int64_t i = 0; i < plan.chunks && good; i++)
        good = append_all(answer, (const int64_t[]){moves[i].peer, moves[i].chunk}, 2, error);
    return good;
}

/*------------------------------------------------------------------------------
 * Flat tensors and two views
 *----------------------------------------------------------------------------*/

static bool flat(text_case *c, int64_t rank, int64_list *answer, cpr_error *error) {
    cpr_route *route = NULL;
    int64_t count = 0;
    if (text_case_route(c, cpr_route_build, rank, text_case_from(c), text_case_to(c), &route, error) !=
        CPR_OK)
        return false;
    bool good = cpr_flat_size(route, &count, error) == CPR_OK;
    int64_t *to = good ? extend(answer, count, error) : NULL;
    good = to && cpr_flat_encode(route, to, count, error) == CPR_OK;
    cpr_route_free(route);
    return good;
}

static bool two_view(text_case *c, shape_answer which, int64_t rank, int64_list *answer, cpr_error *error) {
    cpr_route *route = NULL;
    cpr_two_view *view = NULL;
    if (text_case_route(c, cpr_route_build, rank, text_case_from(c), text_case_to(c), &route, error) !=
        CPR_OK)
        return false;
    bool good = cpr_two_view_make(route, NULL, &view, error) == CPR_OK;
    if (good) {
        const int64_t *lists[] = {view->zigzag_index, view->zigzag_split_sizes, view->contiguous_index,
                                  view->contiguous_split_sizes};
        const int64_t *list = lists[which - SHAPE_ZIGZAG_INDEX];
        const bool splits = which == SHAPE_ZIGZAG_SPLITS || which == SHAPE_CONTIGUOUS_SPLITS;
        good = !list || append_all(answer, list, splits ? view->geometry.cp_size : view->rows, error);
    }
    cpr_two_view_free(view);
    cpr_route_free(route);
    return good;
}

/*------------------------------------------------------------------------------
 * Padding
 *----------------------------------------------------------------------------*/

cpr_padding text_case_padding(const text_case *c) {
    cpr_padding padding = {.padded = cpr_cu_seqlens_int64(c->cu.list.items, c->cu.list.count)};
    if (c->real_given)
        padding.real = cpr_cu_seqlens_int64(c->real.list.items, c->real.list.count);
    return padding;
}

typedef cpr_status number_rows_fn(const cpr_padding *padding, cpr_geometry geometry, cpr_layout layout,
                                  const cpr_allocator *allocator, int64_t *numbers, int64_t count,
                                  cpr_error *error);

static bool rows_numbered(const text_case *c, int64_t rank, number_rows_fn *number, int64_list *answer,
                          cpr_error *error) {
    const cpr_padding padding = text_case_padding(c);
    const int64_t rows = c->cp_size > 0 ? text_case_tokens(c) / c->cp_size : 0;
    int64_t *to = extend(answer, rows, error);
    return to && number(&padding, (cpr_geometry){c->cp_size, rank}, text_case_from(c), NULL, to, rows,
                        error) == CPR_OK;
}

static bool real_rows(const text_case *c, int64_t rank, int64_list *answer, cpr_error *error) {
    const cpr_padding padding = text_case_padding(c);
    int64_t *to = extend(answer, 1, error);
    return to && cpr_real_rows(&padding, (cpr_geometry){c->cp_size, rank}, text_case_from(c), NULL, to,
                               error) == CPR_OK;
}

static bool local_offsets(const text_case *c, int64_t rank, int64_list *answer, cpr_error *error) {
    const cpr_padding padding = text_case_padding(c);
    int64_t *to = extend(answer, padding.padded.count, error);
    return to && cpr_local_offsets(&padding.padded, (cpr_geometry){c->cp_size, rank}, text_case_from(c), NULL,
                                   to, padding.padded.count, error) == CPR_OK;
}

static cpr_status padded_plan(text_case *c, int64_t rank, cpr_padded_plan **plan, cpr_error *error) {
    cpr_route_request request;
    if (!text_case_request(c, rank, &request, error))
        return error->status;
    return cpr_padded_plan_build(&request.cu_seqlens, request.rows, request.geometry, NULL, plan, error);
}

static bool plan_list(const cpr_padded_plan *plan, shape_answer which, int64_list *answer, cpr_error *error) {
    const bool zigzag = which == SHAPE_PAD_ZIGZAG_SPLITS || which == SHAPE_PAD_ZIGZAG_ROWS ||
                        which == SHAPE_PAD_ZIGZAG_GATHER;
    const cpr_layout layout = zigzag ? CPR_ZIGZAG : CPR_CONTIGUOUS;
    const int64_t ranks = plan->geometry.cp_size;
    const int64_t listed = zigzag ? plan->zigzag.rows : plan->contiguous.rows;
    const int64_t rows = zigzag ? plan->zigzag_rows : plan->contiguous_rows;
    int64_t *to;
    switch (which) {
    case SHAPE_PADDED_CU:
        to = extend(answer, plan->entries, error);
        for (int64_t i = 0; to && i < plan->entries; i++)
            to[i] = plan->padded_cu[i];
        return to != NULL;
    case SHAPE_PAD_CONTIGUOUS_SPLITS:
    case SHAPE_PAD_ZIGZAG_SPLITS:
        to = extend(answer, ranks, error);
        return to && cpr_padded_splits(plan, layout, to, ranks, error) == CPR_OK;
    case SHAPE_PAD_CONTIGUOUS_ROWS:
    case SHAPE_PAD_ZIGZAG_ROWS:
        to = extend(answer, listed, error);
        return to && cpr_padded_send_rows(plan, layout, to, listed, error) == CPR_OK;
    default:
        to = extend(answer, rows, error);
        return to && cpr_padded_gather_index(plan, layout, to, rows, error) == CPR_OK;
    }
}

static bool of_plan(text_case *c, shape_answer which, int64_t rank, int64_list *answer, cpr_error *error) {
    cpr_padded_plan *plan = NULL;
    if (padded_plan(c, rank, &plan, error) != CPR_OK)
        return false;
    const bool good = plan_list(plan, which, answer, error);
    cpr_padded_plan_free(plan);
    return good;
}

/*------------------------------------------------------------------------------
 * Answers
 *----------------------------------------------------------------------------*/

int64_t text_shape_ranks(const text_case *c, shape_answer which) {
    const bool of_group = which >= SHAPE_FUSED_SEND_ROWS && which <= SHAPE_CHUNK_RECV;
    const bool legal = c->cp_size >= 1 && c->cp_size <= CPR_CP_SIZE_MAX;
    return of_group && legal ? c->cp_size * tp_size_of(c) : c->cp_size;
}

bool text_shape_answer(text_case *c, shape_answer which, int64_t rank, int64_list *answer, cpr_error *error) {
    switch (which) {
    case SHAPE_FLAT:
        return flat(c, rank, answer, error);
    case SHAPE_ZIGZAG_INDEX:
    case SHAPE_ZIGZAG_SPLITS:
    case SHAPE_CONTIGUOUS_INDEX:
    case SHAPE_CONTIGUOUS_SPLITS:
        return two_view(c, which, rank, answer, error);
    case SHAPE_FUSED_SEND_ROWS:
        return fused_rows(c, rank, CPR_SEND, answer, error);
    case SHAPE_FUSED_RECV_ROWS:
        return fused_rows(c, rank, CPR_RECV, answer, error);
    case SHAPE_FUSED_INPUT_SPLITS:
        return fused_splits(c, rank, CPR_SEND, answer, error);
    case SHAPE_FUSED_OUTPUT_SPLITS:
        return fused_splits(c, rank, CPR_RECV, answer, error);
    case SHAPE_CHUNK_SEND:
        return chunk_moves(c, rank, CPR_SEND, answer, error);
    case SHAPE_CHUNK_RECV:
        return chunk_moves(c, rank, CPR_RECV, answer, error);
    case SHAPE_REAL_ROWS:
        return real_rows(c, rank, answer, error);
    case SHAPE_REAL_TOKENS:
        return rows_numbered(c, rank, cpr_real_tokens, answer, error);
    case SHAPE_SUCCESSORS:
        return rows_numbered(c, rank, cpr_successors, answer, error);
    case SHAPE_LOCAL_OFFSETS:
        return local_offsets(c, rank, answer, error);
    default:
        return of_plan(c, which, rank, answer, error);
    }
}

/*------------------------------------------------------------------------------
 * Outcomes
 *----------------------------------------------------------------------------*/

static cpr_error fused_outcome(text_case *c) {
    enum { ASKED_RANKS = 64 };
    cpr_error error = NO_ERROR;
    if (!c->fused || !order_fits(c, &error))
        return error;
    const int64_t ranks = text_shape_ranks(c, SHAPE_FUSED_SEND_ROWS);
    const int64_t asked = ranks < 1 ? 1 : ranks < ASKED_RANKS ? ranks : ASKED_RANKS;
    for (int64_t logical = 0; logical < asked && error.status == CPR_OK; logical++) {
        cpr_route *route = NULL;
        fused_route(c, logical, &route, &error);
        cpr_route_free(route);
    }
    return error;
}

static const int64_t *items_of(const offsets *o) {
    static const int64_t nothing;
    return o->list.items ? o->list.items : &nothing;
}

static cpr_error flat_form_outcome(text_case *c) {
    cpr_error error = NO_ERROR;
    for (size_t i = 0; i < c->flat_forms.count && error.status == CPR_OK; i++) {
        const rank_numbers *own = &c->flat_forms.items[i];
        cpr_flat_view view;
        cpr_flat_decode(items_of(&own->numbers), own->numbers.list.count,
                        (cpr_geometry){c->cp_size, own->rank}, NULL, &view, &error);
    }
    return error;
}

static cpr_error flat_outcome(text_case *c) {
    cpr_error error = NO_ERROR;
    for (size_t i = 0; i < c->flats.count && error.status == CPR_OK; i++) {
        const rank_numbers *own = &c->flats.items[i];
        cpr_route_request request;
        cpr_route *route = NULL;
        if (text_case_request(c, own->rank, &request, &error))
            cpr_flat_route(items_of(&own->numbers), own->numbers.list.count, &request, NULL, &route, &error);
        cpr_route_free(route);
    }
    return error;
}

cpr_error text_shapes_outcome(text_case *c) {
    static cpr_error (*const steps[])(text_case *) = {fused_outcome, flat_form_outcome, flat_outcome};
    cpr_error error = NO_ERROR;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && error.status == CPR_OK; i++)
        error = steps[i](c);
    return error;
}

cpr_error text_pad_outcome(text_case *c, verdict *v) {
    const judged_ranks ranks = text_case_ranks(c);
    cpr_error first = NO_ERROR;
    for (size_t i = 0; i < ranks.count; i++) {
        cpr_padded_plan *plan = NULL;
        cpr_error error;
        padded_plan(c, ranks.items[i], &plan, &error);
        cpr_padded_plan_free(plan);
        if (i == 0)
            first = error;
        else if (!errors_equal(&first, &error))
            law_fail(v, "ranks give different errors", "rank %" PRId64 ": %s, rank %" PRId64 ": %s",
                     ranks.items[0], cpr_status_name(first.status), ranks.items[i],
                     cpr_status_name(error.status));
    }
    return first;
}
