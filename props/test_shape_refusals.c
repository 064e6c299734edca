/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes that are refused: wrong arguments, and memory that runs out at any allocation. */
#include "example.h"

/*==============================================================================
 * MARK: - Memory
 *============================================================================*/

enum { SEQUENCES = 100, ENTRIES = SEQUENCES + 1, RANKS = 2, TP_SIZE = 2 };

typedef cpr_status attempt_fn(const int64_t *entries, const cpr_allocator *allocator, cpr_error *error);

/* Allocation number 0 fails, then 1, and so on, until the call ends otherwise. */
static void every_allocation_may_fail(attempt_fn *attempt, cpr_status ends_in) {
    enum { FEWEST = 2, MOST = 100 };
    int64_t entries[ENTRIES];
    for (int64_t i = 0; i < ENTRIES; i++)
        entries[i] = 8 * i;
    cpr_status status = CPR_NO_MEMORY;
    int64_t k = 0;
    for (; status == CPR_NO_MEMORY && k < MOST; k++) {
        ledger book;
        const cpr_allocator allocator = ledger_allocator(&book);
        cpr_error error;
        book.fail_at = k;
        status = attempt(entries, &allocator, &error);
        assert_int_equal(status, error.status);
        assert_int_equal(book.held, 0);
    }
    assert_int_equal(status, ends_in);
    assert_true(k > FEWEST);
}

static cpr_status build_fused(const int64_t *entries, const cpr_allocator *allocator, cpr_error *error) {
    static const int64_t order[] = {3, 0, 2, 1};
    const cpr_tensor_ranks tp = {TP_SIZE, 1, order};
    const cpr_route_request request =
        request_of(entries, ENTRIES, (cpr_geometry){RANKS, 1}, CPR_ZIGZAG, CPR_PER_SEQUENCE_CONTIGUOUS);
    cpr_route *route = NULL;
    const cpr_status status = cpr_route_build_fused(&request, &tp, allocator, &route, error);
    cpr_route_free(route);
    return status;
}

static void fused_routes_of_many_runs(void **state) {
    (void)state;
    every_allocation_may_fail(build_fused, CPR_OK);
}

static cpr_status build_padded(const int64_t *entries, const cpr_allocator *allocator, cpr_error *error) {
    int32_t narrow[ENTRIES];
    for (int64_t i = 0; i < ENTRIES; i++)
        narrow[i] = (int32_t)(entries[i] / 8 * 6);
    const cpr_cu_seqlens cu = cpr_cu_seqlens_int32(narrow, ENTRIES);
    cpr_padded_plan *plan = NULL;
    const cpr_status status =
        cpr_padded_plan_build(&cu, CPR_ROWS_UNCHECKED, (cpr_geometry){RANKS, 1}, allocator, &plan, error);
    cpr_padded_plan_free(plan);
    return status;
}

static void plans_that_pad_many_sequences(void **state) {
    (void)state;
    every_allocation_may_fail(build_padded, CPR_OK);
}

/* The tensor of the other direction, so that both directions are built. */
static cpr_status take_other_direction(const int64_t *entries, const cpr_allocator *allocator,
                                       cpr_error *error) {
    const cpr_geometry geometry = {RANKS, 1};
    cpr_route *opposite = route_of(entries, ENTRIES, geometry, CPR_PER_SEQUENCE_CONTIGUOUS, CPR_ZIGZAG);
    int64_t count = 0;
    assert_int_equal(cpr_flat_size(opposite, &count, NULL), CPR_OK);
    int64_t *flat = malloc((size_t)count * sizeof *flat);
    assert_non_null(flat);
    assert_int_equal(cpr_flat_encode(opposite, flat, count, NULL), CPR_OK);
    const cpr_route_request request =
        request_of(entries, ENTRIES, geometry, CPR_ZIGZAG, CPR_PER_SEQUENCE_CONTIGUOUS);
    cpr_route *route = NULL;
    const cpr_status status = cpr_flat_route(flat, count, &request, allocator, &route, error);
    cpr_route_free(route);
    cpr_route_free(opposite);
    free(flat);
    return status;
}

static void tensors_of_the_other_direction(void **state) {
    (void)state;
    static const int64_t one_rank[] = {0, 4};
    every_allocation_may_fail(take_other_direction, CPR_LAYOUT_MISMATCH);
    /* One rank, so both directions have one tensor; and nobody wants the details. */
    static const int64_t flat[] = {1, 0, 4, 4, 0, 0, 4, 4};
    cpr_route_request request = request_of(one_rank, 2, (cpr_geometry){1, 0}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    cpr_route *route = NULL;
    assert_int_equal(cpr_flat_route(flat, 8, &request, NULL, &route, NULL), CPR_OK);
    cpr_route_free(route);
}

/*==============================================================================
 * MARK: - Arguments
 *============================================================================*/

/* No such route can be built: one of 2^62 rows that are not in order. */
static void a_tensor_longer_than_can_be_counted(void **state) {
    (void)state;
    cpr_route route = {.geometry = {2, 0}, .send = {.rows = INT64_MAX - 8}};
    int64_t count = 7;
    cpr_error error;
    expect_outcome(cpr_flat_size(&route, &count, &error), &error, CPR_OVERFLOW, -1, INT64_MAX, INT64_MAX);
    route.send.rows = route.recv.rows = INT64_C(1) << 62;
    expect_outcome(cpr_flat_size(&route, &count, &error), &error, CPR_OVERFLOW, -1, INT64_MAX, INT64_MAX);
    assert_int_equal(count, 7);
    assert_int_equal(cpr_flat_encode(&route, &count, 1, NULL), CPR_OVERFLOW);
}

static void groups_and_layouts_that_are_none(void **state) {
    (void)state;
    static const int64_t entries[] = {0, 16}, twice[] = {1, 1};
    const cpr_tensor_ranks alone = {.tp_size = 0}, nobody = {.tp_size = 1, .tp_rank = 1};
    const cpr_tensor_ranks disordered = {1, 0, twice};
    cpr_route_request request = request_of(entries, 2, (cpr_geometry){0, 0}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    cpr_route *route = NULL;
    cpr_chunk_plan plan;
    cpr_error error;
    expect_outcome(cpr_route_build_fused(&request, &alone, NULL, &route, &error), &error, CPR_BAD_CP_SIZE, -1,
                   0, 1);
    expect_outcome(
        cpr_chunk_plan_make(16, request.geometry, &alone, CPR_ZIGZAG, CPR_CONTIGUOUS, NULL, &plan, &error),
        &error, CPR_BAD_CP_SIZE, -1, 0, 1);

    request.geometry.cp_size = 2;
    request.target = (cpr_layout)99;
    expect_outcome(cpr_route_build_fused(&request, &alone, NULL, &route, &error), &error, CPR_BAD_LAYOUT, 1,
                   99, CPR_LAYOUT_COUNT);
    expect_outcome(cpr_route_build_fused(&request, &nobody, NULL, &route, &error), &error, CPR_BAD_RANK, -1,
                   1, 1);
    expect_outcome(
        cpr_chunk_plan_make(16, request.geometry, &nobody, CPR_ZIGZAG, CPR_CONTIGUOUS, NULL, &plan, &error),
        &error, CPR_BAD_RANK, -1, 1, 1);
    expect_outcome(cpr_chunk_plan_make(16, request.geometry, &disordered, CPR_ZIGZAG, CPR_CONTIGUOUS, NULL,
                                       &plan, &error),
                   &error, CPR_BAD_RANK, 1, 1, 2);
    assert_null(route);
}

static void paddings_that_do_not_fit(void **state) {
    (void)state;
    enum { ROOM = 12, UNTOUCHED = -7 };
    static const int64_t padded[] = {0, 4, 12}, real[] = {0, 3, 8}, longer[] = {0, 5, 8};
    static const int64_t decreasing[] = {0, 4, 3}, late[] = {1, 4}, huge[] = {0, INT64_MAX - 1};
    const cpr_cu_seqlens wrong = cpr_cu_seqlens_int64(decreasing, 3);
    const cpr_cu_seqlens large = cpr_cu_seqlens_int64(huge, 2);
    const cpr_geometry geometry = {2, 0};
    const cpr_padding fitting = {cpr_cu_seqlens_int64(padded, 3), cpr_cu_seqlens_int64(real, 3)};
    const cpr_padding of_wrong = {.padded = wrong};
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    int64_t numbers[ROOM], back[8], rows;
    cpr_error error;
    for (int64_t i = 0; i < ROOM; i++)
        numbers[i] = UNTOUCHED;
    expect_outcome(cpr_padding_map(&fitting, numbers, 11, NULL, 0, &error), &error, CPR_TOTAL_MISMATCH, 0, 11,
                   12);
    expect_outcome(cpr_padding_map(&fitting, NULL, 0, numbers, 7, &error), &error, CPR_TOTAL_MISMATCH, 1, 7,
                   8);
    assert_int_equal(cpr_padding_map(&fitting, NULL, 0, back, 8, NULL), CPR_OK);
    assert_int_equal(cpr_real_rows(&fitting, geometry, CPR_ZIGZAG, &allocator, &rows, NULL), CPR_OK);
    assert_int_equal(book.held, 0);
    for (int64_t count = 5; count <= 7; count += 2) {
        expect_outcome(cpr_real_tokens(&fitting, geometry, CPR_ZIGZAG, &allocator, numbers, count, &error),
                       &error, CPR_TOTAL_MISMATCH, -1, count, 6);
        expect_outcome(cpr_successors(&fitting, geometry, CPR_ZIGZAG, &allocator, numbers, count, &error),
                       &error, CPR_TOTAL_MISMATCH, -1, count, 6);
    }
    for (int64_t count = 2; count <= 4; count += 2)
        expect_outcome(
            cpr_local_offsets(&fitting.padded, geometry, CPR_ZIGZAG, &allocator, numbers, count, &error),
            &error, CPR_TOTAL_MISMATCH, -1, count, 3);
    expect_outcome(cpr_local_offsets(&wrong, geometry, CPR_ZIGZAG, &allocator, numbers, 3, &error), &error,
                   CPR_DECREASING, 2, 3, 4);
    expect_outcome(cpr_real_rows(&of_wrong, geometry, CPR_ZIGZAG, &allocator, numbers, &error), &error,
                   CPR_DECREASING, 2, 3, 4);
    assert_int_equal(cpr_padding_check(&of_wrong, NULL), CPR_DECREASING);
    expect_outcome(cpr_padding_map(&of_wrong, NULL, 0, NULL, 0, &error), &error, CPR_DECREASING, 2, 3, 4);

    cpr_padding padding = fitting;
    padding.real = cpr_cu_seqlens_int64(longer, 3);
    expect_outcome(cpr_padding_map(&padding, numbers, ROOM, NULL, 0, &error), &error, CPR_TOTAL_MISMATCH, 0,
                   5, 4);
    expect_outcome(cpr_real_rows(&padding, geometry, CPR_ZIGZAG, &allocator, numbers, &error), &error,
                   CPR_TOTAL_MISMATCH, 0, 5, 4);
    expect_outcome(cpr_real_tokens(&padding, geometry, CPR_ZIGZAG, &allocator, numbers, 6, &error), &error,
                   CPR_TOTAL_MISMATCH, 0, 5, 4);
    expect_outcome(cpr_successors(&padding, geometry, CPR_ZIGZAG, &allocator, numbers, 6, &error), &error,
                   CPR_TOTAL_MISMATCH, 0, 5, 4);
    padding.real = cpr_cu_seqlens_int64(late, 2);
    expect_outcome(cpr_padding_check(&padding, &error), &error, CPR_NONZERO_START, 0, 1, 0);
    expect_outcome(cpr_pad_cu_seqlens(&wrong, 4, numbers, 3, &error), &error, CPR_DECREASING, 2, 3, 4);
    expect_outcome(cpr_pad_cu_seqlens(&large, 4, numbers, 2, &error), &error, CPR_OVERFLOW, 1, INT64_MAX,
                   INT64_MAX);
    for (int64_t i = 0; i < ROOM; i++)
        assert_int_equal(numbers[i], UNTOUCHED);
    assert_int_equal(book.held, 0);
}

static void plans_for_nobody_and_rows_of_no_bytes(void **state) {
    (void)state;
    static const int32_t entries[] = {0, 2, 8}, none[] = {0};
    const cpr_cu_seqlens cu = cpr_cu_seqlens_int32(entries, 3), empty = cpr_cu_seqlens_int32(none, 1);
    cpr_padded_plan *plan = NULL;
    cpr_error error;
    expect_outcome(cpr_padded_plan_build(&cu, 8, (cpr_geometry){2, 2}, NULL, &plan, &error), &error,
                   CPR_BAD_RANK, -1, 2, 2);
    assert_int_equal(cpr_padded_plan_build(&cu, 8, (cpr_geometry){2, 0}, NULL, &plan, NULL), CPR_OK);
    cpr_padded_pack(plan, CPR_CONTIGUOUS, 0, NULL, NULL);
    cpr_padded_receive(plan, CPR_ZIGZAG, 0, NULL, NULL);
    cpr_padded_plan_free(plan);
    assert_int_equal(cpr_padded_plan_build(&empty, 0, (cpr_geometry){2, 0}, NULL, &plan, NULL), CPR_OK);
    assert_false(plan->pads);
    cpr_padded_receive(plan, CPR_ZIGZAG, 8, NULL, NULL);
    cpr_padded_plan_free(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_routes_of_many_runs),
        cmocka_unit_test(plans_that_pad_many_sequences),
        cmocka_unit_test(tensors_of_the_other_direction),
        cmocka_unit_test(a_tensor_longer_than_can_be_counted),
        cmocka_unit_test(groups_and_layouts_that_are_none),
        cmocka_unit_test(paddings_that_do_not_fit),
        cmocka_unit_test(plans_for_nobody_and_rows_of_no_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
