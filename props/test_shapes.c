/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of a route, worked out by hand. */
#include "example.h"

static const int64_t TWO_SEQUENCES[] = {0, 24, 32};
static const int64_t UPSTREAM_TENSOR[] = {4, 1, 8, 8, 0, 8, 3, 0, 3, 2, 0, 0, 2, 6, 0, 7, 1, 2, 3, 4, 5, 6};
enum { TENSOR_LENGTH = sizeof UPSTREAM_TENSOR / sizeof *UPSTREAM_TENSOR };

/*==============================================================================
 * MARK: - Flat tensor
 *============================================================================*/

static void a_flat_tensor_is_the_published_one(void **state) {
    (void)state;
    cpr_route *route = route_of(TWO_SEQUENCES, 3, (cpr_geometry){4, 1}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    int64_t count = 0, flat[TENSOR_LENGTH];
    cpr_error error;
    assert_int_equal(cpr_flat_size(route, &count, &error), CPR_OK);
    assert_int_equal(count, TENSOR_LENGTH);
    assert_int_equal(cpr_flat_encode(route, flat, count, &error), CPR_OK);
    expect_numbers(flat, UPSTREAM_TENSOR, TENSOR_LENGTH);
    assert_int_equal(cpr_flat_encode(route, flat, count - 1, &error), CPR_TOTAL_MISMATCH);
    expect_error(&error, CPR_TOTAL_MISMATCH, -1, TENSOR_LENGTH - 1, TENSOR_LENGTH);
    cpr_route_free(route);
}

/* Of routes that are none, for the numbers alone. */
static void flat_tensors_end_at_64_bits(void **state) {
    (void)state;
    const int64_t most = INT64_MAX - 8; /* rows, beside a header and two split sizes */
    for (int64_t i = 0; i < 4; i++) {
        cpr_route route = {.geometry = {1, 0}};
        cpr_run_list *many = i % 2 == 0 ? &route.send : &route.recv;
        cpr_run_list *few = i % 2 == 0 ? &route.recv : &route.send;
        int64_t count = -7;
        cpr_error error;
        few->rows = i / 2;
        many->rows = most - few->rows;
        assert_int_equal(cpr_flat_size(&route, &count, &error), CPR_OK);
        assert_int_equal(count, INT64_MAX);
        many->rows++;
        assert_int_equal(cpr_flat_size(&route, &count, &error), CPR_OVERFLOW);
        expect_error(&error, CPR_OVERFLOW, -1, INT64_MAX, INT64_MAX);
        assert_int_equal(cpr_flat_encode(&route, &count, 1, &error), CPR_OVERFLOW);
        assert_int_equal(count, INT64_MAX);
    }
}

static void a_flat_header_has_the_rows_of_each_side(void **state) {
    (void)state;
    static const int64_t wanted[] = {1, 0, 3, 5, 0, 0, 0, 0};
    const cpr_route route = {
        .geometry = {1, 0}, .send = {.rows = 3, .identity = true}, .recv = {.rows = 5, .identity = true}};
    int64_t flat[8];
    assert_int_equal(cpr_flat_encode(&route, flat, 8, NULL), CPR_OK);
    expect_numbers(flat, wanted, 8);
}

static void a_flat_tensor_is_taken_apart(void **state) {
    (void)state;
    cpr_flat_view view;
    assert_int_equal(cpr_flat_decode(UPSTREAM_TENSOR, TENSOR_LENGTH, (cpr_geometry){4, 1}, NULL, &view, NULL),
                     CPR_OK);
    assert_int_equal(view.geometry.cp_size, 4);
    assert_int_equal(view.geometry.cp_rank, 1);
    assert_int_equal(view.rows, 8);
    assert_ptr_equal(view.input_splits, UPSTREAM_TENSOR + 6);
    assert_ptr_equal(view.output_splits, UPSTREAM_TENSOR + 10);
    assert_null(view.send_rows);
    assert_ptr_equal(view.recv_rows, UPSTREAM_TENSOR + 14);
}

static void what_upstream_does_not_check_is_refused(void **state) {
    (void)state;
    static const struct {
        int64_t entry, value;
        cpr_error error;
    } faults[] = {
        {0, 3, {CPR_BAD_CP_SIZE, 0, 3, 4}},      {1, -1, {CPR_BAD_RANK, 1, -1, 1}},
        {2, -8, {CPR_TOTAL_MISMATCH, 2, -8, 0}}, {3, 7, {CPR_TOTAL_MISMATCH, 3, 7, 8}},
        {4, 5, {CPR_TOTAL_MISMATCH, 4, 5, 8}},   {4, 8, {CPR_TOTAL_MISMATCH, -1, 22, 30}},
        {6, -1, {CPR_SPLIT_MISMATCH, 6, -1, 8}}, {8, 6, {CPR_SPLIT_MISMATCH, 8, 6, 5}},
        {9, 1, {CPR_SPLIT_MISMATCH, 9, 1, 2}},   {15, 8, {CPR_BAD_ROW, 15, 8, 8}},
        {15, -1, {CPR_BAD_ROW, 15, -1, 8}},      {21, 0, {CPR_BAD_ROW, 21, 0, 8}},
    };
    for (int64_t i = 0; i < LENGTH_OF(faults); i++) {
        int64_t flat[TENSOR_LENGTH];
        cpr_flat_view view;
        cpr_error error;
        memcpy(flat, UPSTREAM_TENSOR, sizeof flat);
        flat[faults[i].entry] = faults[i].value;
        expect_outcome(cpr_flat_decode(flat, TENSOR_LENGTH, (cpr_geometry){4, 1}, NULL, &view, &error),
                       &error, faults[i].error.status, faults[i].error.index, faults[i].error.got,
                       faults[i].error.wanted);
    }
}

static void the_rest_of_what_is_refused(void **state) {
    (void)state;
    static const int64_t own_messages_differ[] = {2, 0, 3, 3, 0, 0, 3, 0, 1, 2};
    static const int64_t identity_written[] = {1, 0, 2, 2, 2, 0, 2, 2, 0, 1};
    static const int64_t no_ranks[] = {0, 0, 0, 0, 0, 0};
    static const int64_t endless[] = {1, 0, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    static const int64_t wide[] = {1, 0, INT64_C(1) << 32, INT64_C(1) << 32, INT64_C(1) << 32, 0};
    static const struct {
        const int64_t *flat;
        int64_t count;
        cpr_geometry geometry;
        cpr_error error;
    } faults[] = {
        {own_messages_differ, 10, {2, 0}, {CPR_SPLIT_MISMATCH, 8, 1, 3}},
        {identity_written, 10, {1, 0}, {CPR_TOTAL_MISMATCH, 4, 2, 0}},
        {no_ranks, 6, {0, 0}, {CPR_BAD_CP_SIZE, -1, 0, 1}},
        {no_ranks, 6, {2, 2}, {CPR_BAD_RANK, -1, 2, 2}},
        {no_ranks, 5, {1, 0}, {CPR_TOTAL_MISMATCH, -1, 5, 6}},
        {endless, 6, {1, 0}, {CPR_TOTAL_MISMATCH, -1, 6, INT64_MAX}},
        {wide, 6, {1, 0}, {CPR_TOTAL_MISMATCH, -1, 6, 8 + (INT64_C(1) << 32)}},
    };
    for (int64_t i = 0; i < LENGTH_OF(faults); i++) {
        cpr_flat_view view;
        cpr_error error;
        expect_outcome(
            cpr_flat_decode(faults[i].flat, faults[i].count, faults[i].geometry, NULL, &view, &error), &error,
            faults[i].error.status, faults[i].error.index, faults[i].error.got, faults[i].error.wanted);
    }
}

static void a_flat_tensor_of_no_tokens(void **state) {
    (void)state;
    static const int64_t empty[] = {2, 1, 0, 0, 0, 0, 0, 0, 0, 0};
    cpr_flat_view view;
    assert_int_equal(cpr_flat_decode(empty, 10, (cpr_geometry){2, 1}, NULL, &view, NULL), CPR_OK);
    assert_int_equal(view.rows, 0);
    assert_null(view.send_rows);
}

/* One rank that turns its rows round, then hits one of them twice. */
static void each_row_is_hit_once(void **state) {
    (void)state;
    enum { ROWS = 130, HEADER = 6, LISTS = HEADER + 2 };
    int64_t flat[LISTS + ROWS] = {1, 0, ROWS, ROWS, 0, ROWS, ROWS, ROWS};
    cpr_flat_view view;
    for (int64_t i = 0; i < ROWS; i++)
        flat[LISTS + i] = ROWS - 1 - i;
    assert_int_equal(cpr_flat_decode(flat, LISTS + ROWS, (cpr_geometry){1, 0}, NULL, &view, NULL), CPR_OK);
    for (int64_t i = 1; i < ROWS; i++) {
        cpr_error error;
        flat[LISTS + i]++;
        expect_outcome(cpr_flat_decode(flat, LISTS + ROWS, (cpr_geometry){1, 0}, NULL, &view, &error), &error,
                       CPR_BAD_ROW, LISTS + i, ROWS - i, ROWS);
        flat[LISTS + i]--;
    }
}

static void the_direction_of_a_flat_tensor_is_checked(void **state) {
    (void)state;
    static const int64_t other_boundaries[] = {0, 8, 32};
    const cpr_geometry geometry = {4, 1};
    cpr_route_request request = request_of(TWO_SEQUENCES, 3, geometry, CPR_ZIGZAG, CPR_CONTIGUOUS);
    cpr_route *route = NULL;
    cpr_error error;
    assert_int_equal(cpr_flat_route(UPSTREAM_TENSOR, TENSOR_LENGTH, &request, NULL, &route, &error), CPR_OK);
    cpr_route_free(route);

    request.source = CPR_CONTIGUOUS;
    request.target = CPR_ZIGZAG;
    expect_outcome(cpr_flat_route(UPSTREAM_TENSOR, TENSOR_LENGTH, &request, NULL, &route, &error), &error,
                   CPR_LAYOUT_MISMATCH, -1, CPR_ZIGZAG, CPR_CONTIGUOUS);

    request = request_of(other_boundaries, 3, geometry, CPR_ZIGZAG, CPR_CONTIGUOUS);
    assert_int_equal(cpr_flat_route(UPSTREAM_TENSOR, TENSOR_LENGTH, &request, NULL, &route, &error),
                     CPR_DIVERGENT_METADATA);
    expect_error(&error, CPR_DIVERGENT_METADATA, 5, 8, 0); /* of those the rank receives an identity */

    request = request_of(other_boundaries, 0, geometry, CPR_ZIGZAG, CPR_CONTIGUOUS);
    assert_int_equal(cpr_flat_route(UPSTREAM_TENSOR, TENSOR_LENGTH, &request, NULL, &route, &error),
                     CPR_EMPTY_CU_SEQLENS);
}

/*==============================================================================
 * MARK: - Two views
 *============================================================================*/

static void two_views_are_the_published_ones(void **state) {
    (void)state;
    static const int64_t boundaries[] = {0, 8, 12, 16};
    static const int64_t index[] = {0, 1, 6, 7, 2, 3, 4, 5}, splits[] = {4, 4};
    static const cpr_layout layouts[] = {CPR_ZIGZAG, CPR_CONTIGUOUS};
    for (int back = 0; back < 2; back++) {
        ledger book;
        const cpr_allocator allocator = ledger_allocator(&book);
        cpr_route *route = route_of(boundaries, 4, (cpr_geometry){2, 0}, layouts[back], layouts[1 - back]);
        cpr_two_view *view = NULL;
        assert_int_equal(cpr_two_view_make(route, &allocator, &view, NULL), CPR_OK);
        assert_int_equal(view->rows, 8);
        assert_int_equal(view->geometry.cp_size, 2);
        assert_int_equal(view->geometry.cp_rank, 0);
        assert_true(view->boundaries_digest == route->boundaries_digest);
        assert_null(view->zigzag_index);
        expect_numbers(view->zigzag_split_sizes, splits, 2);
        expect_numbers(view->contiguous_index, index, 8);
        expect_numbers(view->contiguous_split_sizes, splits, 2);
        cpr_two_view_free(view);
        cpr_route_free(route);
        assert_int_equal(book.held, 0);
    }
    cpr_two_view_free(NULL);
}

static void two_views_are_of_two_layouts(void **state) {
    (void)state;
    static const int64_t boundaries[] = {0, 8};
    cpr_route *route = route_of(boundaries, 2, (cpr_geometry){2, 0}, CPR_ZIGZAG, CPR_FLAT_ZIGZAG);
    cpr_two_view *view = NULL;
    cpr_error error;
    expect_outcome(cpr_two_view_make(route, NULL, &view, &error), &error, CPR_BAD_LAYOUT, 1, CPR_FLAT_ZIGZAG,
                   CPR_CONTIGUOUS);
    route->source = CPR_HEADS_THEN_TAILS;
    expect_outcome(cpr_two_view_make(route, NULL, &view, &error), &error, CPR_BAD_LAYOUT, 0,
                   CPR_HEADS_THEN_TAILS, CPR_ZIGZAG);
    assert_null(view);
    cpr_route_free(route);
}

/*==============================================================================
 * MARK: - TP x CP
 *============================================================================*/

/* [0,4,16] at P 2: zigzag rank 0 has 0 3 4 5 | 6 13 14 15, rank 1 has 1 2 7 8 | 9 10 11 12; windows of 4 rows. */
static void a_fused_route_worked_out_by_hand(void **state) {
    (void)state;
    static const int64_t boundaries[] = {0, 4, 16}, order[] = {2, 0, 3, 1};
    const cpr_route_request request =
        request_of(boundaries, 3, (cpr_geometry){2, 0}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    const cpr_tensor_ranks natural = {.tp_size = 2, .tp_rank = 0}, permuted = {2, 0, order};
    cpr_route *route = NULL;
    assert_int_equal(cpr_route_build_fused(&request, &natural, NULL, &route, NULL), CPR_OK);
    /* 0 and 3 stay in 0..3; 4 and 5 go to 4..7, the second window. 0..3 gets 1 and 2 from logical rank 2. */
    const cpr_run sends[] = {{0, 0, 0, 1}, {0, 1, 3, 1}, {1, 2, 0, 2}};
    const cpr_run receives[] = {{0, 0, 0, 1}, {0, 1, 3, 1}, {2, 0, 1, 2}};
    expect_runs(&route->send, sends, 3);
    expect_runs(&route->recv, receives, 3);
    assert_true(route->send.identity);
    assert_int_equal(route->geometry.cp_size, 4);
    assert_int_equal(route->geometry.cp_rank, 0);
    cpr_route_free(route);

    assert_int_equal(cpr_route_build_fused(&request, &permuted, NULL, &route, NULL), CPR_OK);
    const cpr_run permuted_sends[] = {{0, 2, 0, 2}, {2, 0, 0, 1}, {2, 1, 3, 1}};
    const cpr_run permuted_receives[] = {{2, 0, 0, 1}, {2, 1, 3, 1}, {3, 0, 1, 2}};
    expect_runs(&route->send, permuted_sends, 3);
    expect_runs(&route->recv, permuted_receives, 3);
    assert_false(route->send.identity);
    assert_int_equal(route->geometry.cp_rank, 2);
    cpr_route_free(route);
}

static void fused_refusals(void **state) {
    (void)state;
    static const int64_t boundaries[] = {0, 4, 16}, twice[] = {0, 1, 2, 1};
    static const struct {
        cpr_geometry geometry;
        cpr_layout source, target;
        cpr_tensor_ranks tp;
        cpr_error error;
    } faults[] = {
        {{2, 2}, CPR_ZIGZAG, CPR_CONTIGUOUS, {2, 9, NULL}, {CPR_BAD_RANK, -1, 2, 2}},
        {{2, 0}, CPR_ZIGZAG, CPR_CONTIGUOUS, {2, 2, NULL}, {CPR_BAD_RANK, -1, 2, 2}},
        {{2, 0}, CPR_ZIGZAG, CPR_CONTIGUOUS, {2, -1, NULL}, {CPR_BAD_RANK, -1, -1, 2}},
        {{2, 0},
         CPR_ZIGZAG,
         CPR_CONTIGUOUS,
         {CPR_CP_SIZE_MAX, 0, NULL},
         {CPR_BAD_CP_SIZE, -1, 2 * CPR_CP_SIZE_MAX, CPR_CP_SIZE_MAX}},
        {{2, 0},
         CPR_ZIGZAG,
         CPR_CONTIGUOUS,
         {INT64_MAX, 0, NULL},
         {CPR_BAD_CP_SIZE, -1, INT64_MAX, CPR_CP_SIZE_MAX}},
        /* As many ranks as there may be, one more, and as many as can be counted. */
        {{2, 0},
         CPR_ZIGZAG,
         CPR_CONTIGUOUS,
         {CPR_CP_SIZE_MAX / 2, 0, NULL},
         {CPR_NOT_DIVISIBLE_CP_TP, -1, 8, CPR_CP_SIZE_MAX / 2}},
        {{2, 0},
         CPR_ZIGZAG,
         CPR_CONTIGUOUS,
         {CPR_CP_SIZE_MAX / 2 + 1, 0, NULL},
         {CPR_BAD_CP_SIZE, -1, CPR_CP_SIZE_MAX + 2, CPR_CP_SIZE_MAX}},
        {{2, 0},
         CPR_ZIGZAG,
         CPR_CONTIGUOUS,
         {INT64_MAX / 2, 0, NULL},
         {CPR_BAD_CP_SIZE, -1, INT64_MAX - 1, CPR_CP_SIZE_MAX}},
        {{2, 0},
         CPR_ZIGZAG,
         CPR_CONTIGUOUS,
         {INT64_MAX / 2 + 1, 0, NULL},
         {CPR_BAD_CP_SIZE, -1, INT64_MAX, CPR_CP_SIZE_MAX}},
        /* The group comes before the layouts. */
        {{0, 0}, CPR_ZIGZAG, CPR_LAYOUT_COUNT, {2, 0, NULL}, {CPR_BAD_CP_SIZE, -1, 0, 1}},
        {{2, 2}, CPR_ZIGZAG, CPR_LAYOUT_COUNT, {2, 0, NULL}, {CPR_BAD_RANK, -1, 2, 2}},
        {{2, 0},
         CPR_ZIGZAG,
         CPR_HEADS_THEN_TAILS,
         {2, 0, NULL},
         {CPR_BAD_LAYOUT, 1, CPR_HEADS_THEN_TAILS, CPR_LAYOUT_COUNT}},
        {{2, 0},
         CPR_HEADS_THEN_TAILS,
         CPR_LAYOUT_COUNT,
         {2, 0, NULL},
         {CPR_BAD_LAYOUT, 1, CPR_LAYOUT_COUNT, CPR_LAYOUT_COUNT}},
        {{2, 0}, CPR_ZIGZAG, CPR_CONTIGUOUS, {3, 0, NULL}, {CPR_NOT_DIVISIBLE_CP_TP, -1, 8, 3}},
        {{2, 0}, CPR_ZIGZAG, CPR_CONTIGUOUS, {-2, 0, NULL}, {CPR_NOT_DIVISIBLE_CP_TP, -1, 8, -2}},
        {{2, 0}, CPR_ZIGZAG, CPR_CONTIGUOUS, {2, 0, twice}, {CPR_BAD_RANK, 3, 1, 4}},
    };
    for (int64_t i = 0; i < LENGTH_OF(faults); i++) {
        const cpr_route_request request =
            request_of(boundaries, 3, faults[i].geometry, faults[i].source, faults[i].target);
        cpr_route *route = NULL;
        cpr_error error;
        expect_outcome(cpr_route_build_fused(&request, &faults[i].tp, NULL, &route, &error), &error,
                       faults[i].error.status, faults[i].error.index, faults[i].error.got,
                       faults[i].error.wanted);
        assert_null(route);
    }
}

/*==============================================================================
 * MARK: - Chunks
 *============================================================================*/

static void expect_moves(const cpr_chunk_move *got, const cpr_chunk_move *wanted, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(got[i].peer, wanted[i].peer);
        assert_int_equal(got[i].chunk, wanted[i].chunk);
    }
}

/* Four ranks: zigzag rank 1 holds chunks 1 and 6, which contiguous ranks 0 and 3 hold; contiguous rank 1 holds chunks 2 and 3,
 * the first ones of zigzag ranks 2 and 3. */
static void chunks_worked_out_by_hand(void **state) {
    (void)state;
    const cpr_tensor_ranks alone = {.tp_size = 1};
    cpr_chunk_plan plan;
    assert_int_equal(
        cpr_chunk_plan_make(40, (cpr_geometry){4, 1}, &alone, CPR_ZIGZAG, CPR_CONTIGUOUS, NULL, &plan, NULL),
        CPR_OK);
    assert_int_equal(plan.chunks, 2);
    assert_int_equal(plan.chunk_rows, 5);
    expect_moves(plan.send, (const cpr_chunk_move[]){{0, 0}, {3, 1}}, 2);
    expect_moves(plan.recv, (const cpr_chunk_move[]){{2, 0}, {3, 1}}, 2);
}

/* The same with two TP ranks: chunks are windows. TP rank 1 of zigzag rank 1 holds chunk 6, the first of rank 3. */
static void chunks_of_an_even_tp_size(void **state) {
    (void)state;
    const cpr_tensor_ranks tp = {.tp_size = 2, .tp_rank = 1}, odd = {.tp_size = 3, .tp_rank = 1};
    cpr_chunk_plan plan;
    cpr_error error;
    assert_int_equal(
        cpr_chunk_plan_make(40, (cpr_geometry){4, 1}, &tp, CPR_ZIGZAG, CPR_CONTIGUOUS, NULL, &plan, NULL),
        CPR_OK);
    assert_int_equal(plan.chunks, 1);
    assert_int_equal(plan.chunk_rows, 5);
    assert_int_equal(plan.geometry.cp_rank, 3);
    expect_moves(plan.send, (const cpr_chunk_move[]){{6, 0}}, 1);
    expect_moves(plan.recv, (const cpr_chunk_move[]){{6, 0}}, 1);
    expect_outcome(
        cpr_chunk_plan_make(48, (cpr_geometry){4, 1}, &odd, CPR_ZIGZAG, CPR_CONTIGUOUS, NULL, &plan, &error),
        &error, CPR_NOT_DIVISIBLE_CP_TP, -1, 3, 2);
    expect_outcome(
        cpr_chunk_plan_make(-8, (cpr_geometry){4, 1}, &tp, CPR_ZIGZAG, CPR_CONTIGUOUS, NULL, &plan, &error),
        &error, CPR_DECREASING, 1, -8, 0);
    expect_outcome(cpr_chunk_plan_make(4, (cpr_geometry){4, 1}, &(cpr_tensor_ranks){0}, CPR_CONTIGUOUS,
                                       CPR_CONTIGUOUS, NULL, &plan, &error),
                   &error, CPR_NOT_DIVISIBLE_2CP, 0, 4, 8);
}

static void chunks_are_refused_with_their_details(void **state) {
    (void)state;
    static const struct {
        int64_t rows, cp_size, tp_size;
        cpr_layout source, target;
        cpr_error error;
    } faults[] = {
        {2, 2, 1, CPR_CONTIGUOUS, CPR_CONTIGUOUS, {CPR_NOT_DIVISIBLE_2CP, 0, 2, 4}},
        {40, 4, 4, CPR_ZIGZAG, CPR_CONTIGUOUS, {CPR_NOT_DIVISIBLE_CP_TP, -1, 10, 4}},
        {40, 4, 1, CPR_LAYOUT_COUNT, CPR_ZIGZAG, {CPR_BAD_LAYOUT, 0, CPR_LAYOUT_COUNT, CPR_LAYOUT_COUNT}},
        {40, 4, 1, CPR_ZIGZAG, CPR_LAYOUT_COUNT, {CPR_BAD_LAYOUT, 1, CPR_LAYOUT_COUNT, CPR_LAYOUT_COUNT}},
    };
    for (int64_t i = 0; i < LENGTH_OF(faults); i++) {
        const cpr_tensor_ranks tp = {.tp_size = faults[i].tp_size};
        cpr_chunk_plan plan = {.chunks = -7};
        cpr_error error;
        expect_outcome(cpr_chunk_plan_make(faults[i].rows, (cpr_geometry){faults[i].cp_size, 1}, &tp,
                                           faults[i].source, faults[i].target, NULL, &plan, &error),
                       &error, faults[i].error.status, faults[i].error.index, faults[i].error.got,
                       faults[i].error.wanted);
        assert_int_equal(plan.chunks, -7);
    }
}

/*==============================================================================
 * MARK: - Padding
 *============================================================================*/

/* ms-swift 10180: lengths 3 and 5 in 4 and 8. */
static void which_padded_token_is_which_real_one(void **state) {
    (void)state;
    static const int64_t padded[] = {0, 4, 12}, real[] = {0, 3, 8};
    static const int64_t map[] = {0, 1, 2, -1, 3, 4, 5, 6, 7, -1, -1, -1}, back[] = {0, 1, 2, 4, 5, 6, 7, 8};
    static const int64_t rows[] = {0, -1, 3, 4, -1, -1}, successors[] = {1, -1, 5, 6, -1, -1};
    static const int64_t offsets[] = {0, 2, 6};
    const cpr_padding padding = {cpr_cu_seqlens_int64(padded, 3), cpr_cu_seqlens_int64(real, 3)};
    const cpr_geometry geometry = {2, 0};
    int64_t forward[12], reverse[8], own[6], offset[3], count = 0;
    assert_int_equal(cpr_padding_map(&padding, forward, 12, reverse, 8, NULL), CPR_OK);
    expect_numbers(forward, map, 12);
    expect_numbers(reverse, back, 8);
    assert_int_equal(cpr_real_rows(&padding, geometry, CPR_ZIGZAG, NULL, &count, NULL), CPR_OK);
    assert_int_equal(count, 3);
    assert_int_equal(cpr_real_tokens(&padding, geometry, CPR_ZIGZAG, NULL, own, 6, NULL), CPR_OK);
    expect_numbers(own, rows, 6);
    assert_int_equal(cpr_successors(&padding, geometry, CPR_ZIGZAG, NULL, own, 6, NULL), CPR_OK);
    expect_numbers(own, successors, 6);
    assert_int_equal(cpr_local_offsets(&padding.padded, geometry, CPR_ZIGZAG, NULL, offset, 3, NULL), CPR_OK);
    expect_numbers(offset, offsets, 3);
}

static void real_offsets_may_end_early(void **state) {
    (void)state;
    static const int64_t padded[] = {0, 4, 12}, real[] = {0, 3}, beyond[] = {0, 3, 5, 6};
    static const int64_t map[] = {0, 1, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    int64_t forward[12];
    cpr_error error;
    cpr_padding padding = {cpr_cu_seqlens_int64(padded, 3), cpr_cu_seqlens_int64(real, 2)};
    assert_int_equal(cpr_padding_map(&padding, forward, 12, NULL, 0, NULL), CPR_OK);
    expect_numbers(forward, map, 12);
    padding.real = cpr_cu_seqlens_int64(beyond, 4);
    expect_outcome(cpr_padding_check(&padding, &error), &error, CPR_TOTAL_MISMATCH, 2, 1, 0);
    expect_outcome(cpr_padding_map(&(cpr_padding){padding.padded, {0}}, forward, 11, NULL, 0, &error), &error,
                   CPR_TOTAL_MISMATCH, 0, 11, 12);
}

static void without_real_offsets_all_tokens_are_real(void **state) {
    (void)state;
    enum { TOKENS = 12 };
    static const int64_t padded[] = {0, 4, 4, TOKENS};
    const cpr_padding padding = {.padded = cpr_cu_seqlens_int64(padded, 4)};
    int64_t forward[TOKENS], back[TOKENS], every[TOKENS];
    for (int64_t i = 0; i < TOKENS; i++)
        every[i] = i;
    assert_int_equal(cpr_padding_map(&padding, forward, TOKENS, back, TOKENS, NULL), CPR_OK);
    expect_numbers(forward, every, TOKENS);
    expect_numbers(back, every, TOKENS);
}

static void lengths_are_rounded_up(void **state) {
    (void)state;
    static const int64_t real[] = {0, 2, 2, 8}, padded[] = {0, 4, 4, 12, -7};
    const cpr_cu_seqlens cu = cpr_cu_seqlens_int64(real, 4);
    int64_t made[5] = {-7, -7, -7, -7, -7};
    cpr_error error;
    assert_int_equal(cpr_pad_cu_seqlens(&cu, 4, made, 4, NULL), CPR_OK);
    expect_numbers(made, padded, 5);
    assert_int_equal(cpr_pad_cu_seqlens(&cu, 1, made, 4, NULL), CPR_OK);
    expect_numbers(made, real, 4);
    expect_outcome(cpr_pad_cu_seqlens(&cu, 4, made, 3, &error), &error, CPR_TOTAL_MISMATCH, -1, 3, 4);
    expect_outcome(cpr_pad_cu_seqlens(&cu, 0, made, 4, &error), &error, CPR_OVERFLOW, -1, 0, 1);
}

/* 7 divides INT64_MAX, and 4 leaves 3. */
static void padding_ends_at_64_bits(void **state) {
    (void)state;
    static const struct {
        int64_t multiple, real[3];
        bool fits;
    } packs[] = {
        {1, {0, 1, INT64_MAX}, true},      {7, {0, 7, INT64_MAX}, true},
        {7, {0, 7, INT64_MAX - 3}, true},  {7, {0, 1, INT64_MAX - 12}, true},
        {7, {0, 1, INT64_MAX - 5}, false}, {7, {0, 1, INT64_MAX}, false},
        {4, {0, 4, INT64_MAX - 4}, true},  {4, {0, 4, INT64_MAX - 1}, false},
        {4, {0, 1, INT64_MAX - 1}, false}, {4, {0, 0, INT64_MAX}, false},
        {INT64_MAX, {0, 0, 1}, true},      {INT64_MAX, {0, 1, 2}, false},
    };
    for (int64_t i = 0; i < LENGTH_OF(packs); i++) {
        const cpr_cu_seqlens cu = cpr_cu_seqlens_int64(packs[i].real, 3);
        int64_t made[3] = {-7, -7, -7};
        cpr_error error;
        const cpr_status status = cpr_pad_cu_seqlens(&cu, packs[i].multiple, made, 3, &error);
        if (packs[i].fits) {
            expect_outcome(status, &error, CPR_OK, -1, 0, 0);
            assert_int_equal(made[0], 0);
            for (int64_t s = 1; s < 3; s++) {
                const int64_t lacking = (made[s] - made[s - 1]) - (packs[i].real[s] - packs[i].real[s - 1]);
                assert_int_equal((made[s] - made[s - 1]) % packs[i].multiple, 0);
                assert_in_range(lacking, 0, packs[i].multiple - 1);
            }
        } else {
            expect_outcome(status, &error, CPR_OVERFLOW, 2, INT64_MAX, INT64_MAX);
            assert_int_equal(made[0], -7);
        }
    }
}

/* Lengths 2 and 6 become 4 and 8: contiguous 0..3 | 4..7; zigzag rank 0 has 0 . 2 3 . ., rank 1 has 1 . 4 5 6 7. */
static void a_plan_that_pads(void **state) {
    (void)state;
    static const int32_t cu[] = {0, 2, 8};
    static const int64_t splits[] = {3, 1}, sent[] = {0, 2, 3, 1}, gather[] = {0, -1, 1, 2, -1, -1};
    static const int64_t tokens[] = {10, 11, 12, 13}, arrived[] = {10, 12, 13},
                         zigzag[] = {10, 0, 12, 13, 0, 0};
    const cpr_cu_seqlens view = cpr_cu_seqlens_int32(cu, 3);
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    cpr_padded_plan *plan = NULL;
    int64_t numbers[6] = {7, 7, 7, 7, 7, 7}, count[2];
    assert_int_equal(cpr_padded_plan_build(&view, 8, (cpr_geometry){2, 0}, &allocator, &plan, NULL), CPR_OK);
    assert_int_equal(plan->contiguous_rows, 4);
    assert_int_equal(plan->zigzag_rows, 6);
    assert_int_equal(plan->padded_cu[1], 4);
    assert_int_equal(plan->padded_cu[2], 12);
    assert_int_equal(plan->longest, 8);
    assert_true(plan->pads);
    assert_int_equal(cpr_padded_splits(plan, CPR_CONTIGUOUS, count, 2, NULL), CPR_OK);
    expect_numbers(count, splits, 2);
    assert_int_equal(cpr_padded_send_rows(plan, CPR_CONTIGUOUS, numbers, 4, NULL), CPR_OK);
    expect_numbers(numbers, sent, 4);
    assert_int_equal(cpr_padded_gather_index(plan, CPR_ZIGZAG, numbers, 6, NULL), CPR_OK);
    expect_numbers(numbers, gather, 6);
    cpr_padded_pack(plan, CPR_CONTIGUOUS, sizeof *tokens, tokens, numbers);
    expect_numbers(numbers, arrived, 3);
    cpr_padded_receive(plan, CPR_ZIGZAG, sizeof *tokens, arrived, numbers);
    expect_numbers(numbers, zigzag, 6);
    char bytes[7] = "......";
    cpr_padded_pack(plan, CPR_CONTIGUOUS, 1, "abcd", bytes);
    assert_memory_equal(bytes, "acdb..", 6);
    cpr_padded_receive(plan, CPR_ZIGZAG, 1, "acd", bytes);
    assert_memory_equal(bytes, "a\0cd\0\0", 6);
    cpr_padded_plan_free(plan);
    cpr_padded_plan_free(NULL);
    assert_int_equal(book.held, 0);
}

static void a_plan_for_one_rank_pads_too(void **state) {
    (void)state;
    static const int32_t cu[] = {0, 3};
    const cpr_cu_seqlens view = cpr_cu_seqlens_int32(cu, 2);
    cpr_padded_plan *plan = NULL;
    assert_int_equal(cpr_padded_plan_build(&view, 3, (cpr_geometry){1, 0}, NULL, &plan, NULL), CPR_OK);
    assert_int_equal(plan->contiguous_rows, 3);
    assert_int_equal(plan->zigzag_rows, 4);
    cpr_padded_plan_free(plan);
}

static void plans_that_are_refused(void **state) {
    (void)state;
    static const int32_t decreasing[] = {0, 8, 4}, ragged[] = {0, 3}, large[] = {0, INT32_MAX - 1};
    static const int64_t wide[] = {0, 8};
    const cpr_geometry geometry = {2, 0};
    const struct {
        cpr_cu_seqlens cu;
        int64_t rows;
        cpr_error error;
    } faults[] = {
        {cpr_cu_seqlens_int32(decreasing, 3), CPR_ROWS_UNCHECKED, {CPR_DECREASING, 2, 4, 8}},
        {cpr_cu_seqlens_int64(wide, 2), CPR_ROWS_UNCHECKED, {CPR_DTYPE, -1, CPR_INT64, CPR_INT32}},
        {cpr_cu_seqlens_int32(ragged, 2), CPR_ROWS_UNCHECKED, {CPR_NOT_DIVISIBLE_CP, -1, 3, 2}},
        {cpr_cu_seqlens_int32(ragged, 2), 4, {CPR_TOTAL_MISMATCH, -1, 4, 3}},
        {cpr_cu_seqlens_int32(large, 2), CPR_ROWS_UNCHECKED, {CPR_OVERFLOW, 1, INT64_C(1) << 31, INT32_MAX}},
    };
    for (int64_t i = 0; i < LENGTH_OF(faults); i++) {
        cpr_padded_plan *plan = NULL;
        cpr_error error;
        expect_outcome(cpr_padded_plan_build(&faults[i].cu, faults[i].rows, geometry, NULL, &plan, &error),
                       &error, faults[i].error.status, faults[i].error.index, faults[i].error.got,
                       faults[i].error.wanted);
        assert_null(plan);
    }
}

static void a_plan_is_asked_for_its_two_layouts(void **state) {
    (void)state;
    static const int32_t cu[] = {0, 8};
    const cpr_cu_seqlens view = cpr_cu_seqlens_int32(cu, 2);
    cpr_padded_plan *plan = NULL;
    int64_t numbers[8];
    cpr_error error;
    assert_int_equal(cpr_padded_plan_build(&view, 8, (cpr_geometry){2, 0}, NULL, &plan, NULL), CPR_OK);
    expect_outcome(cpr_padded_splits(plan, CPR_FLAT_ZIGZAG, numbers, 2, &error), &error, CPR_BAD_LAYOUT, 0,
                   CPR_FLAT_ZIGZAG, CPR_CONTIGUOUS);
    expect_outcome(cpr_padded_send_rows(plan, CPR_FLAT_ZIGZAG, numbers, 4, &error), &error, CPR_BAD_LAYOUT, 0,
                   CPR_FLAT_ZIGZAG, CPR_CONTIGUOUS);
    expect_outcome(cpr_padded_gather_index(plan, CPR_FLAT_ZIGZAG, numbers, 4, &error), &error, CPR_BAD_LAYOUT,
                   0, CPR_FLAT_ZIGZAG, CPR_CONTIGUOUS);
    expect_outcome(cpr_padded_splits(plan, CPR_ZIGZAG, numbers, 3, &error), &error, CPR_SPLIT_MISMATCH, -1, 3,
                   2);
    expect_outcome(cpr_padded_send_rows(plan, CPR_ZIGZAG, numbers, 3, &error), &error, CPR_TOTAL_MISMATCH, -1,
                   3, 4);
    expect_outcome(cpr_padded_gather_index(plan, CPR_ZIGZAG, numbers, 3, &error), &error, CPR_TOTAL_MISMATCH,
                   -1, 3, 4);
    cpr_padded_plan_free(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flat_tensor_is_the_published_one),
        cmocka_unit_test(flat_tensors_end_at_64_bits),
        cmocka_unit_test(a_flat_header_has_the_rows_of_each_side),
        cmocka_unit_test(a_flat_tensor_is_taken_apart),
        cmocka_unit_test(what_upstream_does_not_check_is_refused),
        cmocka_unit_test(the_rest_of_what_is_refused),
        cmocka_unit_test(a_flat_tensor_of_no_tokens),
        cmocka_unit_test(each_row_is_hit_once),
        cmocka_unit_test(the_direction_of_a_flat_tensor_is_checked),
        cmocka_unit_test(two_views_are_the_published_ones),
        cmocka_unit_test(two_views_are_of_two_layouts),
        cmocka_unit_test(a_fused_route_worked_out_by_hand),
        cmocka_unit_test(fused_refusals),
        cmocka_unit_test(chunks_worked_out_by_hand),
        cmocka_unit_test(chunks_of_an_even_tp_size),
        cmocka_unit_test(chunks_are_refused_with_their_details),
        cmocka_unit_test(which_padded_token_is_which_real_one),
        cmocka_unit_test(real_offsets_may_end_early),
        cmocka_unit_test(without_real_offsets_all_tokens_are_real),
        cmocka_unit_test(lengths_are_rounded_up),
        cmocka_unit_test(padding_ends_at_64_bits),
        cmocka_unit_test(a_plan_that_pads),
        cmocka_unit_test(a_plan_for_one_rank_pads_too),
        cmocka_unit_test(plans_that_are_refused),
        cmocka_unit_test(a_plan_is_asked_for_its_two_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
