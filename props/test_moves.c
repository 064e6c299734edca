/* SPDX-License-Identifier: Apache-2.0 */
/* Lists for kernels by example, and passes too long to be run. */
#include "example.h"

#include "cuda/row_lists.h"

static const int64_t BOUNDARIES[] = {0, 4, 16};

static cpr_route *route_of_rank(int64_t rank, cpr_layout source, cpr_layout target) {
    return route_of(BOUNDARIES, LENGTH_OF(BOUNDARIES), (cpr_geometry){2, rank}, source, target);
}

static void expect_moves(cpr_moves moves, const int64_t *first, const int64_t *from, const int64_t *to,
                         int64_t count) {
    assert_int_equal(moves.count, count);
    assert_int_equal(moves.rows, first[count]);
    expect_numbers(moves.first, first, count + 1);
    expect_numbers(moves.from, from, count);
    expect_numbers(moves.to, to, count);
}

/* zigzag: rank 0 has 0 3 4 5 6 13 14 15, rank 1 has 1 2 7..12; contiguous: rank 0 has 0..7. */
static void lists_of_a_route(void **state) {
    (void)state;
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    cpr_row_lists lists;
    cpr_route *route = route_of_rank(0, CPR_ZIGZAG, CPR_CONTIGUOUS);
    assert_true(cpr_row_lists_make(route, &allocator, &lists));

    const cpr_row_side *send = &lists.sides[CPR_SEND];
    assert_true(send->identity);
    assert_int_equal(send->rows, 8);
    assert_int_equal(send->other_rows, 3);
    assert_int_equal(send->message_count, 1);
    assert_int_equal(send->messages[0].peer, 1);
    assert_int_equal(send->messages[0].rows, 3);
    assert_int_equal(send->messages[0].at, 0);
    assert_int_equal(send->messages[0].in_place, 5);
    assert_int_equal(cpr_row_message_at(send, &send->messages[0]), 5);
    assert_int_equal(send->all.count + send->others.count, 0);

    const cpr_row_side *recv = &lists.sides[CPR_RECV];
    assert_false(recv->identity);
    assert_int_equal(recv->other_rows, 3);
    assert_int_equal(cpr_row_message_at(recv, &recv->messages[0]), 0);
    const int64_t own_first[] = {0, 1, 5}, own_from[] = {0, 1}, own_to[] = {0, 3};
    const int64_t first[] = {0, 2, 3}, local[] = {1, 7};
    const int64_t all_first[] = {0, 1, 5, 7, 8}, all_local[] = {0, 3, 1, 7};
    expect_moves(lists.own, own_first, own_from, own_to, 2);
    expect_moves(cpr_row_list_pack(&recv->others), first, local, first, 2);
    expect_moves(cpr_row_list_scatter(&recv->others), first, first, local, 2);
    expect_moves(cpr_row_list_scatter(&recv->all), all_first, all_first, all_local, 4);

    int64_t copy[64];
    assert_true(lists.number_count <= LENGTH_OF(copy));
    memcpy(copy, lists.numbers, (size_t)lists.number_count * sizeof copy[0]);
    const cpr_moves own = cpr_moves_moved(lists.own, lists.numbers, copy);
    const cpr_row_list moved = cpr_row_list_moved(recv->others, lists.numbers, copy);
    memset(lists.numbers, 0, (size_t)lists.number_count * sizeof copy[0]);
    expect_moves(cpr_row_list_scatter(&moved), first, first, local, 2);
    expect_moves(own, own_first, own_from, own_to, 2);
    const cpr_row_list nowhere = cpr_row_list_moved(send->others, lists.numbers, copy);
    assert_null(nowhere.first);

    cpr_row_lists_free(&lists);
    assert_int_equal(book.held, 0);
    cpr_route_free(route);
}

static void lists_without_memory(void **state) {
    (void)state;
    cpr_route *route = route_of_rank(1, CPR_CONTIGUOUS, CPR_ZIGZAG);
    for (int64_t fail_at = 0; fail_at < 2; fail_at++) {
        ledger book;
        const cpr_allocator allocator = ledger_allocator(&book);
        cpr_row_lists lists;
        book.fail_at = fail_at;
        assert_false(cpr_row_lists_make(route, &allocator, &lists));
        assert_int_equal(book.held, 0);
    }
    cpr_route_free(route);
}

static void lists_of_nothing(void **state) {
    (void)state;
    const int64_t empty[] = {0, 0};
    cpr_route *route = route_of(empty, 2, (cpr_geometry){2, 1}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    cpr_row_lists lists;
    assert_true(cpr_row_lists_make(route, &allocator, &lists));
    assert_int_equal(lists.own.rows, 0);
    assert_int_equal(lists.sides[CPR_SEND].message_count + lists.sides[CPR_RECV].message_count, 0);
    cpr_row_lists_free(&lists);
    assert_int_equal(book.held, 0);
    cpr_route_free(route);
}

static void units_are_as_wide_as_all_allows(void **state) {
    (void)state;
    char *const even = (char *)(uintptr_t)4096;
    assert_int_equal(cpr_move_unit_bytes(8192, even, even), 16);
    assert_int_equal(cpr_move_unit_bytes(8192, even + 8, even), 8);
    assert_int_equal(cpr_move_unit_bytes(8192, even, even + 12), 4);
    assert_int_equal(cpr_move_unit_bytes(6, even, even), 2);
    assert_int_equal(cpr_move_unit_bytes(8192, even + 1, even), 1);
    assert_int_equal(cpr_move_unit_bytes(7, even, even), 1);
}

/* Three runs of 2^45 rows and more, of 2^14 bytes each: 2^60 bytes in 16-byte units. */
static void passes_of_any_length(void **state) {
    (void)state;
    const int64_t rows = INT64_C(1) << 45;
    const int64_t units_per_row = 1024;
    const int64_t first[] = {0, rows + 1, rows + 2, 2 * rows};
    const int64_t from[] = {5, 2 * rows, 7};
    const int64_t to[] = {0, rows, 2 * rows + 9};
    const cpr_moves moves = {first, from, to, 3, 2 * rows};
    const int64_t chunks = cpr_move_chunks(&moves, units_per_row);
    assert_int_equal(chunks, 2 * rows * units_per_row / CPR_MOVE_CHUNK);
    assert_int_equal(cpr_move_blocks(chunks, 4224), 4224);
    assert_int_equal(cpr_move_blocks(9, 4224), 2);

    const cpr_move_chunk last = cpr_move_chunk_at(&moves, units_per_row, chunks - 1);
    assert_int_equal(last.end, 2 * rows * units_per_row);
    assert_int_equal(last.first_run, 2);
    assert_int_equal(last.last_run, 2);
    const cpr_unit_move move = cpr_move_in_one_run(&last, 31);
    assert_int_equal(move.from, last.begin + 31 + (7 - (rows + 2)) * units_per_row);
    assert_int_equal(move.to, last.begin + 31 + (2 * rows + 9 - (rows + 2)) * units_per_row);

    const cpr_move_chunk second_run =
        cpr_move_chunk_at(&moves, units_per_row, (rows + 1) * units_per_row / CPR_MOVE_CHUNK);
    assert_int_equal(second_run.first_run, 1);
    assert_int_equal(cpr_move_in_many_runs(&moves, units_per_row, &second_run, 0, 0).from,
                     2 * rows * units_per_row);
}

/* Runs of 1 to 3 rows, as many as a warp finds in one look, two and three. */
static void a_warp_finds_the_run_of_every_row(void **state) {
    (void)state;
    enum { MOST = 32 * 33 + 1 };
    int64_t first[MOST + 1] = {0};
    for (int64_t run = 0; run < MOST; run++)
        first[run + 1] = first[run] + 1 + run % 3;
    const int64_t counts[] = {1, 2, 31, 32, 33, 100, 1023, 1024, 1025, MOST};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const cpr_moves moves = {first, first, first, counts[i], first[counts[i]]};
        for (int64_t run = 0; run < counts[i]; run++)
            for (int64_t row = first[run]; row < first[run + 1]; row++) {
                assert_int_equal(cpr_move_run_of_warp(&moves, 1, row, 0, counts[i]), run);
                assert_int_equal(cpr_move_run_of_warp(&moves, 1, row, run / 2, run + 1), run);
                assert_int_equal(cpr_move_run_of(&moves, 1, row, 0, counts[i]), run);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_a_route),     cmocka_unit_test(lists_without_memory),
        cmocka_unit_test(lists_of_nothing),     cmocka_unit_test(units_are_as_wide_as_all_allows),
        cmocka_unit_test(passes_of_any_length), cmocka_unit_test(a_warp_finds_the_run_of_every_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
