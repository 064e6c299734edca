/* SPDX-License-Identifier: Apache-2.0 */
/* Moving rows on the host, what is refused before a byte moves, and counts of a transport. */
#include "example.h"

enum { RANKS = 2, ROWS = 8, ROW_BYTES = 3, MAX_RUNS = 8, NOISE = 0xA5 };

/* Both ranks of cu = [0,4,16], P = 2, zigzag to contiguous; row bytes are the token, its tenfold and its complement. */
typedef struct exchange {
    cpr_route *built[RANKS];
    cpr_route routes[RANKS]; /* to be damaged */
    cpr_run recv[RANKS][MAX_RUNS];
    const cpr_route *pointers[RANKS];
    uint8_t source_rows[RANKS][ROWS][ROW_BYTES];
    uint8_t target_rows[RANKS][ROWS][ROW_BYTES];
    cpr_shard sources[RANKS];
    cpr_shard targets[RANKS];
} exchange;

static const int64_t BOUNDARIES[] = {0, 4, 16};
static const uint8_t ZIGZAG_TOKENS[RANKS][ROWS] = {{0, 3, 4, 5, 6, 13, 14, 15}, {1, 2, 7, 8, 9, 10, 11, 12}};

static void paint_row(uint8_t row[ROW_BYTES], uint8_t token) {
    row[0] = token;
    row[1] = (uint8_t)(10 * token);
    row[2] = (uint8_t)~token;
}

static void exchange_begin(exchange *x) {
    for (int64_t r = 0; r < RANKS; r++) {
        x->built[r] = route_of(BOUNDARIES, 3, (cpr_geometry){RANKS, r}, CPR_ZIGZAG, CPR_CONTIGUOUS);
        x->routes[r] = *x->built[r];
        memcpy(x->recv[r], x->built[r]->recv.runs, (size_t)x->built[r]->recv.count * sizeof(cpr_run));
        x->routes[r].recv.runs = x->recv[r];
        x->pointers[r] = &x->routes[r];
        for (int row = 0; row < ROWS; row++)
            paint_row(x->source_rows[r][row], ZIGZAG_TOKENS[r][row]);
        x->sources[r] = (cpr_shard){x->source_rows[r], ROWS, CPR_ZIGZAG};
        x->targets[r] = (cpr_shard){x->target_rows[r], ROWS, CPR_LAYOUT_COUNT};
    }
    memset(x->target_rows, NOISE, sizeof x->target_rows);
}

static void exchange_end(exchange *x) {
    for (int64_t r = 0; r < RANKS; r++)
        cpr_route_free(x->built[r]);
}

static void expect_delivered(const exchange *x) {
    for (int token = 0; token < RANKS * ROWS; token++) {
        uint8_t row[ROW_BYTES];
        paint_row(row, (uint8_t)token);
        assert_memory_equal(x->target_rows[token / ROWS][token % ROWS], row, ROW_BYTES);
    }
}

/* Says what is wrong with an exchange, checks that no target changed, and ends it. */
static void expect_refused(exchange *x, size_t row_bytes, cpr_error wanted) {
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    cpr_error error = {CPR_OK, 7, 7, 7};
    assert_int_equal(
        cpr_exchange_host(x->pointers, RANKS, row_bytes, x->sources, x->targets, &allocator, &error),
        wanted.status);
    expect_error(&error, wanted.status, wanted.index, wanted.got, wanted.wanted);
    assert_int_equal(cpr_exchange_host(x->pointers, RANKS, row_bytes, x->sources, x->targets, NULL, NULL),
                     wanted.status);
    for (int64_t r = 0; r < RANKS; r++) {
        assert_int_equal(x->targets[r].layout, CPR_LAYOUT_COUNT);
        for (int i = 0; i < ROWS * ROW_BYTES; i++)
            assert_int_equal(x->target_rows[r][i / ROW_BYTES][i % ROW_BYTES], NOISE);
    }
    assert_int_equal(book.held, 0);
    exchange_end(x);
}

static void rows_arrive_where_they_belong(void **state) {
    (void)state;
    exchange x;
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    cpr_error error = {CPR_INTERNAL, 7, 7, 7};
    exchange_begin(&x);
    assert_int_equal(
        cpr_exchange_host(x.pointers, RANKS, ROW_BYTES, x.sources, x.targets, &allocator, &error), CPR_OK);
    assert_int_equal(error.status, CPR_OK);
    assert_int_equal(book.held, 0);
    expect_delivered(&x);
    for (int64_t r = 0; r < RANKS; r++)
        assert_int_equal(x.targets[r].layout, CPR_CONTIGUOUS);
    exchange_end(&x);
}

static void messages_can_be_carried_by_hand(void **state) {
    (void)state;
    exchange x;
    uint8_t messages[RANKS][ROWS][ROW_BYTES], arrived[RANKS][ROWS][ROW_BYTES];
    exchange_begin(&x);
    for (int64_t r = 0; r < RANKS; r++)
        cpr_pack(x.built[r], ROW_BYTES, x.source_rows[r], messages[r]);
    /* Rank 0 sends 5 and 3 rows, rank 1 sends 3 and 5. */
    memcpy(arrived[0][0], messages[0][0], 5 * ROW_BYTES);
    memcpy(arrived[0][5], messages[1][0], 3 * ROW_BYTES);
    memcpy(arrived[1][0], messages[0][5], 3 * ROW_BYTES);
    memcpy(arrived[1][3], messages[1][3], 5 * ROW_BYTES);
    for (int64_t r = 0; r < RANKS; r++)
        cpr_scatter(x.built[r], ROW_BYTES, arrived[r], x.target_rows[r]);
    expect_delivered(&x);
    exchange_end(&x);
}

static void rows_without_bytes_need_no_memory(void **state) {
    (void)state;
    exchange x;
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    exchange_begin(&x);
    for (int64_t r = 0; r < RANKS; r++)
        x.sources[r].data = x.targets[r].data = NULL;
    assert_int_equal(cpr_exchange_host(x.pointers, RANKS, 0, x.sources, x.targets, &allocator, NULL), CPR_OK);
    assert_int_equal(x.targets[1].layout, CPR_CONTIGUOUS);
    assert_int_equal(book.allocations, 0);
    cpr_pack(x.built[0], 0, NULL, NULL);
    cpr_scatter(x.built[0], 0, NULL, NULL);
    exchange_end(&x);
}

static void every_rank_enters_an_empty_exchange(void **state) {
    (void)state;
    static const int64_t empty[] = {0, 0};
    cpr_route *routes[RANKS];
    cpr_shard sources[RANKS], targets[RANKS];
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    for (int64_t r = 0; r < RANKS; r++) {
        routes[r] = route_of(empty, 2, (cpr_geometry){RANKS, r}, CPR_ZIGZAG, CPR_FLAT_ZIGZAG);
        sources[r] = targets[r] = (cpr_shard){NULL, 0, CPR_ZIGZAG};
    }
    assert_int_equal(cpr_exchange_host((const cpr_route *const *)routes, RANKS, ROW_BYTES, sources, targets,
                                       &allocator, NULL),
                     CPR_OK);
    assert_int_equal(book.allocations, 0);
    for (int64_t r = 0; r < RANKS; r++) {
        assert_int_equal(targets[r].layout, CPR_FLAT_ZIGZAG);
        cpr_route_free(routes[r]);
    }
}

static void routes_of_other_ranks(void **state) {
    (void)state;
    exchange x;
    exchange_begin(&x);
    x.pointers[0] = &x.routes[1];
    x.pointers[1] = &x.routes[0];
    expect_refused(&x, ROW_BYTES, (cpr_error){CPR_BAD_RANK, 0, 1, 0});
    exchange_begin(&x);
    x.pointers[1] = &x.routes[0];
    expect_refused(&x, ROW_BYTES, (cpr_error){CPR_BAD_RANK, 1, 0, 1});
    exchange_begin(&x);
    x.routes[1].geometry.cp_size = 3;
    expect_refused(&x, ROW_BYTES, (cpr_error){CPR_BAD_RANK, 1, 1, 1});

    cpr_error error = {CPR_OK, 7, 7, 7};
    exchange_begin(&x);
    assert_int_equal(cpr_exchange_host(x.pointers, 0, ROW_BYTES, x.sources, x.targets, NULL, &error),
                     CPR_BAD_CP_SIZE);
    expect_error(&error, CPR_BAD_CP_SIZE, -1, 0, 1);
    exchange_end(&x);
}

/* Rank 1 is refused for its digest. */
static void expect_divergent(exchange *x) {
    const uint64_t strange = cpr_route_digest(x->pointers[1]), measure = cpr_route_digest(x->pointers[0]);
    expect_refused(x, ROW_BYTES, (cpr_error){CPR_DIVERGENT_METADATA, 1, (int64_t)strange, (int64_t)measure});
}

static void routes_of_other_requests(void **state) {
    (void)state;
    exchange x;
    exchange_begin(&x);
    x.routes[1].source = CPR_FLAT_ZIGZAG;
    expect_divergent(&x);
    exchange_begin(&x);
    x.routes[1].target = CPR_HEADS_THEN_TAILS;
    expect_divergent(&x);
    exchange_begin(&x);
    x.routes[1].total_tokens = 32;
    expect_divergent(&x);
    exchange_begin(&x);
    x.routes[0].boundaries_digest = 5;
    x.routes[1].boundaries_digest = 6;
    expect_divergent(&x);
}

/* Equal totals and equal splits, but other boundaries: what moves would be plausible and wrong. */
static void ranks_that_saw_other_boundaries(void **state) {
    (void)state;
    static const int64_t others[] = {0, 8, 16};
    exchange x;
    exchange_begin(&x);
    cpr_route *other = route_of(others, 3, (cpr_geometry){RANKS, 1}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    x.pointers[1] = other;
    expect_divergent(&x);
    cpr_route_free(other);
}

static void splits_that_disagree(void **state) {
    (void)state;
    exchange x;
    exchange_begin(&x);
    x.recv[1][0].length = 2; /* of the 3 rows from rank 0 */
    expect_refused(&x, ROW_BYTES, (cpr_error){CPR_SPLIT_MISMATCH, 0 * RANKS + 1, 3, 2});
    exchange_begin(&x);
    x.routes[0].recv.count = 2; /* nothing from rank 1 */
    expect_refused(&x, ROW_BYTES, (cpr_error){CPR_SPLIT_MISMATCH, 1 * RANKS + 0, 3, 0});
    exchange_begin(&x); /* both: the lower sender comes first */
    x.recv[1][0].length = 2;
    x.routes[0].recv.count = 2;
    expect_refused(&x, ROW_BYTES, (cpr_error){CPR_SPLIT_MISMATCH, 0 * RANKS + 1, 3, 2});
}

/* Equal row counts, but the two ends of a message differ. */
static void runs_that_disagree(void **state) {
    (void)state;
    exchange x;
    exchange_begin(&x);
    x.recv[1][0].source_row = 4;
    expect_refused(&x, ROW_BYTES, (cpr_error){CPR_DIVERGENT_METADATA, 1, 4, 5});
    exchange_begin(&x);
    x.recv[1][0].target_row = 4;
    expect_refused(&x, ROW_BYTES, (cpr_error){CPR_DIVERGENT_METADATA, 1, 4, 5});
    exchange_begin(&x);
    x.recv[0][0].length = 2;
    x.recv[0][1].length = 3;
    expect_refused(&x, ROW_BYTES, (cpr_error){CPR_DIVERGENT_METADATA, 0, 2, 1});
    exchange_begin(&x);
    x.recv[1][2] = x.recv[1][1];
    x.recv[1][1] = (cpr_run){0, 6, 6, 2};
    x.recv[1][0].length = 1;
    x.routes[1].recv.count = 3;
    expect_refused(&x, ROW_BYTES, (cpr_error){CPR_DIVERGENT_METADATA, 1, 2, 1});
}

static void shards_that_do_not_fit(void **state) {
    (void)state;
    exchange x;
    exchange_begin(&x);
    x.sources[1].layout = CPR_CONTIGUOUS;
    x.sources[0].rows = 7; /* the layout comes first */
    expect_refused(&x, ROW_BYTES, (cpr_error){CPR_LAYOUT_MISMATCH, 1, CPR_CONTIGUOUS, CPR_ZIGZAG});
    exchange_begin(&x);
    x.sources[0].rows = 7;
    expect_refused(&x, ROW_BYTES, (cpr_error){CPR_TOTAL_MISMATCH, 0, 7, 8});
    exchange_begin(&x);
    x.targets[1].rows = 9;
    expect_refused(&x, ROW_BYTES, (cpr_error){CPR_TOTAL_MISMATCH, 1, 9, 8});
    exchange_begin(&x);
    x.routes[0].send.rows = 7; /* a source is held against what is sent, a target against what is received */
    expect_refused(&x, ROW_BYTES, (cpr_error){CPR_TOTAL_MISMATCH, 0, 8, 7});
    exchange_begin(&x);
    x.routes[1].recv.rows = 9;
    expect_refused(&x, ROW_BYTES, (cpr_error){CPR_TOTAL_MISMATCH, 1, 8, 9});
    exchange_begin(&x);
    expect_refused(&x, SIZE_MAX / 8 + 1, (cpr_error){CPR_OVERFLOW, -1, 8, 7});
    exchange_begin(&x); /* the most that fits is memory's to refuse */
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    book.fail_at = 0;
    assert_int_equal(
        cpr_exchange_host(x.pointers, RANKS, SIZE_MAX / 8, x.sources, x.targets, &allocator, NULL),
        CPR_NO_MEMORY);
    exchange_end(&x);
}

static void without_memory_nothing_moves(void **state) {
    (void)state;
    exchange x;
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    exchange_begin(&x);
    assert_int_equal(cpr_exchange_host(x.pointers, RANKS, ROW_BYTES, x.sources, x.targets, &allocator, NULL),
                     CPR_OK);
    const int64_t allocations = book.allocations;
    exchange_end(&x);
    for (int64_t k = 0; k < allocations; k++) {
        cpr_error error = {CPR_OK, 7, 7, 7};
        exchange_begin(&x);
        book = (ledger){.fail_at = k};
        assert_int_equal(
            cpr_exchange_host(x.pointers, RANKS, ROW_BYTES, x.sources, x.targets, &allocator, &error),
            CPR_NO_MEMORY);
        expect_error(&error, CPR_NO_MEMORY, -1, 0, 0);
        assert_int_equal(book.held, 0);
        assert_int_equal(x.targets[0].layout, CPR_LAYOUT_COUNT);
        assert_int_equal(x.target_rows[0][0][0], NOISE);
        exchange_end(&x);
    }
}

/*==============================================================================
 * MARK: - Counts of a transport
 *============================================================================*/

static void expect_transport(const int64_t *boundaries, int64_t count, int64_t ranks, int64_t row_width,
                             int bits, cpr_error wanted) {
    for (int64_t r = 0; r < ranks; r++) {
        const cpr_route_request request =
            request_of(boundaries, count, (cpr_geometry){ranks, r}, CPR_ZIGZAG, CPR_CONTIGUOUS);
        ledger book;
        const cpr_allocator allocator = ledger_allocator(&book);
        cpr_error error = {CPR_INTERNAL, 7, 7, 7};
        assert_int_equal(cpr_transport_check(&request, row_width, bits, &allocator, &error), wanted.status);
        assert_int_equal(cpr_transport_check(&request, row_width, bits, NULL, NULL), wanted.status);
        assert_int_equal(book.held, 0);
        if (wanted.status != CPR_OK)
            expect_error(&error, wanted.status, wanted.index, wanted.got, wanted.wanted);
        else
            assert_int_equal(error.status, CPR_OK);
    }
}

static void messages_fit_their_counts_or_not(void **state) {
    (void)state;
    static const cpr_error fits = {CPR_OK, 0, 0, 0};
    static const int64_t million[] = {0, 1048576};
    /* 262144 rows of 8192 elements between two ranks: one more than an int holds. */
    expect_transport(million, 2, 2, 8192, 64, fits);
    expect_transport(million, 2, 2, 8192, 33, fits);
    expect_transport(million, 2, 2, 8192, 32, (cpr_error){CPR_OVERFLOW, -1, 2147483648, 2147483647});
    expect_transport(million, 2, 2, 8191, 32, fits);
    expect_transport(million, 2, 2, 0, 8, fits);

    /* 5 rows from rank 0 to itself are the most that any two ranks exchange. */
    expect_transport(BOUNDARIES, 3, 2, 25, 8, fits);
    expect_transport(BOUNDARIES, 3, 2, 26, 8, (cpr_error){CPR_OVERFLOW, -1, 130, 127});
    expect_transport(BOUNDARIES, 1, 2, INT64_MAX, 8, fits);
}

static void counts_end_at_64_bits(void **state) {
    (void)state;
    static const cpr_error fits = {CPR_OK, 0, 0, 0};
    static const int64_t boundaries[] = {0, INT64_C(1) << 40};
    const int64_t half = INT64_C(1) << 39;
    expect_transport(boundaries, 2, 1, (INT64_C(1) << 23) - 1, 64, fits);
    expect_transport(boundaries, 2, 1, INT64_C(1) << 23, 63,
                     (cpr_error){CPR_OVERFLOW, -1, INT64_MAX, (INT64_C(1) << 62) - 1});
    expect_transport(boundaries, 2, 1, INT64_C(1) << 23, 64,
                     (cpr_error){CPR_OVERFLOW, -1, INT64_MAX, INT64_MAX});
    expect_transport(boundaries, 2, 1, half, 64, (cpr_error){CPR_OVERFLOW, -1, INT64_MAX, INT64_MAX});
}

static void widths_and_counts_that_make_no_sense(void **state) {
    (void)state;
    expect_transport(BOUNDARIES, 3, 2, -1, 64, (cpr_error){CPR_OVERFLOW, -1, INT64_MAX, INT64_MAX});
    expect_transport(BOUNDARIES, 3, 2, INT64_MIN, 8, (cpr_error){CPR_OVERFLOW, -1, INT64_MAX, 127});
    expect_transport(BOUNDARIES, 3, 2, 1, 7, (cpr_error){CPR_OVERFLOW, -1, 7, 64});
    expect_transport(BOUNDARIES, 3, 2, 1, 65, (cpr_error){CPR_OVERFLOW, -1, 65, 64});
}

static void transports_refuse_what_builders_refuse(void **state) {
    (void)state;
    static const int64_t ragged[] = {0, 4, 10};
    const cpr_geometry nobody = {2, 2};
    cpr_error error = {CPR_OK, 7, 7, 7};
    expect_transport(ragged, 3, 2, 1, 32, (cpr_error){CPR_NOT_DIVISIBLE_2CP, 1, 6, 4});
    const cpr_route_request request = request_of(BOUNDARIES, 3, nobody, CPR_ZIGZAG, CPR_CONTIGUOUS);
    assert_int_equal(cpr_transport_check(&request, 1, 32, NULL, &error), CPR_BAD_RANK);
    expect_error(&error, CPR_BAD_RANK, -1, 2, 2);
}

static void transports_may_find_no_memory(void **state) {
    (void)state;
    const cpr_route_request request =
        request_of(BOUNDARIES, 3, (cpr_geometry){2, 0}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    assert_int_equal(cpr_transport_check(&request, 1, 32, &allocator, NULL), CPR_OK);
    const int64_t allocations = book.allocations;
    assert_true(allocations > 0);
    for (int64_t k = 0; k < allocations; k++) {
        cpr_error error = {CPR_OK, 7, 7, 7};
        book = (ledger){.fail_at = k};
        assert_int_equal(cpr_transport_check(&request, 1, 32, &allocator, &error), CPR_NO_MEMORY);
        expect_error(&error, CPR_NO_MEMORY, -1, 0, 0);
        assert_int_equal(book.held, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_arrive_where_they_belong),
        cmocka_unit_test(messages_can_be_carried_by_hand),
        cmocka_unit_test(rows_without_bytes_need_no_memory),
        cmocka_unit_test(every_rank_enters_an_empty_exchange),
        cmocka_unit_test(routes_of_other_ranks),
        cmocka_unit_test(routes_of_other_requests),
        cmocka_unit_test(ranks_that_saw_other_boundaries),
        cmocka_unit_test(splits_that_disagree),
        cmocka_unit_test(runs_that_disagree),
        cmocka_unit_test(shards_that_do_not_fit),
        cmocka_unit_test(without_memory_nothing_moves),
        cmocka_unit_test(messages_fit_their_counts_or_not),
        cmocka_unit_test(counts_end_at_64_bits),
        cmocka_unit_test(widths_and_counts_that_make_no_sense),
        cmocka_unit_test(transports_refuse_what_builders_refuse),
        cmocka_unit_test(transports_may_find_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
