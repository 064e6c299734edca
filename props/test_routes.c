/* SPDX-License-Identifier: Apache-2.0 */
/* Routes and layouts worked out by hand. Every builder must give them. */
#include "example.h"

enum { MAX_ROWS = 12, MAX_RANKS = 4, MAX_RUNS = 8 };

typedef struct side_example {
    int64_t rows[MAX_ROWS];
    int64_t splits[MAX_RANKS];
    bool identity;
    int64_t run_count;
    cpr_run runs[MAX_RUNS];
} side_example;

typedef struct route_example {
    int64_t boundaries[6];
    int64_t entries;
    cpr_geometry geometry;
    cpr_layout source, target;
    int64_t local_rows;
    side_example send, recv;
} route_example;

/* cu = [0,4,16], P = 2: zigzag has 0 3 4 5 6 13 14 15 | 1 2 7..12, contiguous 0..7 | 8..15. */
static const route_example EXAMPLES[] = {
    {
        .boundaries = {0, 4, 16},
        .entries = 3,
        .geometry = {2, 0},
        .source = CPR_ZIGZAG,
        .target = CPR_CONTIGUOUS,
        .local_rows = 8,
        .send = {{0, 1, 2, 3, 4, 5, 6, 7}, {5, 3}, true, 3, {{0, 0, 0, 1}, {0, 1, 3, 4}, {1, 5, 5, 3}}},
        .recv = {{0, 3, 4, 5, 6, 1, 2, 7},
                 {5, 3},
                 false,
                 4,
                 {{0, 0, 0, 1}, {0, 1, 3, 4}, {1, 0, 1, 2}, {1, 2, 7, 1}}},
    },
    {
        .boundaries = {0, 4, 16},
        .entries = 3,
        .geometry = {2, 1},
        .source = CPR_ZIGZAG,
        .target = CPR_CONTIGUOUS,
        .local_rows = 8,
        .send = {{0, 1, 2, 3, 4, 5, 6, 7}, {3, 5}, true, 3, {{0, 0, 1, 2}, {0, 2, 7, 1}, {1, 3, 0, 5}}},
        .recv = {{5, 6, 7, 0, 1, 2, 3, 4}, {3, 5}, false, 2, {{0, 5, 5, 3}, {1, 3, 0, 5}}},
    },
    {
        .boundaries = {0, 4, 16},
        .entries = 3,
        .geometry = {2, 0},
        .source = CPR_CONTIGUOUS,
        .target = CPR_ZIGZAG,
        .local_rows = 8,
        .send = {{0, 3, 4, 5, 6, 1, 2, 7},
                 {5, 3},
                 false,
                 4,
                 {{0, 0, 0, 1}, {0, 3, 1, 4}, {1, 1, 0, 2}, {1, 7, 2, 1}}},
        .recv = {{0, 1, 2, 3, 4, 5, 6, 7}, {5, 3}, true, 3, {{0, 0, 0, 1}, {0, 3, 1, 4}, {1, 5, 5, 3}}},
    },
    /* The flat tensor of Megatron-LM 5664. */
    {
        .boundaries = {0, 24, 32},
        .entries = 3,
        .geometry = {4, 1},
        .source = CPR_ZIGZAG,
        .target = CPR_CONTIGUOUS,
        .local_rows = 8,
        .send = {{0, 1, 2, 3, 4, 5, 6, 7},
                 {3, 0, 3, 2},
                 true,
                 4,
                 {{0, 0, 3, 3}, {2, 3, 2, 3}, {3, 6, 1, 1}, {3, 7, 6, 1}}},
        .recv =
            {{0, 7, 1, 2, 3, 4, 5, 6}, {0, 0, 2, 6}, false, 3, {{2, 2, 0, 1}, {2, 3, 7, 1}, {3, 0, 1, 6}}},
    },
    /* The two-view route of Megatron-LM 6387, with empty slots at the end. */
    {
        .boundaries = {0, 8, 12, 16, 16, 16},
        .entries = 6,
        .geometry = {2, 0},
        .source = CPR_ZIGZAG,
        .target = CPR_CONTIGUOUS,
        .local_rows = 8,
        .send = {{0, 1, 2, 3, 4, 5, 6, 7},
                 {4, 4},
                 true,
                 5,
                 {{0, 0, 0, 2}, {0, 2, 6, 2}, {1, 4, 0, 1}, {1, 5, 3, 2}, {1, 7, 7, 1}}},
        .recv = {{0, 1, 6, 7, 2, 3, 4, 5}, {4, 4}, false, 3, {{0, 0, 0, 2}, {0, 2, 6, 2}, {1, 0, 2, 4}}},
    },
    /* Heads 0 4 5 6, then tails 3 13 14 15: sent out of order and not an identity. */
    {
        .boundaries = {0, 4, 16},
        .entries = 3,
        .geometry = {2, 0},
        .source = CPR_HEADS_THEN_TAILS,
        .target = CPR_CONTIGUOUS,
        .local_rows = 8,
        .send = {{0, 4, 1, 2, 3, 5, 6, 7},
                 {5, 3},
                 false,
                 4,
                 {{0, 0, 0, 1}, {0, 4, 3, 1}, {0, 1, 4, 3}, {1, 5, 5, 3}}},
        .recv = {{0, 3, 4, 5, 6, 1, 2, 7},
                 {5, 3},
                 false,
                 6,
                 {{0, 0, 0, 1}, {0, 4, 3, 1}, {0, 1, 4, 3}, {1, 0, 1, 1}, {1, 4, 2, 1}, {1, 1, 7, 1}}},
    },
    /* To tails that come last: rows of a message ascend in the target, not in the stream. */
    {
        .boundaries = {0, 4, 16},
        .entries = 3,
        .geometry = {2, 0},
        .source = CPR_CONTIGUOUS,
        .target = CPR_HEADS_THEN_TAILS,
        .local_rows = 8,
        .send = {{0, 4, 5, 6, 3, 1, 7, 2},
                 {5, 3},
                 false,
                 6,
                 {{0, 0, 0, 1}, {0, 4, 1, 3}, {0, 3, 4, 1}, {1, 1, 0, 1}, {1, 7, 1, 1}, {1, 2, 4, 1}}},
        .recv = {{0, 1, 2, 3, 4, 5, 6, 7},
                 {5, 3},
                 true,
                 4,
                 {{0, 0, 0, 1}, {0, 4, 1, 3}, {0, 3, 4, 1}, {1, 5, 5, 3}}},
    },
    /* Flat zigzag of 16 tokens, 0..3 12..15, from chunks 2r, 2r+1 of every sequence, 0 1 4..9 | 2 3 10..15. */
    {
        .boundaries = {0, 4, 16},
        .entries = 3,
        .geometry = {2, 1},
        .source = CPR_PER_SEQUENCE_CONTIGUOUS,
        .target = CPR_FLAT_ZIGZAG,
        .local_rows = 8,
        .send = {{0, 1, 4, 5, 6, 7, 2, 3}, {6, 2}, false, 3, {{0, 0, 2, 2}, {0, 4, 4, 4}, {1, 2, 6, 2}}},
        .recv = {{0, 1, 2, 3, 4, 5, 6, 7}, {6, 2}, true, 2, {{0, 2, 0, 6}, {1, 2, 6, 2}}},
    },
    /* One rank: lengths need not be divisible, and every layout is the stream. */
    {
        .boundaries = {0, 3, 7},
        .entries = 3,
        .geometry = {1, 0},
        .source = CPR_HEADS_THEN_TAILS,
        .target = CPR_FLAT_ZIGZAG,
        .local_rows = 7,
        .send = {{0, 1, 2, 3, 4, 5, 6}, {7}, true, 1, {{0, 0, 0, 7}}},
        .recv = {{0, 1, 2, 3, 4, 5, 6}, {7}, true, 1, {{0, 0, 0, 7}}},
    },
    /* From a layout to itself nothing moves. */
    {
        .boundaries = {0, 6, 18},
        .entries = 3,
        .geometry = {3, 2},
        .source = CPR_ZIGZAG,
        .target = CPR_ZIGZAG,
        .local_rows = 6,
        .send = {{0, 1, 2, 3, 4, 5}, {0, 0, 6}, true, 1, {{2, 0, 0, 6}}},
        .recv = {{0, 1, 2, 3, 4, 5}, {0, 0, 6}, true, 1, {{2, 0, 0, 6}}},
    },
    /* Empty routes. */
    {
        .boundaries = {0},
        .entries = 1,
        .geometry = {3, 1},
        .source = CPR_ZIGZAG,
        .target = CPR_CONTIGUOUS,
        .send = {.identity = true},
        .recv = {.identity = true},
    },
    {
        .boundaries = {0, 0},
        .entries = 2,
        .geometry = {2, 1},
        .source = CPR_CONTIGUOUS,
        .target = CPR_HEADS_THEN_TAILS,
        .send = {.identity = true},
        .recv = {.identity = true},
    },
};

static void expect_side(const cpr_route *route, cpr_side side, const route_example *example) {
    const cpr_run_list *list = side == CPR_SEND ? &route->send : &route->recv;
    const side_example *wanted = side == CPR_SEND ? &example->send : &example->recv;
    const int64_t ranks = example->geometry.cp_size;
    int64_t rows[MAX_ROWS], splits[MAX_RANKS];

    assert_int_equal(list->rows, example->local_rows);
    assert_int_equal(list->identity, wanted->identity);
    expect_runs(list, wanted->runs, wanted->run_count);
    assert_int_equal(cpr_route_rows(route, side, CPR_INT64, rows, list->rows, NULL), CPR_OK);
    expect_numbers(rows, wanted->rows, list->rows);
    assert_int_equal(cpr_route_splits(route, side, splits, ranks, NULL), CPR_OK);
    expect_numbers(splits, wanted->splits, ranks);
}

static void routes_worked_out_by_hand(void **state) {
    (void)state;
    for (int64_t i = 0; i < LENGTH_OF(EXAMPLES); i++) {
        const route_example *e = &EXAMPLES[i];
        cpr_route_request request = request_of(e->boundaries, e->entries, e->geometry, e->source, e->target);
        request.rows = e->boundaries[e->entries - 1];
        for (int b = 0; b < BUILDER_COUNT; b++) {
            ledger book;
            const cpr_allocator allocator = ledger_allocator(&book);
            cpr_route *route = NULL;
            cpr_error error = {CPR_INTERNAL, 7, 7, 7};
            assert_int_equal(BUILDERS[b](&request, &allocator, &route, &error), CPR_OK);
            assert_int_equal(error.status, CPR_OK);
            assert_int_equal(route->source, e->source);
            assert_int_equal(route->target, e->target);
            assert_int_equal(route->geometry.cp_size, e->geometry.cp_size);
            assert_int_equal(route->geometry.cp_rank, e->geometry.cp_rank);
            assert_int_equal(route->total_tokens, e->boundaries[e->entries - 1]);
            expect_side(route, CPR_SEND, e);
            expect_side(route, CPR_RECV, e);
            assert_true(cpr_route_validate(route, NULL, NULL));
            cpr_route_free(route);
            assert_int_equal(book.held, 0);
        }
    }
}

static void boundaries_may_be_narrow_strided_reversed_and_unaligned(void **state) {
    (void)state;
    static const int64_t plain[] = {0, 4, 16};
    static const int32_t strided[] = {0, -1, 4, -1, 16};
    static const int64_t reversed[] = {16, 4, 0};
    char unaligned[1 + sizeof plain];
    memcpy(unaligned + 1, plain, sizeof plain);
    const cpr_cu_seqlens views[] = {
        {strided, 3, 2, CPR_INT32, CPR_CPU},
        {reversed + 2, 3, -1, CPR_INT64, CPR_CPU},
        {unaligned + 1, 3, 1, CPR_INT64, CPR_CPU},
    };
    cpr_route *wanted = route_of(plain, 3, (cpr_geometry){2, 1}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    for (int64_t i = 0; i < LENGTH_OF(views); i++) {
        cpr_route_request request = request_of(plain, 3, (cpr_geometry){2, 1}, CPR_ZIGZAG, CPR_CONTIGUOUS);
        request.cu_seqlens = views[i];
        for (int b = 0; b < BUILDER_COUNT; b++) {
            cpr_route *route = NULL;
            assert_int_equal(BUILDERS[b](&request, NULL, &route, NULL), CPR_OK);
            assert_true(cpr_route_equal(route, wanted));
            cpr_route_free(route);
        }
    }
    cpr_route_free(wanted);
}

static void stride_zero_repeats_entry_zero(void **state) {
    (void)state;
    static const int64_t zero[] = {0};
    cpr_route_request request = request_of(zero, 5, (cpr_geometry){2, 1}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    request.cu_seqlens.stride = 0;
    for (int b = 0; b < BUILDER_COUNT; b++) {
        cpr_route *route = NULL;
        assert_int_equal(BUILDERS[b](&request, NULL, &route, NULL), CPR_OK);
        assert_int_equal(route->total_tokens, 0);
        cpr_route_free(route);
    }
}

/* Long gaps between sequences are not walked through: with and without them, and as long as the longest that is. */
static void empty_slots_change_nothing_however_many(void **state) {
    (void)state;
    enum { GAP_MAX = 140 };
    static const int64_t plain[] = {0, 6, 24, 36};
    int64_t gapped[4 * (1 + GAP_MAX)];
    for (int64_t gap = 0; gap <= GAP_MAX; gap++) {
        for (int64_t i = 0; i < 4 * (1 + gap); i++)
            gapped[i] = plain[i / (1 + gap)];
        for (int64_t rank = 0; rank < 3; rank++)
            for (int source = CPR_ZIGZAG; source <= CPR_CONTIGUOUS; source++) {
                const cpr_layout from = (cpr_layout)source, to = (cpr_layout)(CPR_CONTIGUOUS - source);
                cpr_route *wanted = route_of(plain, 4, (cpr_geometry){3, rank}, from, to);
                cpr_route *route = route_of(gapped, 4 * (1 + gap), (cpr_geometry){3, rank}, from, to);
                assert_true(cpr_route_equal(route, wanted));
                cpr_route_free(route);
                cpr_route_free(wanted);
            }
    }
}

/* No token is looked at: 2^40 tokens in three sequences are as many runs as 64 tokens. */
static void size_does_not_matter_to_runs(void **state) {
    (void)state;
    const int64_t k = INT64_C(1) << 34;
    const int64_t boundaries[] = {0, 8 * k, 24 * k, 64 * k};
    cpr_route *route = route_of(boundaries, 4, (cpr_geometry){4, 0}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    /* Rank 0 has 0 7 | 8 9 22 23 | 24..28 59..63 of 64 units; every rank's contiguous share is 16 units. */
    const cpr_run sends[] = {
        {0, 0, 0, k}, {0, k, 7 * k, 3 * k}, {1, 4 * k, 6 * k, 7 * k}, {3, 11 * k, 11 * k, 5 * k}};
    expect_runs(&route->send, sends, 4);
    assert_int_equal(route->total_tokens, INT64_C(1) << 40);
    assert_int_equal(route->send.rows, 16 * k);
    assert_int_equal(route->recv.rows, 16 * k);
    assert_true(route->send.identity);
    assert_true(cpr_route_validate(route, NULL, NULL));
    cpr_route_free(route);
}

static void the_largest_group_has_routes(void **state) {
    (void)state;
    static const int64_t empty[] = {0, 0};
    const int64_t boundaries[] = {0, 2 * CPR_CP_SIZE_MAX};
    const cpr_geometry last = {CPR_CP_SIZE_MAX, CPR_CP_SIZE_MAX - 1};
    cpr_route *route = route_of(boundaries, 2, last, CPR_ZIGZAG, CPR_CONTIGUOUS);
    const cpr_run sends[] = {{CPR_CP_SIZE_MAX / 2 - 1, 0, 1, 1}, {CPR_CP_SIZE_MAX / 2, 1, 0, 1}};
    const cpr_run receives[] = {{0, 1, 1, 1}, {1, 1, 0, 1}};
    expect_runs(&route->send, sends, 2);
    expect_runs(&route->recv, receives, 2);
    cpr_route_free(route);

    const cpr_route_request request = request_of(empty, 2, last, CPR_FLAT_ZIGZAG, CPR_HEADS_THEN_TAILS);
    for (int b = 0; b < BUILDER_COUNT; b++) {
        assert_int_equal(BUILDERS[b](&request, NULL, &route, NULL), CPR_OK);
        assert_int_equal(route->send.count, 0);
        assert_int_equal(route->recv.count, 0);
        cpr_route_free(route);
    }
}

static void the_longest_stream_has_a_route(void **state) {
    (void)state;
    const int64_t boundaries[] = {0, INT64_MAX - 7, INT64_MAX - 7};
    cpr_route *route = route_of(boundaries, 3, (cpr_geometry){1, 0}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    assert_int_equal(route->send.rows, INT64_MAX - 7);
    cpr_route_free(route);
    route = route_of(boundaries, 3, (cpr_geometry){2, 1}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    const int64_t chunk = (INT64_MAX - 7) / 4;
    const cpr_run sends[] = {{0, 0, chunk, chunk}, {1, chunk, 0, chunk}};
    expect_runs(&route->send, sends, 2);
    cpr_route_free(route);
}

/* What is within the limit goes as far as its first allocation. */
static void the_oracles_take_their_limit_and_no_more(void **state) {
    (void)state;
    const int64_t boundaries[] = {0, CPR_ENUMERATION_MAX_TOKENS + (1 << 20)};
    const int64_t limit[] = {0, CPR_ENUMERATION_MAX_TOKENS};
    const cpr_geometry geometry = {1 << 18, 5};
    const cpr_route_request request = request_of(boundaries, 2, geometry, CPR_ZIGZAG, CPR_CONTIGUOUS);
    const cpr_route_request longest = request_of(limit, 2, geometry, CPR_ZIGZAG, CPR_CONTIGUOUS);
    for (int b = 1; b < BUILDER_COUNT; b++) {
        ledger book;
        const cpr_allocator allocator = ledger_allocator(&book);
        cpr_route *route = NULL;
        cpr_error error;
        assert_int_equal(BUILDERS[b](&request, &allocator, &route, &error), CPR_OVERFLOW);
        expect_error(&error, CPR_OVERFLOW, -1, CPR_ENUMERATION_MAX_TOKENS + (1 << 20),
                     CPR_ENUMERATION_MAX_TOKENS);
        assert_null(route);
        assert_int_equal(book.allocations, 0);
        book.fail_at = 0;
        assert_int_equal(BUILDERS[b](&longest, &allocator, &route, &error), CPR_NO_MEMORY);
        assert_int_equal(book.allocations, 1);
    }
}

static void expect_intervals(cpr_layout layout, int64_t rank, const cpr_interval *wanted, int64_t count) {
    static const int64_t boundaries[] = {0, 4, 4, 16};
    const cpr_cu_seqlens cu = cpr_cu_seqlens_int64(boundaries, 4);
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    cpr_intervals *intervals = NULL;
    cpr_error error = {CPR_INTERNAL, 7, 7, 7};
    assert_int_equal(
        cpr_layout_intervals(&cu, 16, (cpr_geometry){2, rank}, layout, &allocator, &intervals, &error),
        CPR_OK);
    assert_int_equal(error.status, CPR_OK);
    assert_int_equal(intervals->rows, 8);
    assert_int_equal(intervals->count, count);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(intervals->items[i].begin, wanted[i].begin);
        assert_int_equal(intervals->items[i].end, wanted[i].end);
    }
    cpr_intervals_free(intervals);
    assert_int_equal(book.held, 0);
}

static void intervals_worked_out_by_hand(void **state) {
    (void)state;
    expect_intervals(CPR_ZIGZAG, 0, (const cpr_interval[]){{0, 1}, {3, 7}, {13, 16}}, 3);
    expect_intervals(CPR_ZIGZAG, 1, (const cpr_interval[]){{1, 3}, {7, 13}}, 2);
    expect_intervals(CPR_CONTIGUOUS, 0, (const cpr_interval[]){{0, 8}}, 1);
    expect_intervals(CPR_CONTIGUOUS, 1, (const cpr_interval[]){{8, 16}}, 1);
    expect_intervals(CPR_PER_SEQUENCE_CONTIGUOUS, 0, (const cpr_interval[]){{0, 2}, {4, 10}}, 2);
    expect_intervals(CPR_PER_SEQUENCE_CONTIGUOUS, 1, (const cpr_interval[]){{2, 4}, {10, 16}}, 2);
    expect_intervals(CPR_FLAT_ZIGZAG, 0, (const cpr_interval[]){{0, 4}, {12, 16}}, 2);
    expect_intervals(CPR_FLAT_ZIGZAG, 1, (const cpr_interval[]){{4, 12}}, 1);
    expect_intervals(CPR_HEADS_THEN_TAILS, 0, (const cpr_interval[]){{0, 1}, {4, 7}, {3, 4}, {13, 16}}, 4);
    expect_intervals(CPR_HEADS_THEN_TAILS, 1, (const cpr_interval[]){{1, 2}, {7, 10}, {2, 3}, {10, 13}}, 4);
}

static void empty_layouts_and_a_lone_rank(void **state) {
    (void)state;
    static const int64_t boundaries[] = {0, 3, 5};
    cpr_cu_seqlens cu = cpr_cu_seqlens_int64(boundaries, 3);
    for (int layout = 0; layout < CPR_LAYOUT_COUNT; layout++) {
        cpr_intervals *intervals = NULL;
        cu.count = 3;
        assert_int_equal(cpr_layout_intervals(&cu, CPR_ROWS_UNCHECKED, (cpr_geometry){1, 0},
                                              (cpr_layout)layout, NULL, &intervals, NULL),
                         CPR_OK);
        assert_int_equal(intervals->count, 1);
        assert_int_equal(intervals->items[0].begin, 0);
        assert_int_equal(intervals->items[0].end, 5);
        cpr_intervals_free(intervals);
        cu.count = 1;
        assert_int_equal(cpr_layout_intervals(&cu, CPR_ROWS_UNCHECKED, (cpr_geometry){3, 2},
                                              (cpr_layout)layout, NULL, &intervals, NULL),
                         CPR_OK);
        assert_int_equal(intervals->count, 0);
        assert_int_equal(intervals->rows, 0);
        cpr_intervals_free(intervals);
    }
}

static void null_is_freed(void **state) {
    (void)state;
    cpr_route_free(NULL);
    cpr_intervals_free(NULL);
}

static void all_ranks_at_once(void **state) {
    (void)state;
    static const int64_t boundaries[] = {0, 4, 16};
    /* Of a rank that there is not: nobody's rank is looked at. */
    cpr_route_request request = request_of(boundaries, 3, (cpr_geometry){2, 7}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    cpr_route_group *group;
    assert_int_equal(cpr_route_group_build(&request, NULL, &group, NULL), CPR_OK);
    assert_int_equal(group->size, 2);
    for (int64_t rank = 0; rank < 2; rank++) {
        cpr_route *alone = route_of(boundaries, 3, (cpr_geometry){2, rank}, CPR_ZIGZAG, CPR_CONTIGUOUS);
        assert_true(cpr_route_equal(group->routes[rank], alone));
        cpr_route_free(alone);
    }
    cpr_route_group_free(group);

    cpr_route_group *untouched = group = &(cpr_route_group){0};
    request.rows = 17;
    assert_int_equal(cpr_route_group_build(&request, NULL, &group, NULL), CPR_TOTAL_MISMATCH);
    assert_ptr_equal(group, untouched);
    cpr_route_group_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_worked_out_by_hand),
        cmocka_unit_test(boundaries_may_be_narrow_strided_reversed_and_unaligned),
        cmocka_unit_test(stride_zero_repeats_entry_zero),
        cmocka_unit_test(empty_slots_change_nothing_however_many),
        cmocka_unit_test(size_does_not_matter_to_runs),
        cmocka_unit_test(the_largest_group_has_routes),
        cmocka_unit_test(the_longest_stream_has_a_route),
        cmocka_unit_test(the_oracles_take_their_limit_and_no_more),
        cmocka_unit_test(intervals_worked_out_by_hand),
        cmocka_unit_test(empty_layouts_and_a_lone_rank),
        cmocka_unit_test(all_ranks_at_once),
        cmocka_unit_test(null_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
