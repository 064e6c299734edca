/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks tell each other in a conversion by one kernel: where it lies, and what is told. */
#include "example.h"

#include "cuda/direct.h"

enum { RANKS = 3 };

static void mark(unsigned char *board, size_t bytes, size_t at, size_t size) {
    assert_true(at % sizeof(uint64_t) == 0);
    assert_true(at + size <= bytes);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(board[at + i]++, 0);
}

static void every_slot_step_and_loss_has_a_place_of_its_own(void **state) {
    (void)state;
    const size_t bytes = cpr_direct_board_bytes(RANKS);
    unsigned char *board = calloc(bytes, 1);
    assert_non_null(board);
    for (int64_t channel = 0; channel < CPR_DIRECT_CHANNELS; channel++)
        for (int64_t block = 0; block < CPR_DIRECT_BLOCKS; block++) {
            for (int64_t sender = 0; sender < RANKS; sender++)
                mark(board, bytes, cpr_direct_slot_at(RANKS, channel, block, sender),
                     sizeof(cpr_direct_slot));
            mark(board, bytes, cpr_direct_step_at(RANKS, channel, block), sizeof(uint64_t));
        }
    mark(board, bytes, cpr_direct_lost_at(RANKS), sizeof(uint64_t));
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(board[i], 1);
    free(board);
}

static void digests_differ_where_a_call_or_its_offsets_do(void **state) {
    (void)state;
    const cpr_offsets_scan here = {.digest = 5}, there = {.digest = 6};
    assert_true(cpr_direct_digest(1, &here) == cpr_direct_digest(1, &here));
    assert_true(cpr_direct_digest(1, &here) != cpr_direct_digest(1, &there));
    assert_true(cpr_direct_digest(1, &here) != cpr_direct_digest(2, &here));
    assert_true(cpr_direct_digest(5, &there) != cpr_direct_digest(6, &here));
}

static const int64_t BOUNDARIES[] = {0, 8};

/* One thing wrong each, and what must be told. */
static const struct {
    cpr_cu_seqlens cu_seqlens;
    cpr_geometry geometry;
    int source, target;
    cpr_error error;
} refusals[] = {
    {{BOUNDARIES, 2, 1, CPR_INT64, CPR_CUDA}, {0, 0}, 0, 1, {CPR_BAD_CP_SIZE, -1, 0, 1}},
    {{BOUNDARIES, 2, 1, CPR_INT64, CPR_CUDA},
     {CPR_CP_SIZE_MAX + 1, 0},
     0,
     1,
     {CPR_BAD_CP_SIZE, -1, CPR_CP_SIZE_MAX + 1, CPR_CP_SIZE_MAX}},
    {{BOUNDARIES, 2, 1, CPR_INT64, CPR_CUDA}, {2, -1}, 0, 1, {CPR_BAD_RANK, -1, -1, 2}},
    {{BOUNDARIES, 2, 1, CPR_INT64, CPR_CUDA}, {2, 2}, 0, 1, {CPR_BAD_RANK, -1, 2, 2}},
    {{BOUNDARIES, 2, 1, CPR_INT64, CPR_CUDA}, {2, 0}, -1, 1, {CPR_BAD_LAYOUT, 0, -1, 5}},
    {{BOUNDARIES, 2, 1, CPR_INT64, CPR_CUDA}, {2, 0}, 5, 1, {CPR_BAD_LAYOUT, 0, 5, 5}},
    {{BOUNDARIES, 2, 1, CPR_INT64, CPR_CUDA}, {2, 0}, 0, -1, {CPR_BAD_LAYOUT, 1, -1, 5}},
    {{BOUNDARIES, 2, 1, CPR_INT64, CPR_CUDA}, {2, 0}, 0, 5, {CPR_BAD_LAYOUT, 1, 5, 5}},
    {{BOUNDARIES, 2, 1, CPR_FLOAT32, CPR_CUDA}, {2, 0}, 0, 1, {CPR_DTYPE, -1, CPR_FLOAT32, CPR_INT64}},
    {{BOUNDARIES, 2, 1, CPR_INT64, CPR_CPU}, {2, 0}, 0, 1, {CPR_DEVICE, -1, CPR_CPU, CPR_CUDA}},
    {{NULL, 2, 1, CPR_INT64, CPR_CUDA}, {2, 0}, 0, 1, {CPR_DEVICE, -1, -1, CPR_CUDA}},
    {{NULL, 0, 1, CPR_INT64, CPR_CUDA}, {2, 0}, 0, 1, {CPR_EMPTY_CU_SEQLENS, -1, 0, 1}},
    {{BOUNDARIES, 2, 1, CPR_INT64, CPR_CUDA}, {2, 0}, 0, 1, {CPR_OK, -1, 0, 0}},
    {{BOUNDARIES, 2, 1, CPR_INT32, CPR_CUDA}, {2, 1}, 1, 0, {CPR_OK, -1, 0, 0}},
};

static void calls_are_refused_before_offsets_are_read(void **state) {
    (void)state;
    for (size_t i = 0; i < LENGTH_OF(refusals); i++) {
        const cpr_error error = cpr_conversion_refused(&refusals[i].cu_seqlens, refusals[i].geometry,
                                                       refusals[i].source, refusals[i].target, CPR_CUDA);
        assert_int_equal(error.status, refusals[i].error.status);
        assert_int_equal(error.index, refusals[i].error.index);
        assert_int_equal(error.got, refusals[i].error.got);
        assert_int_equal(error.wanted, refusals[i].error.wanted);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_slot_step_and_loss_has_a_place_of_its_own),
        cmocka_unit_test(digests_differ_where_a_call_or_its_offsets_do),
        cmocka_unit_test(calls_are_refused_before_offsets_are_read),
    };
    return cmocka_run_group_tests_name("notes between ranks", tests, NULL, NULL);
}
