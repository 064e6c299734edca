/* SPDX-License-Identifier: Apache-2.0 */
/* What memory a route is built with: that of the route. */
#include "example.h"

enum { SLOTS = 300 };

/* Sequences of 0 to 4 times 2P tokens; every fifth slot is empty. */
static void fill_boundaries(int64_t *boundaries, int64_t ranks) {
    boundaries[0] = 0;
    for (int64_t i = 0; i < SLOTS; i++)
        boundaries[i + 1] = boundaries[i] + 2 * ranks * (i % 5);
}

static int64_t lists_with_runs(const cpr_route *route) {
    return (route->send.count > 0) + (route->recv.count > 0);
}

static cpr_route *build(const cpr_route_request *request, ledger *book) {
    const cpr_allocator allocator = ledger_allocator(book);
    cpr_route *route;
    assert_int_equal(cpr_route_build(request, &allocator, &route, NULL), CPR_OK);
    return route;
}

static void expect_no_other_memory(const cpr_route_request *request) {
    ledger book;
    cpr_route *route = build(request, &book);
    assert_int_equal(book.allocations, 1 + lists_with_runs(route));
    assert_int_equal(book.held,
                     sizeof *route + (size_t)(route->send.count + route->recv.count) * sizeof(cpr_run));
    cpr_route_free(route);
    assert_int_equal(book.held, 0);
}

static void routes_need_no_memory_but_their_own(void **state) {
    (void)state;
    static const int64_t groups[] = {1, 2, 3, 8, 97, 1024};
    int64_t boundaries[SLOTS + 1];
    for (int64_t g = 0; g < LENGTH_OF(groups); g++) {
        fill_boundaries(boundaries, groups[g]);
        for (int source = 0; source < CPR_LAYOUT_COUNT; source++)
            for (int target = 0; target < CPR_LAYOUT_COUNT; target++)
                for (int64_t rank = 0; rank < groups[g]; rank += 1 + groups[g] / 7) {
                    const cpr_route_request request =
                        request_of(boundaries, SLOTS + 1, (cpr_geometry){groups[g], rank}, (cpr_layout)source,
                                   (cpr_layout)target);
                    if (source != CPR_HEADS_THEN_TAILS && target != CPR_HEADS_THEN_TAILS)
                        expect_no_other_memory(&request);
                }
    }
}

/* Lists that begin anew at the lowest peer, of 32 runs and of 40: the few are sorted in their place, the others by counting. */
static void few_runs_need_no_spare(void **state) {
    (void)state;
    static const int64_t few[] = {0, 2, 3, 5, 7, 10, 12, 14, 15, 16, 19, 22, 23, 25, 26, 30, 34};
    enum { FEW = LENGTH_OF(few), MORE = 41 };
    int64_t boundaries[MORE];
    for (int64_t i = 0; i < FEW; i++)
        boundaries[i] = 1024 * few[i];
    const cpr_route_request sorted =
        request_of(boundaries, FEW, (cpr_geometry){512, 30}, CPR_CONTIGUOUS, CPR_PER_SEQUENCE_CONTIGUOUS);
    expect_no_other_memory(&sorted);
    for (int64_t i = 0; i < MORE; i++)
        boundaries[i] = 2048 * i;
    const cpr_route_request counted =
        request_of(boundaries, MORE, (cpr_geometry){1024, 25}, CPR_CONTIGUOUS, CPR_PER_SEQUENCE_CONTIGUOUS);
    expect_no_other_memory(&counted);
}

/* To windows of the stream and back. */
static void expect_no_other_memory_for_tails(const int64_t *boundaries, cpr_geometry geometry) {
    static const cpr_layout pairs[][2] = {{CPR_HEADS_THEN_TAILS, CPR_CONTIGUOUS},
                                          {CPR_CONTIGUOUS, CPR_HEADS_THEN_TAILS}};
    for (int64_t i = 0; i < LENGTH_OF(pairs); i++) {
        const cpr_route_request request =
            request_of(boundaries, SLOTS + 1, geometry, pairs[i][0], pairs[i][1]);
        expect_no_other_memory(&request);
    }
}

/* Tails that come last need more memory only where runs are joined, which is never so where the stream is cut into windows. */
static void tails_that_join_nothing_need_no_other_memory(void **state) {
    (void)state;
    int64_t boundaries[SLOTS + 1];
    fill_boundaries(boundaries, 8);
    for (int64_t rank = 0; rank < 8; rank++)
        expect_no_other_memory_for_tails(boundaries, (cpr_geometry){8, rank});
}

/* Heads and tails of 512 ranks are as many as are counted on the stack. */
static void tails_of_many_ranks_need_no_spare(void **state) {
    (void)state;
    int64_t boundaries[SLOTS + 1];
    fill_boundaries(boundaries, 512);
    for (int64_t rank = 0; rank < 512; rank += 73)
        expect_no_other_memory_for_tails(boundaries, (cpr_geometry){512, rank});
}

/* A window is cut from a whole route; then messages are put in the order of the group, which is counted on the stack. */
static void windows_need_no_spare(void **state) {
    (void)state;
    enum { RANKS = 1000 };
    static const cpr_layout pairs[][2] = {{CPR_ZIGZAG, CPR_CONTIGUOUS}, {CPR_CONTIGUOUS, CPR_ZIGZAG}};
    int64_t boundaries[SLOTS + 1], backwards[RANKS];
    fill_boundaries(boundaries, RANKS);
    for (int64_t rank = 0; rank < RANKS; rank++)
        backwards[rank] = RANKS - 1 - rank;
    for (int64_t i = 0; i < LENGTH_OF(pairs); i++) {
        const cpr_route_request request =
            request_of(boundaries, SLOTS + 1, (cpr_geometry){RANKS, 5}, pairs[i][0], pairs[i][1]);
        const cpr_tensor_ranks tp = {.tp_size = 1, .group_ranks = backwards};
        enum { BITS = 1 }; /* of the ranks that were seen */
        ledger book;
        const cpr_allocator allocator = ledger_allocator(&book);
        cpr_route *route;
        assert_int_equal(cpr_route_build_fused(&request, &tp, &allocator, &route, NULL), CPR_OK);
        assert_int_equal(book.allocations, BITS + 2 * (1 + lists_with_runs(route)));
        cpr_route_free(route);
        assert_int_equal(book.held, 0);
    }
}

static void padded_plans_need_no_spare(void **state) {
    (void)state;
    enum { RANKS = 1000 };
    int32_t boundaries[SLOTS + 1] = {0};
    for (int i = 0; i < SLOTS; i++)
        boundaries[i + 1] = boundaries[i] + RANKS * (i % 5);
    const cpr_cu_seqlens cu = cpr_cu_seqlens_int32(boundaries, SLOTS + 1);
    for (int64_t rank = 0; rank < RANKS; rank += 70) {
        ledger book;
        const cpr_allocator allocator = ledger_allocator(&book);
        cpr_padded_plan *plan;
        assert_int_equal(cpr_padded_plan_build(&cu, CPR_ROWS_UNCHECKED, (cpr_geometry){RANKS, rank},
                                               &allocator, &plan, NULL),
                         CPR_OK);
        assert_int_equal(book.allocations, 2 + (plan->contiguous.count > 0) + (plan->zigzag.count > 0));
        cpr_padded_plan_free(plan);
        assert_int_equal(book.held, 0);
    }
}

enum { BYTES_THERE_ARE = 1 << 24 };

static void *allocate_of_few_bytes(void *context, size_t size) {
    return size > 0 && size <= BYTES_THERE_ARE ? ledger_allocate(context, size) : NULL;
}

/* Two tokens for each rank. What is written down is of the tokens and of the ranks, not of one for each other. */
static void enumerating_takes_memory_by_the_token(void **state) {
    (void)state;
    enum { RANKS = 32768 };
    static const int64_t boundaries[] = {0, 2 * RANKS};
    const cpr_route_request request =
        request_of(boundaries, 2, (cpr_geometry){RANKS, 7}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    for (int i = 0; i < BUILDER_COUNT; i++) {
        ledger book;
        cpr_allocator allocator = ledger_allocator(&book);
        allocator.allocate = allocate_of_few_bytes;
        cpr_route *route;
        assert_int_equal(BUILDERS[i](&request, &allocator, &route, NULL), CPR_OK);
        cpr_route_free(route);
        assert_int_equal(book.held, 0);
    }
}

/* Pairs that are listed in closed form: the one that is in use, and those that cut the same frames. */
static void closed_forms_need_no_spare_in_large_groups(void **state) {
    (void)state;
    static const cpr_layout pairs[][2] = {
        {CPR_ZIGZAG, CPR_CONTIGUOUS},
        {CPR_ZIGZAG, CPR_PER_SEQUENCE_CONTIGUOUS},
        {CPR_PER_SEQUENCE_CONTIGUOUS, CPR_HEADS_THEN_TAILS},
        {CPR_HEADS_THEN_TAILS, CPR_ZIGZAG},
        {CPR_HEADS_THEN_TAILS, CPR_HEADS_THEN_TAILS},
        {CPR_CONTIGUOUS, CPR_FLAT_ZIGZAG},
    };
    int64_t boundaries[SLOTS + 1];
    fill_boundaries(boundaries, 5000);
    for (int64_t i = 0; i < LENGTH_OF(pairs); i++)
        for (int64_t rank = 0; rank < 5000; rank += 700) {
            const cpr_geometry geometry = {5000, rank};
            const cpr_route_request forth =
                request_of(boundaries, SLOTS + 1, geometry, pairs[i][0], pairs[i][1]);
            const cpr_route_request back =
                request_of(boundaries, SLOTS + 1, geometry, pairs[i][1], pairs[i][0]);
            expect_no_other_memory(&forth);
            expect_no_other_memory(&back);
        }
}

/* More ranks than are counted on the stack: sorted with a spare list, and right all the same. */
static void large_groups_are_sorted_with_a_spare_list(void **state) {
    (void)state;
    const cpr_geometry geometry = {2000, 999};
    int64_t boundaries[SLOTS + 1];
    fill_boundaries(boundaries, geometry.cp_size);
    const cpr_route_request request =
        request_of(boundaries, SLOTS + 1, geometry, CPR_FLAT_ZIGZAG, CPR_ZIGZAG);
    ledger book;
    cpr_route *route = build(&request, &book);
    assert_true(book.allocations > 3);
    cpr_route *wanted;
    assert_int_equal(cpr_route_build_per_token(&request, NULL, &wanted, NULL), CPR_OK);
    assert_true(cpr_route_equal(route, wanted));
    cpr_route_free(wanted);
    cpr_route_free(route);
    assert_int_equal(book.held, 0);
}

static void a_missing_spare_list_is_no_memory(void **state) {
    (void)state;
    const cpr_geometry geometry = {2000, 999};
    int64_t boundaries[SLOTS + 1];
    fill_boundaries(boundaries, geometry.cp_size);
    const cpr_route_request request =
        request_of(boundaries, SLOTS + 1, geometry, CPR_FLAT_ZIGZAG, CPR_ZIGZAG);
    for (int64_t fail_at = 0; fail_at < 5; fail_at++) {
        ledger book;
        const cpr_allocator allocator = ledger_allocator(&book);
        book.fail_at = fail_at;
        cpr_route *route = NULL;
        cpr_error error;
        assert_int_equal(cpr_route_build(&request, &allocator, &route, &error), CPR_NO_MEMORY);
        expect_error(&error, CPR_NO_MEMORY, -1, 0, 0);
        assert_null(route);
        assert_int_equal(book.held, 0);
    }
}

/* Heads [4,12) and [36,39) are found apart, with a tail between them, and are one run: less is kept than was counted. */
static void runs_that_come_to_be_joined_leave_no_memory_behind(void **state) {
    (void)state;
    static const int64_t boundaries[] = {0, 4, 36, 48};
    const cpr_route_request request =
        request_of(boundaries, 4, (cpr_geometry){2, 0}, CPR_HEADS_THEN_TAILS, CPR_FLAT_ZIGZAG);
    ledger book;
    cpr_route *route = build(&request, &book);
    assert_int_equal(book.held,
                     sizeof *route + (size_t)(route->send.count + route->recv.count) * sizeof(cpr_run));
    cpr_route *wanted;
    assert_int_equal(cpr_route_build_definition(&request, NULL, &wanted, NULL), CPR_OK);
    assert_true(cpr_route_equal(route, wanted));
    cpr_route_free(wanted);
    cpr_route_free(route);
    assert_int_equal(book.held, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_need_no_memory_but_their_own),
        cmocka_unit_test(few_runs_need_no_spare),
        cmocka_unit_test(tails_that_join_nothing_need_no_other_memory),
        cmocka_unit_test(tails_of_many_ranks_need_no_spare),
        cmocka_unit_test(windows_need_no_spare),
        cmocka_unit_test(padded_plans_need_no_spare),
        cmocka_unit_test(enumerating_takes_memory_by_the_token),
        cmocka_unit_test(closed_forms_need_no_spare_in_large_groups),
        cmocka_unit_test(large_groups_are_sorted_with_a_spare_list),
        cmocka_unit_test(a_missing_spare_list_is_no_memory),
        cmocka_unit_test(runs_that_come_to_be_joined_leave_no_memory_behind),
    };
    return cmocka_run_group_tests_name("route memory", tests, NULL, NULL);
}
