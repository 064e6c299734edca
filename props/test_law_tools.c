/* SPDX-License-Identifier: Apache-2.0 */
/* What laws stand on: the oracle, the ledger, the reader of dumps and the writer that stops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "laws/json_lines.h"
#include "laws/ledger.h"
#include "laws/oracle.h"
#include "laws/paint.h"
#include "laws/scratch.h"
#include "laws/sink.h"
#include <string.h>

/*==============================================================================
 * MARK: - Oracle
 *============================================================================*/

static void assert_tokens(const oracle_pack *pack, cpr_layout layout, int64_t rank, const int64_t *wanted) {
    int64_t tokens[16];
    assert_true(oracle_rows(pack) <= 16);
    oracle_tokens(pack, layout, rank, tokens);
    assert_memory_equal(tokens, wanted, (size_t)oracle_rows(pack) * sizeof *tokens);
}

static void two_sequences_by_hand(void **state) {
    (void)state;
    static const int64_t cu[] = {0, 4, 16};
    static const struct {
        cpr_layout layout;
        int64_t tokens[2][8];
    } by_hand[] = {
        {CPR_ZIGZAG, {{0, 3, 4, 5, 6, 13, 14, 15}, {1, 2, 7, 8, 9, 10, 11, 12}}},
        {CPR_CONTIGUOUS, {{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}},
        {CPR_PER_SEQUENCE_CONTIGUOUS, {{0, 1, 4, 5, 6, 7, 8, 9}, {2, 3, 10, 11, 12, 13, 14, 15}}},
        {CPR_FLAT_ZIGZAG, {{0, 1, 2, 3, 12, 13, 14, 15}, {4, 5, 6, 7, 8, 9, 10, 11}}},
        {CPR_HEADS_THEN_TAILS, {{0, 4, 5, 6, 3, 13, 14, 15}, {1, 7, 8, 9, 2, 10, 11, 12}}},
    };
    const oracle_pack pack = {cu, 3, 2};
    for (size_t i = 0; i < sizeof by_hand / sizeof *by_hand; i++)
        for (int64_t rank = 0; rank < 2; rank++)
            assert_tokens(&pack, by_hand[i].layout, rank, by_hand[i].tokens[rank]);
}

static void one_rank_has_the_stream(void **state) {
    (void)state;
    static const int64_t cu[] = {0, 3, 3, 5}, wanted[] = {0, 1, 2, 3, 4};
    const oracle_pack pack = {cu, 4, 1};
    for (int layout = 0; layout < CPR_LAYOUT_COUNT; layout++)
        assert_tokens(&pack, (cpr_layout)layout, 0, wanted);
}

static void formulas_agree_with_lists(void **state) {
    (void)state;
    static const int64_t multiples[][4] = {{1, 2, 0, 3}, {0, 0, 1, 0}, {5, 1, 1, 1}, {0, 0, 0, 0}};
    for (int64_t cp_size = 1; cp_size <= 5; cp_size++)
        for (size_t m = 0; m < sizeof multiples / sizeof *multiples; m++) {
            int64_t cu[5] = {0}, tokens[128];
            for (int i = 0; i < 4; i++)
                cu[i + 1] = cu[i] + multiples[m][i] * 2 * cp_size;
            const oracle_pack pack = {cu, 5, cp_size};
            for (int l = 0; l < CPR_LAYOUT_COUNT; l++)
                for (int64_t rank = 0; rank < cp_size; rank++) {
                    const cpr_layout layout = (cpr_layout)l;
                    oracle_tokens(&pack, layout, rank, tokens);
                    for (int64_t row = 0; row < oracle_rows(&pack); row++) {
                        const oracle_place place = oracle_place_of(&pack, layout, tokens[row]);
                        assert_int_equal(place.rank, rank);
                        assert_int_equal(place.row, row);
                        assert_int_equal(oracle_token_at(&pack, layout, place), tokens[row]);
                    }
                }
        }
}

static void formulas_reach_the_limits(void **state) {
    (void)state;
    const int64_t cp_size = CPR_CP_SIZE_MAX, unit = 2 * cp_size, units = INT64_MAX / unit;
    const int64_t cu[] = {0, units / 3 * unit, units * unit};
    const oracle_pack pack = {cu, 3, cp_size};
    for (int l = 0; l < CPR_LAYOUT_COUNT; l++) {
        const int64_t tokens[] = {0, cu[1] - 1, cu[1], cu[2] / 2, cu[2] - 1};
        for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
            const oracle_place place = oracle_place_of(&pack, (cpr_layout)l, tokens[i]);
            assert_in_range(place.rank, 0, cp_size - 1);
            assert_true(oracle_token_at(&pack, (cpr_layout)l, place) == tokens[i]);
        }
    }
}

/*==============================================================================
 * MARK: - Ledger
 *============================================================================*/

static verdict settled(ledger *books) {
    verdict v = {.outcome = LAW_PASSED};
    ledger_settled(books, "the test", &v);
    return v;
}

static void ledger_passes_clean_books(void **state) {
    (void)state;
    ledger books = {0};
    const cpr_allocator a = ledger_allocator(&books);
    void *first = a.allocate(a.context, 10), *second = a.allocate(a.context, 20);
    assert_non_null(first);
    assert_non_null(second);
    a.release(a.context, first, 10);
    a.release(a.context, second, 20);
    assert_int_equal(books.peak_bytes, 30);
    assert_int_equal(settled(&books).outcome, LAW_PASSED);
}

static void ledger_fails_the_kth(void **state) {
    (void)state;
    ledger books = {.fail_at = 2};
    const cpr_allocator a = ledger_allocator(&books);
    void *first = a.allocate(a.context, 1);
    assert_non_null(first);
    assert_null(a.allocate(a.context, 1));
    void *third = a.allocate(a.context, 1);
    assert_non_null(third);
    a.release(a.context, third, 1);
    a.release(a.context, first, 1);
    assert_int_equal(settled(&books).outcome, LAW_PASSED);
}

static void ledger_notices_a_leak(void **state) {
    (void)state;
    ledger books = {0};
    const cpr_allocator a = ledger_allocator(&books);
    assert_non_null(a.allocate(a.context, 10));
    assert_string_equal(settled(&books).reason, "memory is leaked");
}

static void ledger_notices_wrong_releases(void **state) {
    (void)state;
    int strange = 0;
    ledger sizes = {0}, twice = {0}, strangers = {0};
    cpr_allocator a = ledger_allocator(&sizes);
    a.release(a.context, a.allocate(a.context, 10), 9);
    assert_string_equal(settled(&sizes).reason, "memory is released wrongly");

    a = ledger_allocator(&twice);
    void *memory = a.allocate(a.context, 10);
    a.release(a.context, memory, 10);
    a.release(a.context, memory, 10);
    assert_string_equal(settled(&twice).reason, "memory is released wrongly");

    a = ledger_allocator(&strangers);
    a.release(a.context, &strange, sizeof strange);
    a.release(a.context, NULL, 0);
    assert_int_equal(strangers.mistakes, 2);
}

static void ledger_notices_empty_allocations(void **state) {
    (void)state;
    ledger books = {0};
    const cpr_allocator a = ledger_allocator(&books);
    a.release(a.context, a.allocate(a.context, 0), 0);
    assert_string_equal(settled(&books).reason, "an allocation of no bytes");
}

/*==============================================================================
 * MARK: - JSON
 *============================================================================*/

static const char *read_line(const char *text, scratch *s, json_line *line) {
    return json_line_read(text, strlen(text), s, line);
}

static void json_is_read(void **state) {
    (void)state;
    scratch s = {0};
    json_line line;
    const char *text = "{\"a\":-9223372036854775808,\"b\":\"ok\",\"c\":null,\"d\":[],\"e\":[1,-2],"
                       "\"f\":[[1,2],[3,4]],\"g\":9223372036854775807}\n";
    assert_null(read_line(text, &s, &line));
    assert_int_equal(line.count, 7);
    assert_true(json_line_member(&line, "a")->numbers[0] == INT64_MIN);
    assert_int_equal(json_line_member(&line, "b")->string_length, 2);
    assert_int_equal(json_line_member(&line, "c")->kind, JSON_NULL);
    assert_int_equal(json_line_member(&line, "d")->count, 0);
    assert_int_equal(json_line_member(&line, "e")->numbers[1], -2);
    assert_int_equal(json_line_member(&line, "f")->kind, JSON_TABLE);
    assert_int_equal(json_line_member(&line, "f")->columns, 2);
    assert_int_equal(json_line_member(&line, "f")->numbers[3], 4);
    assert_true(json_line_member(&line, "g")->numbers[0] == INT64_MAX);
    assert_null(json_line_member(&line, "h"));
    scratch_free(&s);
}

static void json_mistakes_are_refused(void **state) {
    (void)state;
    static const char *const mistakes[] = {
        "",
        "{}\n",
        "{\"a\":1}",
        "{\"a\":1}\n\n",
        "{\"a\":1,}\n",
        "{\"a\" :1}\n",
        "{\"a\":}\n",
        "{\"a\":01}\n",
        "{\"a\":-0}\n",
        "{\"a\":1.5}\n",
        "{\"a\":9223372036854775808}\n",
        "{\"a\":-9223372036854775809}\n",
        "{\"a\":[1,]}\n",
        "{\"a\":[1 ]}\n",
        "{\"a\":[1,[2]]}\n",
        "{\"a\":[[1],[2,3]]}\n",
        "{\"a\":[[]]}\n",
        "{\"a\":[1}\n",
        "{\"a\":nul}\n",
        "{\"a\":true}\n",
        "{\"a\":\"b}\n",
        "{\"a\":\"\\n\"}\n",
        "{a:1}\n",
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        scratch s = {0};
        json_line line;
        if (!read_line(mistakes[i], &s, &line))
            fail_msg("taken for JSON: %s", mistakes[i]);
        scratch_free(&s);
    }
}

/*==============================================================================
 * MARK: - Writer and paint
 *============================================================================*/

static void sink_stops_and_remembers(void **state) {
    (void)state;
    sink s = {.limited = true, .limit = 4};
    assert_true(sink_write(&s, "abc", 3));
    assert_true(sink_write(&s, "d", 1));
    assert_false(s.refused);
    assert_false(sink_write(&s, "e", 1));
    assert_false(s.called_after_that);
    assert_false(sink_write(&s, "", 0));
    assert_true(s.called_after_that);
    assert_string_equal(s.text, "abcd");
    sink_free(&s);
}

static void paint_tells_rows_apart(void **state) {
    (void)state;
    const int64_t tokens[] = {0, 1, 250, 251, 252};
    uint8_t rows[5][3], swapped[5][3];
    paint_rows(tokens, 5, 3, rows[0]);
    assert_memory_equal(rows[0], rows[3], 3);
    assert_memory_not_equal(rows[0], rows[1], 3);
    assert_memory_not_equal(rows[0], rows[2], 3);
    memcpy(swapped, rows, sizeof rows);
    assert_int_equal(paint_first_difference(rows[0], swapped[0], 5, 3), 5);
    memcpy(swapped[2], rows[1], 3);
    assert_int_equal(paint_first_difference(rows[0], swapped[0], 5, 3), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_sequences_by_hand),
        cmocka_unit_test(one_rank_has_the_stream),
        cmocka_unit_test(formulas_agree_with_lists),
        cmocka_unit_test(formulas_reach_the_limits),
        cmocka_unit_test(ledger_passes_clean_books),
        cmocka_unit_test(ledger_fails_the_kth),
        cmocka_unit_test(ledger_notices_a_leak),
        cmocka_unit_test(ledger_notices_wrong_releases),
        cmocka_unit_test(ledger_notices_empty_allocations),
        cmocka_unit_test(json_is_read),
        cmocka_unit_test(json_mistakes_are_refused),
        cmocka_unit_test(sink_stops_and_remembers),
        cmocka_unit_test(paint_tells_rows_apart),
    };
    return cmocka_run_group_tests_name("law tools", tests, NULL, NULL);
}
