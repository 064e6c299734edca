/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A law that cannot fail proves nothing. Here engines with one bug each, most of them seen in public code,
 * are given to the laws that should notice, and those must.
 */
#include "alarms.h"
#include <stdlib.h>
#include <string.h>

/*==============================================================================
 * MARK: - Bugs
 *============================================================================*/

typedef cpr_status build_fn(const cpr_route_request *request, const cpr_allocator *allocator,
                            cpr_route **route, cpr_error *error);

/* The route of `wrong`, labelled as that of `request`: the bug shows in the runs alone. Where only one of
 * them is legal, the answer is the right one. */
static cpr_status build_mistaken(const cpr_route_request *request, const cpr_route_request *wrong,
                                 const cpr_allocator *allocator, cpr_route **route, cpr_error *error) {
    cpr_route *right = NULL, *mistaken = NULL;
    cpr_status status = cpr_route_build(request, allocator, &right, error);
    if (status != CPR_OK)
        return status;
    if (cpr_route_build(wrong, allocator, &mistaken, NULL) != CPR_OK) {
        *route = right;
        return CPR_OK;
    }
    mistaken->source = right->source;
    mistaken->target = right->target;
    mistaken->geometry = right->geometry;
    mistaken->boundaries_digest = right->boundaries_digest;
    cpr_route_free(right);
    *route = mistaken;
    return CPR_OK;
}

static cpr_layout replaced(cpr_layout layout, cpr_layout from, cpr_layout to) {
    return layout == from ? to : layout;
}

static cpr_status build_replacing(cpr_layout from, cpr_layout to, const cpr_route_request *request,
                                  const cpr_allocator *allocator, cpr_route **route, cpr_error *error) {
    cpr_route_request wrong = *request;
    wrong.source = replaced(request->source, from, to);
    wrong.target = replaced(request->target, from, to);
    return build_mistaken(request, &wrong, allocator, route, error);
}

static cpr_status intervals_replacing(cpr_layout from, cpr_layout to, const cpr_cu_seqlens *cu_seqlens,
                                      int64_t rows, cpr_geometry geometry, cpr_layout layout,
                                      const cpr_allocator *allocator, cpr_intervals **intervals,
                                      cpr_error *error) {
    if (cpr_layout_intervals(cu_seqlens, rows, geometry, replaced(layout, from, to), allocator, intervals,
                             error) == CPR_OK)
        return CPR_OK;
    return cpr_layout_intervals(cu_seqlens, rows, geometry, layout, allocator, intervals, error);
}

/* A layout that is taken for another one, by routes and by intervals. */
#define MISTAKEN_LAYOUT(name, from, to)                                                                      \
    static cpr_status build_##name(const cpr_route_request *request, const cpr_allocator *allocator,         \
                                   cpr_route **route, cpr_error *error) {                                    \
        return build_replacing(from, to, request, allocator, route, error);                                  \
    }                                                                                                        \
    static cpr_status intervals_##name(                                                                      \
        const cpr_cu_seqlens *cu_seqlens, int64_t rows, cpr_geometry geometry, cpr_layout layout,            \
        const cpr_allocator *allocator, cpr_intervals **intervals, cpr_error *error) {                       \
        return intervals_replacing(from, to, cu_seqlens, rows, geometry, layout, allocator, intervals,       \
                                   error);                                                                   \
    }
MISTAKEN_LAYOUT(per_sequence, CPR_CONTIGUOUS, CPR_PER_SEQUENCE_CONTIGUOUS)
MISTAKEN_LAYOUT(flat, CPR_ZIGZAG, CPR_FLAT_ZIGZAG)
MISTAKEN_LAYOUT(heads_first, CPR_ZIGZAG, CPR_HEADS_THEN_TAILS)

static cpr_status build_without_inner_boundaries(const cpr_route_request *request,
                                                 const cpr_allocator *allocator, cpr_route **route,
                                                 cpr_error *error) {
    cpr_route *right = NULL;
    const cpr_status status = cpr_route_build(request, allocator, &right, error);
    if (status != CPR_OK)
        return status;
    const int64_t ends[] = {0, right->total_tokens};
    cpr_route_free(right);
    cpr_route_request wrong = *request;
    wrong.cu_seqlens = cpr_cu_seqlens_int64(ends, 2);
    return build_mistaken(request, &wrong, allocator, route, error);
}

static cpr_status build_last_rank_off_by_one(const cpr_route_request *request, const cpr_allocator *allocator,
                                             cpr_route **route, cpr_error *error) {
    cpr_route_request wrong = *request;
    const cpr_geometry geometry = request->geometry;
    if (geometry.cp_size > 1 && geometry.cp_rank == geometry.cp_size - 1)
        wrong.geometry.cp_rank--;
    return build_mistaken(request, &wrong, allocator, route, error);
}

static int by_peer_and_source(const void *a, const void *b) {
    const cpr_run *x = a, *y = b;
    if (x->peer != y->peer)
        return x->peer < y->peer ? -1 : 1;
    return (x->source_row > y->source_row) - (x->source_row < y->source_row);
}

static cpr_status build_in_source_order(const cpr_route_request *request, const cpr_allocator *allocator,
                                        cpr_route **route, cpr_error *error) {
    const cpr_status status = cpr_route_build(request, allocator, route, error);
    if (status == CPR_OK && (*route)->total_tokens > 0) {
        qsort((*route)->send.runs, (size_t)(*route)->send.count, sizeof(cpr_run), by_peer_and_source);
        qsort((*route)->recv.runs, (size_t)(*route)->recv.count, sizeof(cpr_run), by_peer_and_source);
    }
    return status;
}

static cpr_status build_always_identity(const cpr_route_request *request, const cpr_allocator *allocator,
                                        cpr_route **route, cpr_error *error) {
    const cpr_status status = cpr_route_build(request, allocator, route, error);
    if (status == CPR_OK)
        (*route)->send.identity = (*route)->recv.identity = true;
    return status;
}

/* Upstream takes rank -1 for the last one. */
static cpr_status build_any_rank(const cpr_route_request *request, const cpr_allocator *allocator,
                                 cpr_route **route, cpr_error *error) {
    cpr_route_request lenient = *request;
    const cpr_geometry geometry = request->geometry;
    if (geometry.cp_size >= 1 && (geometry.cp_rank < 0 || geometry.cp_rank >= geometry.cp_size))
        lenient.geometry.cp_rank = geometry.cp_size - 1;
    return cpr_route_build(&lenient, allocator, route, error);
}

static cpr_status build_leaking_on_failure(const cpr_route_request *request, const cpr_allocator *allocator,
                                           cpr_route **route, cpr_error *error) {
    const cpr_status status = cpr_route_build(request, allocator, route, error);
    if (status != CPR_OK && allocator)
        allocator->allocate(allocator->context, 8);
    return status;
}

static cpr_status build_releasing_wrong_size(const cpr_route_request *request, const cpr_allocator *allocator,
                                             cpr_route **route, cpr_error *error) {
    const cpr_status status = cpr_route_build(request, allocator, route, error);
    void *memory = status != CPR_OK && allocator ? allocator->allocate(allocator->context, 16) : NULL;
    if (memory)
        allocator->release(allocator->context, memory, 8);
    return status;
}

static cpr_status build_clearing_output(const cpr_route_request *request, const cpr_allocator *allocator,
                                        cpr_route **route, cpr_error *error) {
    *route = NULL;
    return cpr_route_build(request, allocator, route, error);
}

static int64_t entry_of(const cpr_cu_seqlens *cu, int64_t i) {
    int32_t narrow;
    int64_t wide;
    const char *at = (const char *)cu->data + i * cu->stride * (cu->dtype == CPR_INT32 ? 4 : 8);
    if (cu->dtype == CPR_INT64) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

static cpr_status build_compacted_index(const cpr_route_request *request, const cpr_allocator *allocator,
                                        cpr_route **route, cpr_error *error) {
    cpr_error own;
    cpr_error *detail = error ? error : &own;
    const cpr_status status = cpr_route_build(request, allocator, route, detail);
    if (status == CPR_NOT_DIVISIBLE_2CP) {
        const cpr_cu_seqlens *cu = &request->cu_seqlens;
        const int64_t sequence = detail->index;
        for (int64_t i = 0; i < sequence; i++)
            detail->index -= entry_of(cu, i) == entry_of(cu, i + 1);
    }
    return status;
}

/* Counts in int32, as with torch.int32 indices. */
static cpr_status build_narrow(const cpr_route_request *request, const cpr_allocator *allocator,
                               cpr_route **route, cpr_error *error) {
    const cpr_status status = cpr_route_build(request, allocator, route, error);
    for (int64_t i = 0; status == CPR_OK && i < (*route)->send.count; i++)
        (*route)->send.runs[i].source_row &= INT32_MAX;
    return status;
}

static cpr_status build_ignoring_wide_strides(const cpr_route_request *request,
                                              const cpr_allocator *allocator, cpr_route **route,
                                              cpr_error *error) {
    cpr_route_request wrong = *request;
    if (request->cu_seqlens.stride == 3)
        wrong.cu_seqlens.stride = 2;
    return cpr_route_build(&wrong, allocator, route, error);
}

/* A digest that depends on when it is taken. */
static cpr_status build_counting_in_digest(const cpr_route_request *request, const cpr_allocator *allocator,
                                           cpr_route **route, cpr_error *error) {
    static uint64_t routes_built;
    const cpr_status status = cpr_route_build(request, allocator, route, error);
    if (status == CPR_OK)
        (*route)->boundaries_digest += ++routes_built;
    return status;
}

static cpr_status build_hashing_empties(const cpr_route_request *request, const cpr_allocator *allocator,
                                        cpr_route **route, cpr_error *error) {
    const cpr_status status = cpr_route_build(request, allocator, route, error);
    if (status == CPR_OK)
        (*route)->boundaries_digest ^= (uint64_t)request->cu_seqlens.count;
    return status;
}

static cpr_status build_allocating_first(const cpr_route_request *request, const cpr_allocator *allocator,
                                         cpr_route **route, cpr_error *error) {
    void *memory = allocator ? allocator->allocate(allocator->context, 8) : NULL;
    if (memory)
        allocator->release(allocator->context, memory, 8);
    return cpr_route_build_definition(request, allocator, route, error);
}

static cpr_status splits_transposed(const cpr_route *route, cpr_side side, int64_t *splits, int64_t count,
                                    cpr_error *error) {
    return cpr_route_splits(route, side == CPR_SEND ? CPR_RECV : CPR_SEND, splits, count, error);
}

static cpr_status splits_check_lenient(const cpr_route *route, cpr_side side, const int64_t *splits,
                                       int64_t count, cpr_error *error) {
    (void)route, (void)side, (void)splits, (void)count;
    *error = (cpr_error){.status = CPR_OK, .index = -1};
    return CPR_OK;
}

static cpr_status rows_unchecked(const cpr_route *route, cpr_side side, cpr_dtype dtype, void *rows,
                                 int64_t count, cpr_error *error) {
    const cpr_status status = cpr_route_rows(route, side, dtype, rows, count, error);
    if (status != CPR_OVERFLOW)
        return status;
    *error = (cpr_error){.status = CPR_OK, .index = -1};
    return CPR_OK;
}

static cpr_status rows_narrow_spoilt(const cpr_route *route, cpr_side side, cpr_dtype dtype, void *rows,
                                     int64_t count, cpr_error *error) {
    const cpr_status status = cpr_route_rows(route, side, dtype, rows, count, error);
    if (status == CPR_OK && dtype == CPR_INT32 && count > 0)
        ((int32_t *)rows)[count - 1] = 0;
    return status;
}

static cpr_status rows_swapped_sides(const cpr_route *route, cpr_side side, cpr_dtype dtype, void *rows,
                                     int64_t count, cpr_error *error) {
    return cpr_route_rows(route, side == CPR_SEND ? CPR_RECV : CPR_SEND, dtype, rows, count, error);
}

static bool equal_by_shape(const cpr_route *a, const cpr_route *b) {
    return a->send.count == b->send.count && a->recv.count == b->recv.count;
}

static bool validate_nothing(const cpr_route *route, const cpr_allocator *allocator, const char **why) {
    (void)route, (void)allocator, (void)why;
    return true;
}

/* Counts rows and no more. */
static bool validate_counts(const cpr_route *route, const cpr_allocator *allocator, const char **why) {
    (void)allocator;
    int64_t sent = 0;
    for (int64_t i = 0; i < route->send.count; i++)
        sent = (int64_t)((uint64_t)sent + (uint64_t)route->send.runs[i].length);
    if (sent == route->send.rows)
        return true;
    if (why)
        *why = "lengths do not add up";
    return false;
}

static cpr_status exchange_without_tags(const cpr_route *const *routes, int64_t cp_size, size_t row_bytes,
                                        const cpr_shard *sources, cpr_shard *targets,
                                        const cpr_allocator *allocator, cpr_error *error) {
    cpr_shard *tagged = malloc((size_t)cp_size * sizeof *tagged);
    assert_non_null(tagged);
    for (int64_t r = 0; r < cp_size; r++) {
        tagged[r] = sources[r];
        tagged[r].layout = routes[r]->source;
    }
    const cpr_status status =
        cpr_exchange_host(routes, cp_size, row_bytes, tagged, targets, allocator, error);
    free(tagged);
    return status;
}

static cpr_status exchange_tagging_early(const cpr_route *const *routes, int64_t cp_size, size_t row_bytes,
                                         const cpr_shard *sources, cpr_shard *targets,
                                         const cpr_allocator *allocator, cpr_error *error) {
    for (int64_t r = 0; r < cp_size; r++)
        targets[r].layout = routes[r]->target;
    return cpr_exchange_host(routes, cp_size, row_bytes, sources, targets, allocator, error);
}

/* Gathers where it should scatter: the same for half of all routes. */
static void scatter_gathering(const cpr_route *route, size_t row_bytes, const void *message, void *target) {
    const char *from = message;
    char *to = target;
    if (row_bytes == 0) /* rows of nothing may be nowhere */
        return;
    for (int64_t i = 0, row = 0; i < route->recv.count; i++)
        for (int64_t k = 0; k < route->recv.runs[i].length; k++, row++)
            memcpy(to + (size_t)row * row_bytes,
                   from + (size_t)(route->recv.runs[i].target_row + k) * row_bytes, row_bytes);
}

static cpr_status transport_check_one_bit_less(const cpr_route_request *request, int64_t row_width,
                                               int count_bits, const cpr_allocator *allocator,
                                               cpr_error *error) {
    return cpr_transport_check(request, row_width, count_bits > 8 ? count_bits - 1 : count_bits, allocator,
                               error);
}

static bool dump_never_stopped(const cpr_route *route, cpr_dump_form form, cpr_write_fn write,
                               void *context) {
    cpr_route_dump(route, form, write, context);
    return true;
}

static bool dump_other_side(const cpr_route *route, cpr_dump_form form, cpr_write_fn write, void *context) {
    cpr_route swapped = *route;
    swapped.send = route->recv;
    swapped.recv = route->send;
    return cpr_route_dump(&swapped, form, write, context);
}

static bool error_dump_without_index(int64_t rank, const cpr_error *error, cpr_write_fn write,
                                     void *context) {
    cpr_error vague = *error;
    vague.index = -1;
    return cpr_error_dump_json(rank, &vague, write, context);
}

/* Shapes. */

static cpr_status flat_encode_other_side(const cpr_route *route, int64_t *flat, int64_t count,
                                         cpr_error *error) {
    cpr_route swapped = *route;
    swapped.send = route->recv;
    swapped.recv = route->send;
    return cpr_flat_encode(&swapped, flat, count, error);
}

/* As upstream's decoder: header and length are all that is looked at. */
static cpr_status flat_decode_lenient(const int64_t *flat, int64_t count, cpr_geometry geometry,
                                      const cpr_allocator *allocator, cpr_flat_view *view, cpr_error *error) {
    const cpr_status status = cpr_flat_decode(flat, count, geometry, allocator, view, error);
    if (status != CPR_SPLIT_MISMATCH && status != CPR_BAD_ROW)
        return status;
    *error = (cpr_error){CPR_OK, -1, 0, 0};
    return CPR_OK;
}

static cpr_status flat_route_mixing_up(const int64_t *flat, int64_t count, const cpr_route_request *request,
                                       const cpr_allocator *allocator, cpr_route **route, cpr_error *error) {
    const cpr_status status = cpr_flat_route(flat, count, request, allocator, route, error);
    if (status == CPR_DIVERGENT_METADATA)
        *error = (cpr_error){status, error->index, error->wanted, error->got};
    return status;
}

/* Where memory runs out it takes the tensor for that of the other direction, if it is. */
static cpr_status flat_route_guessing(const int64_t *flat, int64_t count, const cpr_route_request *request,
                                      const cpr_allocator *allocator, cpr_route **route, cpr_error *error) {
    cpr_route *made = NULL;
    const cpr_status status = cpr_flat_route(flat, count, request, allocator, route, error);
    if (status != CPR_NO_MEMORY)
        return status;
    cpr_error guessed;
    if (cpr_flat_route(flat, count, request, NULL, &made, &guessed) == CPR_LAYOUT_MISMATCH)
        *error = guessed;
    cpr_route_free(made);
    return error->status;
}

static cpr_status flat_route_unchecked(const int64_t *flat, int64_t count, const cpr_route_request *request,
                                       const cpr_allocator *allocator, cpr_route **route, cpr_error *error) {
    cpr_flat_view view;
    const cpr_status status = cpr_flat_decode(flat, count, request->geometry, allocator, &view, error);
    return status != CPR_OK ? status : cpr_route_build(request, allocator, route, error);
}

/* Takes every route for one from zigzag to contiguous. */
static cpr_status two_view_of_no_pack(const cpr_route *route, const cpr_allocator *allocator,
                                      cpr_two_view **view, cpr_error *error) {
    const cpr_status status = cpr_two_view_make(route, allocator, view, error);
    if (status == CPR_OK)
        (*view)->boundaries_digest = 0;
    return status;
}

static cpr_status two_view_one_way(const cpr_route *route, const cpr_allocator *allocator,
                                   cpr_two_view **view, cpr_error *error) {
    cpr_route mistaken = *route;
    if (route->source == CPR_CONTIGUOUS && route->target == CPR_ZIGZAG) {
        mistaken.source = CPR_ZIGZAG;
        mistaken.target = CPR_CONTIGUOUS;
    }
    return cpr_two_view_make(&mistaken, allocator, view, error);
}

static cpr_status build_fused_in_order(const cpr_route_request *request, const cpr_tensor_ranks *tp,
                                       const cpr_allocator *allocator, cpr_route **route, cpr_error *error) {
    cpr_tensor_ranks natural = *tp;
    natural.group_ranks = NULL;
    return cpr_route_build_fused(request, &natural, allocator, route, error);
}

/* The first window for every TP rank. */
static cpr_status build_fused_first_window(const cpr_route_request *request, const cpr_tensor_ranks *tp,
                                           const cpr_allocator *allocator, cpr_route **route,
                                           cpr_error *error) {
    cpr_tensor_ranks first = *tp;
    first.tp_rank = tp->tp_rank > 0 && tp->tp_rank < tp->tp_size ? 0 : tp->tp_rank;
    cpr_route *made = NULL;
    const cpr_status status = cpr_route_build_fused(request, &first, allocator, &made, error);
    if (status == CPR_OK) {
        made->geometry.cp_rank += tp->tp_rank - first.tp_rank;
        *route = made;
    }
    return status;
}

static cpr_status chunk_plan_backwards(int64_t rows, cpr_geometry geometry, const cpr_tensor_ranks *tp,
                                       cpr_layout source, cpr_layout target, const cpr_allocator *allocator,
                                       cpr_chunk_plan *plan, cpr_error *error) {
    const cpr_status status = cpr_chunk_plan_make(rows, geometry, tp, source, target, allocator, plan, error);
    if (status == CPR_OK && plan->chunks == 2) {
        const cpr_chunk_move first = plan->send[0];
        plan->send[0] = plan->send[1];
        plan->send[1] = first;
    }
    return status;
}

static cpr_status padded_plan_naming_other_rows(const cpr_cu_seqlens *cu, int64_t rows, cpr_geometry geometry,
                                                const cpr_allocator *allocator, cpr_padded_plan **plan,
                                                cpr_error *error) {
    const cpr_status status = cpr_padded_plan_build(cu, rows, geometry, allocator, plan, error);
    if (status == CPR_OK && (*plan)->zigzag.count > 0)
        (*plan)->zigzag.runs[0].source_row++;
    return status;
}

static cpr_status padded_plan_never_identity(const cpr_cu_seqlens *cu, int64_t rows, cpr_geometry geometry,
                                             const cpr_allocator *allocator, cpr_padded_plan **plan,
                                             cpr_error *error) {
    const cpr_status status = cpr_padded_plan_build(cu, rows, geometry, allocator, plan, error);
    if (status == CPR_OK)
        (*plan)->zigzag.identity = false;
    return status;
}

static cpr_status padded_gather_anything(const cpr_padded_plan *plan, cpr_layout layout, int64_t *index,
                                         int64_t count, cpr_error *error) {
    const cpr_status status = cpr_padded_gather_index(plan, layout, index, count, error);
    for (int64_t i = 0; status == CPR_OK && i < count; i++)
        index[i] = index[i] < 0 ? 0 : index[i];
    return status;
}

/* Padding keeps what was in the buffer. */
static void padded_receive_over(const cpr_padded_plan *plan, cpr_layout layout, size_t row_bytes,
                                const void *message, void *target) {
    cpr_padded_plan full = *plan;
    full.contiguous_rows = plan->contiguous.rows;
    full.zigzag_rows = plan->zigzag.rows;
    cpr_padded_receive(&full, layout, row_bytes, message, target);
}

static cpr_status successors_of_stream(const cpr_padding *padding, cpr_geometry geometry, cpr_layout layout,
                                       const cpr_allocator *allocator, int64_t *successors, int64_t count,
                                       cpr_error *error) {
    const cpr_padding all_real = {.padded = padding->padded};
    return cpr_successors(&all_real, geometry, layout, allocator, successors, count, error);
}

static cpr_status real_tokens_padded(const cpr_padding *padding, cpr_geometry geometry, cpr_layout layout,
                                     const cpr_allocator *allocator, int64_t *tokens, int64_t count,
                                     cpr_error *error) {
    const cpr_padding all_real = {.padded = padding->padded};
    return cpr_real_tokens(&all_real, geometry, layout, allocator, tokens, count, error);
}

static uint64_t digest_of_boundaries(const cpr_route *route) {
    return route ? route->boundaries_digest : 0;
}

static cpr_status digests_check_equal(const uint64_t *digests, int64_t count, cpr_error *error) {
    const cpr_status status = cpr_digests_check(digests, count, error);
    if (status != CPR_DIVERGENT_METADATA || error->index != 0)
        return status;
    *error = (cpr_error){CPR_OK, -1, 0, 0};
    return CPR_OK;
}

static cpr_status digests_check_last(const uint64_t *digests, int64_t count, cpr_error *error) {
    const uint64_t ends[] = {digests[0], digests[count - 1]};
    return cpr_digests_check(ends, 2, error);
}

static cpr_move_chunk move_chunk_in_one_run(const cpr_moves *moves, int64_t units_per_row, int64_t number) {
    cpr_move_chunk chunk = cpr_move_chunk_at(moves, units_per_row, number);
    chunk.last_run = chunk.first_run;
    return chunk;
}

static cpr_unit_move move_by_first_run(const cpr_moves *moves, int64_t units_per_row,
                                       const cpr_move_chunk *chunk, int lane, int step) {
    (void)moves;
    (void)units_per_row;
    cpr_unit_move move = cpr_move_in_one_run(chunk, lane);
    move.from += step * CPR_MOVE_LANES;
    move.to += step * CPR_MOVE_LANES;
    return move;
}

static cpr_unit_move move_one_unit_late(const cpr_move_chunk *chunk, int lane) {
    cpr_unit_move move = cpr_move_in_one_run(chunk, lane);
    move.from += chunk->end < chunk->begin + CPR_MOVE_CHUNK;
    return move;
}

static cpr_offsets_scan scan_but_the_first(const cpr_offsets *offsets, const cpr_conversion_facts *facts,
                                           int64_t thread, int64_t threads) {
    return cpr_offsets_scanned(offsets, facts, thread + (threads > 1), threads);
}

static cpr_offsets_scan scan_with_empties(const cpr_offsets *offsets, const cpr_conversion_facts *facts,
                                          int64_t thread, int64_t threads) {
    cpr_offsets_scan scan = cpr_offsets_scanned(offsets, facts, thread, threads);
    scan.digest += (uint64_t)(thread == 0 ? offsets->count : 0);
    return scan;
}

static cpr_offsets_scan scan_last_ragged(const cpr_offsets *offsets, const cpr_conversion_facts *facts,
                                         int64_t thread, int64_t threads) {
    cpr_offsets_scan scan = cpr_offsets_scanned(offsets, facts, thread, threads);
    scan.ragged += scan.ragged != INT64_MAX && scan.ragged + 2 < offsets->count;
    return scan;
}

static cpr_error lengths_before_decreasing(const cpr_offsets *offsets, const cpr_conversion_facts *facts,
                                           const cpr_offsets_scan *scan) {
    cpr_offsets_scan blind = *scan;
    blind.decreasing = INT64_MAX;
    return cpr_offsets_judged(offsets, facts, &blind);
}

static int64_t turn_without_end(const cpr_places *places, int64_t chunks, int64_t number) {
    const int64_t turned = cpr_direct_turn(places, chunks, number);
    return turned > 0 ? turned - 1 : turned;
}

static cpr_direct_chunk direct_chunk_in_one_run(const cpr_places *places, int64_t units_per_row,
                                                int64_t number) {
    cpr_direct_chunk chunk = cpr_direct_chunk_at(places, units_per_row, number);
    chunk.in_one_run = true;
    return chunk;
}

static cpr_direct_place lookup_of_neighbour(const cpr_places *places, int64_t units_per_row, int64_t unit) {
    cpr_direct_place place = cpr_direct_by_lookup(places, units_per_row, unit);
    place.peer = (place.peer + 1) % places->ranks;
    return place;
}

static cpr_direct_findings failures_unseen(int64_t rank, const cpr_direct_note *note,
                                           const cpr_direct_note *of_rank_0) {
    cpr_direct_findings findings = cpr_direct_found_in(rank, note, of_rank_0);
    findings.failed = INT64_MAX;
    return findings;
}

static cpr_status build_group_swapped(const cpr_route_request *request, const cpr_allocator *allocator,
                                      cpr_route_group **group, cpr_error *error) {
    const cpr_status status = cpr_route_group_build(request, allocator, group, error);
    if (status == CPR_OK) {
        cpr_route *first = (*group)->routes[0];
        (*group)->routes[0] = (*group)->routes[(*group)->size - 1];
        (*group)->routes[(*group)->size - 1] = first;
    }
    return status;
}

/*==============================================================================
 * MARK: - Alarms
 *============================================================================*/

/* What is planted replaces what the library has; NULL leaves it. A bug in one builder is for laws that
 * compare them, the same bug in all of them for those that know better. */
typedef struct planted {
    const char *bug;
    build_fn *one_builder, *all_builders, *definition;
    engine_under_test rest;
    const char *noticed_by[LAWS_OF_AN_ALARM];
} planted;

static const planted alarms[] = {
    {.bug = "contiguous taken for per_sequence_contiguous",
     .all_builders = build_per_sequence,
     .rest.layout_intervals = intervals_per_sequence,
     .noticed_by = {"partition", "delivery", "splits", "order", "mirror", "round_trip"}},
    {.bug = "zigzag taken for flat_zigzag",
     .all_builders = build_flat,
     .rest.layout_intervals = intervals_flat,
     .noticed_by = {"partition", "delivery", "splits", "order", "round_trip"}},
    {.bug = "zigzag taken for heads_then_tails",
     .all_builders = build_heads_first,
     .rest.layout_intervals = intervals_heads_first,
     .noticed_by = {"partition", "delivery", "order", "mirror", "round_trip"}},
    {.bug = "inner boundaries dropped",
     .all_builders = build_without_inner_boundaries,
     .noticed_by = {"delivery", "splits", "order", "round_trip"}},
    {.bug = "one builder takes contiguous for per_sequence_contiguous",
     .one_builder = build_per_sequence,
     .noticed_by = {"equivalence"}},
    {.bug = "one builder takes zigzag for flat_zigzag",
     .one_builder = build_flat,
     .noticed_by = {"equivalence"}},
    {.bug = "one builder takes zigzag for heads_then_tails",
     .one_builder = build_heads_first,
     .noticed_by = {"equivalence"}},
    {.bug = "one builder drops inner boundaries",
     .one_builder = build_without_inner_boundaries,
     .noticed_by = {"equivalence"}},
    {.bug = "the first and the last rank swapped",
     .rest.build_group = build_group_swapped,
     .noticed_by = {"all_ranks"}},
    {.bug = "split tables transposed",
     .rest.splits = splits_transposed,
     .noticed_by = {"splits", "delivery"}},
    {.bug = "rows of the other side",
     .rest.rows = rows_swapped_sides,
     .noticed_by = {"delivery", "order", "identity"}},
    {.bug = "runs in source order",
     .all_builders = build_in_source_order,
     .noticed_by = {"order", "validation", "equivalence"}},
    {.bug = "the last rank gets the route of the one before",
     .all_builders = build_last_rank_off_by_one,
     .noticed_by = {"delivery", "splits", "order", "round_trip"}},
    {.bug = "one builder is off by one at the last rank",
     .one_builder = build_last_rank_off_by_one,
     .noticed_by = {"equivalence"}},
    {.bug = "every list called an identity",
     .all_builders = build_always_identity,
     .noticed_by = {"identity", "validation", "equivalence"}},
    {.bug = "any rank accepted",
     .all_builders = build_any_rank,
     .noticed_by = {"errors", "equivalence", "dump"}},
    {.bug = "memory leaked on failure",
     .all_builders = build_leaking_on_failure,
     .noticed_by = {"errors", "no_memory"}},
    {.bug = "memory released with a wrong size",
     .all_builders = build_releasing_wrong_size,
     .noticed_by = {"errors", "no_memory"}},
    {.bug = "output cleared on failure",
     .all_builders = build_clearing_output,
     .noticed_by = {"errors", "no_memory"}},
    {.bug = "sequences numbered without the empty ones",
     .all_builders = build_compacted_index,
     .noticed_by = {"errors", "equivalence", "empty_slots"}},
    {.bug = "rows cut to 31 bits", .all_builders = build_narrow, .noticed_by = {"scale", "limits"}},
    {.bug = "a stride taken for another",
     .all_builders = build_ignoring_wide_strides,
     .noticed_by = {"views"}},
    {.bug = "a digest that nothing determines",
     .all_builders = build_counting_in_digest,
     .noticed_by = {"determinism", "round_trip", "equivalence"}},
    {.bug = "empty sequences in the digest",
     .all_builders = build_hashing_empties,
     .noticed_by = {"empty_slots"}},
    {.bug = "an oracle allocates before it looks at the size",
     .definition = build_allocating_first,
     .noticed_by = {"limits"}},
    {.bug = "all splits accepted", .rest.splits_check = splits_check_lenient, .noticed_by = {"splits"}},
    {.bug = "rows beyond int32 accepted", .rest.rows = rows_unchecked, .noticed_by = {"limits"}},
    {.bug = "rows in int32 spoilt at the end", .rest.rows = rows_narrow_spoilt, .noticed_by = {"order"}},
    {.bug = "routes of one shape called equal", .rest.equal = equal_by_shape, .noticed_by = {"validation"}},
    {.bug = "nothing validated", .rest.validate = validate_nothing, .noticed_by = {"validation"}},
    {.bug = "only lengths validated", .rest.validate = validate_counts, .noticed_by = {"validation"}},
    {.bug = "tags of shards ignored",
     .rest.exchange_host = exchange_without_tags,
     .noticed_by = {"round_trip"}},
    {.bug = "targets tagged before the checks",
     .rest.exchange_host = exchange_tagging_early,
     .noticed_by = {"round_trip"}},
    {.bug = "gathering for scattering", .rest.scatter = scatter_gathering, .noticed_by = {"delivery"}},
    {.bug = "a transport with a bit less",
     .rest.transport_check = transport_check_one_bit_less,
     .noticed_by = {"limits"}},
    {.bug = "a stopped dump that says it finished", .rest.dump = dump_never_stopped, .noticed_by = {"dump"}},
    {.bug = "a dump with its sides swapped", .rest.dump = dump_other_side, .noticed_by = {"dump"}},
    {.bug = "an error dumped without its index",
     .rest.error_dump = error_dump_without_index,
     .noticed_by = {"dump"}},
    {.bug = "a flat tensor with its sides swapped",
     .rest.flat_encode = flat_encode_other_side,
     .noticed_by = {"flat_tensor"}},
    {.bug = "splits and rows of a flat tensor believed",
     .rest.flat_decode = flat_decode_lenient,
     .noticed_by = {"flat_tensor"}},
    {.bug = "a flat tensor taken for any route",
     .rest.flat_route = flat_route_unchecked,
     .noticed_by = {"flat_tensor"}},
    {.bug = "what a flat tensor says and what it should say mixed up",
     .rest.flat_route = flat_route_mixing_up,
     .noticed_by = {"flat_tensor"}},
    {.bug = "a direction told without the memory to tell it",
     .rest.flat_route = flat_route_guessing,
     .noticed_by = {"no_memory"}},
    {.bug = "a view that keeps no digest", .rest.two_view = two_view_of_no_pack, .noticed_by = {"two_view"}},
    {.bug = "two views for one direction", .rest.two_view = two_view_one_way, .noticed_by = {"two_view"}},
    {.bug = "group order ignored", .rest.build_fused = build_fused_in_order, .noticed_by = {"fused"}},
    {.bug = "the first window for every TP rank",
     .rest.build_fused = build_fused_first_window,
     .noticed_by = {"fused"}},
    {.bug = "chunks sent backwards", .rest.chunk_plan = chunk_plan_backwards, .noticed_by = {"chunks"}},
    {.bug = "a plan that pads names other rows of the senders",
     .rest.padded_plan = padded_plan_naming_other_rows,
     .noticed_by = {"padded"}},
    {.bug = "a plan that pads calls no list an identity",
     .rest.padded_plan = padded_plan_never_identity,
     .noticed_by = {"padded"}},
    {.bug = "any row gathered for padding",
     .rest.padded_gather_index = padded_gather_anything,
     .noticed_by = {"padded"}},
    {.bug = "padding not zeroed", .rest.padded_receive = padded_receive_over, .noticed_by = {"padded"}},
    {.bug = "padding has successors", .rest.successors = successors_of_stream, .noticed_by = {"real_rows"}},
    {.bug = "padding counted among real tokens",
     .rest.real_tokens = real_tokens_padded,
     .noticed_by = {"real_rows"}},
    {.bug = "a warp that misses the next run",
     .rest.move_chunk_at = move_chunk_in_one_run,
     .noticed_by = {"device_moves"}},
    {.bug = "lanes that look at the first run alone",
     .rest.move_in_many_runs = move_by_first_run,
     .noticed_by = {"device_moves"}},
    {.bug = "lanes that are one unit late",
     .rest.move_in_one_run = move_one_unit_late,
     .noticed_by = {"device_moves"}},
    {.bug = "a thread that skips its first entry",
     .rest.offsets_scanned = scan_but_the_first,
     .noticed_by = {"direct"}},
    {.bug = "empty sequences in the device's digest",
     .rest.offsets_scanned = scan_with_empties,
     .noticed_by = {"direct"}},
    {.bug = "not the first ragged sequence",
     .rest.offsets_scanned = scan_last_ragged,
     .noticed_by = {"direct"}},
    {.bug = "lengths judged before boundaries",
     .rest.offsets_judged = lengths_before_decreasing,
     .noticed_by = {"direct"}},
    {.bug = "a chunk that nobody takes", .rest.direct_turn = turn_without_end, .noticed_by = {"direct"}},
    {.bug = "a warp that misses where rows part",
     .rest.direct_chunk_at = direct_chunk_in_one_run,
     .noticed_by = {"direct"}},
    {.bug = "rows to the neighbour", .rest.direct_by_lookup = lookup_of_neighbour, .noticed_by = {"direct"}},
    {.bug = "a refused rank unseen", .rest.direct_found_in = failures_unseen, .noticed_by = {"direct"}},
    {.bug = "layouts not in the digest", .rest.route_digest = digest_of_boundaries, .noticed_by = {"digest"}},
    {.bug = "only the last digest compared",
     .rest.digests_check = digests_check_last,
     .noticed_by = {"digest"}},
    {.bug = "equal digests enough, though nobody has a route",
     .rest.digests_check = digests_check_equal,
     .noticed_by = {"digest"}},
};

static const engine_under_test *plant(const planted *a) {
    static engine_under_test engine;
    engine = the_engine;
    for (int by = 0; by < BUILDER_COUNT; by++)
        if (a->all_builders)
            engine.build[by] = a->all_builders;
    if (a->one_builder)
        engine.build[BY_INTERVALS] = a->one_builder;
    if (a->definition)
        engine.build[BY_DEFINITION] = a->definition;
#define PLANT(function)                                                                                      \
    if (a->rest.function)                                                                                    \
    engine.function = a->rest.function
    PLANT(build_group);
    PLANT(layout_intervals);
    PLANT(equal);
    PLANT(validate);
    PLANT(rows);
    PLANT(splits);
    PLANT(exchange_host);
    PLANT(pack);
    PLANT(scatter);
    PLANT(splits_check);
    PLANT(transport_check);
    PLANT(dump);
    PLANT(error_dump);
    PLANT(route_digest);
    PLANT(digests_check);
    PLANT(flat_encode);
    PLANT(flat_decode);
    PLANT(flat_route);
    PLANT(two_view);
    PLANT(build_fused);
    PLANT(chunk_plan);
    PLANT(padded_plan);
    PLANT(padded_gather_index);
    PLANT(padded_receive);
    PLANT(real_tokens);
    PLANT(successors);
    PLANT(move_chunk_at);
    PLANT(move_in_one_run);
    PLANT(move_in_many_runs);
    PLANT(offsets_scanned);
    PLANT(offsets_judged);
    PLANT(direct_turn);
    PLANT(direct_chunk_at);
    PLANT(direct_by_lookup);
    PLANT(direct_found_in);
#undef PLANT
    return &engine;
}

static alarm alarm_at(size_t number) {
    const planted *a = &alarms[number];
    return (alarm){a->bug, a->noticed_by, plant(a)};
}

int main(void) {
    return alarm_tests(&(alarm_suite){.name = "law alarms",
                                      .family = &route_family,
                                      .engine = &the_engine,
                                      .cases_without_alarm = 300,
                                      .alarm_count = sizeof alarms / sizeof *alarms,
                                      .alarm_at = alarm_at});
}
