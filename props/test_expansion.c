/* SPDX-License-Identifier: Apache-2.0 */
/* What is made of a route's runs: rows, split sizes and text. */
#include "example.h"

/* Rank 0 of cu = [0,4,16], P = 2: sends an identity, receives into 0 3 4 5 6 1 2 7. */
static const int64_t BOUNDARIES[] = {0, 4, 16};

static cpr_route *small_route(void) {
    return route_of(BOUNDARIES, 3, (cpr_geometry){2, 0}, CPR_ZIGZAG, CPR_CONTIGUOUS);
}

static cpr_route *route_of_stream(int64_t tokens, cpr_geometry geometry) {
    return route_of((const int64_t[]){0, tokens}, 2, geometry, CPR_ZIGZAG, CPR_CONTIGUOUS);
}

/*==============================================================================
 * MARK: - Rows and splits
 *============================================================================*/

static void rows_in_both_types(void **state) {
    (void)state;
    static const int64_t sent[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const int64_t received[] = {0, 3, 4, 5, 6, 1, 2, 7};
    cpr_route *route = small_route();
    for (int side = CPR_SEND; side <= CPR_RECV; side++) {
        int64_t wide[8];
        int32_t narrow[8];
        cpr_error error = {CPR_INTERNAL, 7, 7, 7};
        assert_int_equal(cpr_route_rows(route, (cpr_side)side, CPR_INT64, wide, 8, &error), CPR_OK);
        assert_int_equal(error.status, CPR_OK);
        assert_int_equal(cpr_route_rows(route, (cpr_side)side, CPR_INT32, narrow, 8, NULL), CPR_OK);
        expect_numbers(wide, side == CPR_SEND ? sent : received, 8);
        for (int i = 0; i < 8; i++)
            assert_int_equal(narrow[i], wide[i]);
    }
    cpr_route_free(route);
}

/* Against rows written one by one, with a number behind them that must stay. */
static void expect_rows_of_runs(const cpr_route *route, cpr_side side) {
    enum { MOST = 1200, BEHIND = -7 };
    const cpr_run_list *list = side == CPR_SEND ? &route->send : &route->recv;
    const int64_t count = list->rows;
    int64_t wanted[MOST], wide[MOST + 1], at = 0;
    int32_t narrow[MOST + 1];
    assert_true(count <= MOST);
    for (int64_t i = 0; i < list->count; i++) {
        const cpr_run *run = &list->runs[i];
        for (int64_t k = 0; k < run->length; k++)
            wanted[at++] = (side == CPR_SEND ? run->source_row : run->target_row) + k;
    }
    wide[count] = narrow[count] = BEHIND;
    assert_int_equal(cpr_route_rows(route, side, CPR_INT64, wide, count, NULL), CPR_OK);
    assert_int_equal(cpr_route_rows(route, side, CPR_INT32, narrow, count, NULL), CPR_OK);
    expect_numbers(wide, wanted, count);
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(narrow[i], wanted[i]);
    assert_int_equal(wide[count], BEHIND);
    assert_int_equal(narrow[count], BEHIND);
}

/* How they are written depends on how long a run is and on how many rows are left. */
static void rows_of_runs_of_every_length(void **state) {
    (void)state;
    enum { LONGEST = 40 };
    for (int64_t length = 1; length <= LONGEST; length++) {
        for (int64_t others = 0; others <= LONGEST; others++) {
            const int64_t boundaries[] = {0, 4 * others, 4 * (others + length), 4 * (length + 2 * others)};
            for (int64_t rank = 0; rank < 2; rank++) {
                cpr_route *route = route_of(boundaries, 4, (cpr_geometry){2, rank},
                                            CPR_PER_SEQUENCE_CONTIGUOUS, CPR_HEADS_THEN_TAILS);
                expect_rows_of_runs(route, CPR_SEND);
                expect_rows_of_runs(route, CPR_RECV);
                cpr_route_free(route);
            }
        }
    }
}

static void rows_of_long_runs_among_many(void **state) {
    (void)state;
    static const int64_t boundaries[] = {0, 4, 404, 440, 2400};
    for (int64_t rank = 0; rank < 2; rank++) {
        cpr_route *route = route_of(boundaries, 5, (cpr_geometry){2, rank}, CPR_ZIGZAG, CPR_CONTIGUOUS);
        expect_rows_of_runs(route, CPR_SEND);
        expect_rows_of_runs(route, CPR_RECV);
        cpr_route_free(route);
    }
}

static void expect_rows_refused(const cpr_route *route, cpr_dtype dtype, int64_t count, cpr_error wanted) {
    int64_t rows[8] = {9, 9, 9, 9, 9, 9, 9, 9};
    cpr_error error = {CPR_OK, 7, 7, 7};
    assert_int_equal(cpr_route_rows(route, CPR_RECV, dtype, rows, count, &error), wanted.status);
    expect_error(&error, wanted.status, wanted.index, wanted.got, wanted.wanted);
    assert_int_equal(cpr_route_rows(route, CPR_RECV, dtype, rows, count, NULL), wanted.status);
    for (int i = 0; i < 8; i++)
        assert_int_equal(rows[i], 9);
}

static void rows_are_refused_with_details(void **state) {
    (void)state;
    cpr_route *route = small_route();
    expect_rows_refused(route, CPR_FLOAT64, 8, (cpr_error){CPR_DTYPE, -1, CPR_FLOAT64, CPR_INT64});
    expect_rows_refused(route, CPR_INT64, 7, (cpr_error){CPR_TOTAL_MISMATCH, -1, 7, 8});
    expect_rows_refused(route, CPR_INT32, 9, (cpr_error){CPR_TOTAL_MISMATCH, -1, 9, 8});
    expect_rows_refused(route, CPR_INT32, -8, (cpr_error){CPR_TOTAL_MISMATCH, -1, -8, 8});
    cpr_route_free(route);

    const int64_t rows = INT64_C(1) << 32;
    cpr_route *large = route_of_stream(2 * rows, (cpr_geometry){2, 1});
    expect_rows_refused(large, CPR_INT32, rows, (cpr_error){CPR_OVERFLOW, -1, rows - 1, INT32_MAX});
    cpr_route_free(large);
}

/* Runs are left out of the route, or the rows that just fit would take 8 GiB. */
static void the_largest_int32_is_a_row(void **state) {
    (void)state;
    const int64_t rows = INT64_C(1) << 31;
    cpr_route route = {.geometry = {1, 0}, .total_tokens = rows, .recv = {.rows = rows}};
    int32_t untouched = 7;
    cpr_error error;
    assert_int_equal(cpr_route_rows(&route, CPR_RECV, CPR_INT32, &untouched, rows, &error), CPR_OK);
    assert_int_equal(untouched, 7);
    route.recv.rows = rows + 1;
    assert_int_equal(cpr_route_rows(&route, CPR_RECV, CPR_INT32, &untouched, rows + 1, &error), CPR_OVERFLOW);
}

static void no_rows_need_no_array(void **state) {
    (void)state;
    int64_t nothing;
    cpr_route *route = route_of_stream(0, (cpr_geometry){2, 1});
    assert_int_equal(cpr_route_rows(route, CPR_SEND, CPR_INT64, &nothing, 0, NULL), CPR_OK);
    assert_int_equal(cpr_route_rows(route, CPR_RECV, CPR_INT32, &nothing, 0, NULL), CPR_OK);
    cpr_route_free(route);
}

static void splits_count_every_rank(void **state) {
    (void)state;
    static const int64_t boundaries[] = {0, 24, 32};
    static const int64_t sent[] = {3, 0, 3, 2};
    static const int64_t received[] = {0, 0, 2, 6};
    int64_t splits[4] = {9, 9, 9, 9};
    cpr_route *route = route_of(boundaries, 3, (cpr_geometry){4, 1}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    cpr_error error = {CPR_OK, 7, 7, 7};
    assert_int_equal(cpr_route_splits(route, CPR_SEND, splits, 3, &error), CPR_SPLIT_MISMATCH);
    expect_error(&error, CPR_SPLIT_MISMATCH, -1, 3, 4);
    expect_numbers(splits, (const int64_t[]){9, 9, 9, 9}, 4);

    assert_int_equal(cpr_route_splits(route, CPR_SEND, splits, 4, &error), CPR_OK);
    assert_int_equal(error.status, CPR_OK);
    expect_numbers(splits, sent, 4);
    assert_int_equal(cpr_route_splits(route, CPR_RECV, splits, 4, NULL), CPR_OK);
    expect_numbers(splits, received, 4);
    cpr_route_free(route);
}

static void split_sizes_made_by_hand(void **state) {
    (void)state;
    static const struct {
        int64_t splits[3];
        int64_t count;
        cpr_error error;
    } examples[] = {
        {{2, 2}, 2, {CPR_OK, 0, 0, 0}},
        {{0}, 0, {CPR_SPLIT_MISMATCH, -1, 0, 2}},
        {{4}, 1, {CPR_SPLIT_MISMATCH, -1, 1, 2}},
        {{2, 2, 0}, 3, {CPR_SPLIT_MISMATCH, -1, 3, 2}},
        {{2, 3}, 2, {CPR_SPLIT_MISMATCH, 1, 3, 2}},
        {{-1, 5}, 2, {CPR_SPLIT_MISMATCH, 0, -1, 2}},
    };
    cpr_route *route = route_of_stream(8, (cpr_geometry){2, 0});
    for (int64_t i = 0; i < LENGTH_OF(examples); i++) {
        for (int side = CPR_SEND; side <= CPR_RECV; side++) {
            cpr_error error = {CPR_INTERNAL, 7, 7, 7};
            assert_int_equal(
                cpr_splits_check(route, (cpr_side)side, examples[i].splits, examples[i].count, &error),
                examples[i].error.status);
            assert_int_equal(
                cpr_splits_check(route, (cpr_side)side, examples[i].splits, examples[i].count, NULL),
                examples[i].error.status);
            if (error.status == CPR_OK)
                continue;
            expect_error(&error, examples[i].error.status, examples[i].error.index, examples[i].error.got,
                         examples[i].error.wanted);
        }
    }
    cpr_route_free(route);
}

/*==============================================================================
 * MARK: - Text
 *============================================================================*/

typedef struct page {
    char text[8192];
    size_t length;
    int64_t calls;
    int64_t stop_at; /* the call that answers false; -1: none */
} page;

static bool write_to_page(void *context, const char *text, size_t length) {
    page *p = context;
    assert_true(length > 0 && length < sizeof p->text - p->length);
    assert_true(p->stop_at < 0 || p->calls <= p->stop_at);
    memcpy(p->text + p->length, text, length);
    p->length += length;
    p->text[p->length] = '\0';
    return p->calls++ != p->stop_at;
}

static void expect_dump(const cpr_route *route, cpr_dump_form form, const char *wanted) {
    page p = {.stop_at = -1};
    assert_true(cpr_route_dump(route, form, write_to_page, &p));
    assert_string_equal(p.text, wanted);
}

static void a_route_reads_as_text(void **state) {
    (void)state;
    cpr_route *route = small_route();
    expect_dump(route, CPR_DUMP_JSON_ROWS,
                "{\"rank\":0,\"status\":\"ok\",\"source_rows\":8,\"target_rows\":8,\"send_rows\":null,"
                "\"recv_rows\":[0,3,4,5,6,1,2,7],\"input_splits\":[5,3],\"output_splits\":[5,3]}\n");
    expect_dump(route, CPR_DUMP_JSON_RUNS,
                "{\"rank\":0,\"status\":\"ok\",\"source_rows\":8,\"target_rows\":8,"
                "\"send_runs\":[[0,0,0,1],[0,1,3,4],[1,5,5,3]],"
                "\"recv_runs\":[[0,0,0,1],[0,1,3,4],[1,0,1,2],[1,2,7,1]],"
                "\"input_splits\":[5,3],\"output_splits\":[5,3]}\n");
    expect_dump(route, CPR_DUMP_TEXT,
                "route of rank 0 of 2, zigzag -> contiguous, 16 tokens\n"
                "send 8 rows, identity\n"
                "  [0,1) -> rank 0 [0,1)\n"
                "  [1,5) -> rank 0 [3,7)\n"
                "  [5,8) -> rank 1 [5,8)\n"
                "recv 8 rows\n"
                "  [0,1) <- rank 0 [0,1)\n"
                "  [3,7) <- rank 0 [1,5)\n"
                "  [1,3) <- rank 1 [0,2)\n"
                "  [7,8) <- rank 1 [2,3)\n");
    cpr_route_free(route);
}

static void an_empty_route_reads_as_text(void **state) {
    (void)state;
    cpr_route *route = route_of_stream(0, (cpr_geometry){3, 2});
    expect_dump(route, CPR_DUMP_JSON_ROWS,
                "{\"rank\":2,\"status\":\"ok\",\"source_rows\":0,\"target_rows\":0,\"send_rows\":null,"
                "\"recv_rows\":null,\"input_splits\":[0,0,0],\"output_splits\":[0,0,0]}\n");
    expect_dump(route, CPR_DUMP_JSON_RUNS,
                "{\"rank\":2,\"status\":\"ok\",\"source_rows\":0,\"target_rows\":0,\"send_runs\":[],"
                "\"recv_runs\":[],\"input_splits\":[0,0,0],\"output_splits\":[0,0,0]}\n");
    expect_dump(route, CPR_DUMP_TEXT,
                "route of rank 2 of 3, zigzag -> contiguous, 0 tokens\n"
                "send 0 rows, identity\n"
                "recv 0 rows, identity\n");
    cpr_route_free(route);
}

/* Of a route that is none: what it sends and what it receives are told apart all the same. */
static void each_side_has_rows_of_its_own(void **state) {
    (void)state;
    const cpr_route route = {.geometry = {1, 0}, .send = {.rows = 3, .identity = true}, .recv = {.rows = 5}};
    expect_dump(&route, CPR_DUMP_JSON_RUNS,
                "{\"rank\":0,\"status\":\"ok\",\"source_rows\":3,\"target_rows\":5,\"send_runs\":[],"
                "\"recv_runs\":[],\"input_splits\":[0],\"output_splits\":[0]}\n");
}

static void an_error_reads_as_json(void **state) {
    (void)state;
    static const struct {
        int64_t rank;
        cpr_error error;
        const char *text;
    } examples[] = {
        {0,
         {CPR_NOT_DIVISIBLE_2CP, 1, 10, 4},
         "{\"rank\":0,\"status\":\"error\",\"error\":\"not_divisible_2cp\",\"index\":1,\"got\":10,\"want\":4}"
         "\n"},
        {-5,
         {CPR_BAD_RANK, -1, INT64_MIN, INT64_MAX},
         "{\"rank\":-5,\"status\":\"error\",\"error\":\"bad_rank\",\"index\":-1,\"got\":-9223372036854775808,"
         "\"want\":9223372036854775807}\n"},
    };
    for (int64_t i = 0; i < LENGTH_OF(examples); i++) {
        page p = {.stop_at = -1};
        assert_true(cpr_error_dump_json(examples[i].rank, &examples[i].error, write_to_page, &p));
        assert_string_equal(p.text, examples[i].text);
        p = (page){.stop_at = 0};
        assert_false(cpr_error_dump_json(examples[i].rank, &examples[i].error, write_to_page, &p));
    }
}

/* A writer that says stop is not called again, and what is left of a large route is not even counted through. */
static void a_writer_can_stop_a_dump(void **state) {
    (void)state;
    const int64_t many = INT64_C(1) << 40;
    cpr_route *routes[] = {
        route_of((const int64_t[]){0, many}, 2, (cpr_geometry){2, 1}, CPR_CONTIGUOUS, CPR_ZIGZAG),
        route_of((const int64_t[]){0, 4 * CPR_CP_SIZE_MAX}, 2, (cpr_geometry){CPR_CP_SIZE_MAX, 3}, CPR_ZIGZAG,
                 CPR_CONTIGUOUS),
    };
    for (int64_t i = 0; i < LENGTH_OF(routes); i++) {
        for (int64_t stop_at = 0; stop_at < 3; stop_at++) {
            page p = {.stop_at = stop_at};
            const cpr_dump_form form = i == 0 ? CPR_DUMP_JSON_ROWS : CPR_DUMP_JSON_RUNS;
            assert_false(cpr_route_dump(routes[i], form, write_to_page, &p));
            assert_int_equal(p.calls, stop_at + 1);
        }
        cpr_route_free(routes[i]);
    }
}

static cpr_route *route_of_many_runs(void) {
    enum { SEQUENCES = 64 };
    int64_t boundaries[SEQUENCES + 1];
    for (int64_t i = 0; i <= SEQUENCES; i++)
        boundaries[i] = 4 * i;
    return route_of(boundaries, SEQUENCES + 1, (cpr_geometry){2, 0}, CPR_ZIGZAG, CPR_PER_SEQUENCE_CONTIGUOUS);
}

/* Not one call for each word. */
static void a_writer_gets_much_at_once(void **state) {
    (void)state;
    cpr_route *route = route_of_many_runs();
    for (int form = CPR_DUMP_JSON_ROWS; form <= CPR_DUMP_TEXT; form++) {
        page p = {.stop_at = -1};
        assert_true(cpr_route_dump(route, (cpr_dump_form)form, write_to_page, &p));
        assert_true(p.calls <= (int64_t)p.length / 256 + 1);
    }
    cpr_route_free(route);
}

static void a_writer_can_stop_between_runs(void **state) {
    (void)state;
    cpr_route *route = route_of_many_runs();
    for (int form = CPR_DUMP_JSON_RUNS; form <= CPR_DUMP_TEXT; form++) {
        page p = {.stop_at = 1};
        assert_false(cpr_route_dump(route, (cpr_dump_form)form, write_to_page, &p));
        assert_int_equal(p.calls, 2);
    }
    cpr_route_free(route);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_in_both_types),
        cmocka_unit_test(rows_of_runs_of_every_length),
        cmocka_unit_test(rows_of_long_runs_among_many),
        cmocka_unit_test(rows_are_refused_with_details),
        cmocka_unit_test(the_largest_int32_is_a_row),
        cmocka_unit_test(no_rows_need_no_array),
        cmocka_unit_test(splits_count_every_rank),
        cmocka_unit_test(split_sizes_made_by_hand),
        cmocka_unit_test(a_route_reads_as_text),
        cmocka_unit_test(an_empty_route_reads_as_text),
        cmocka_unit_test(each_side_has_rows_of_its_own),
        cmocka_unit_test(an_error_reads_as_json),
        cmocka_unit_test(a_writer_can_stop_a_dump),
        cmocka_unit_test(a_writer_gets_much_at_once),
        cmocka_unit_test(a_writer_can_stop_between_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
