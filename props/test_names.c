/* SPDX-License-Identifier: Apache-2.0 */
/* Versions, names and sentences, by example. */
#include "example.h"

#include <stdio.h>

static const struct {
    cpr_status status;
    int number;
    const char *name;
} STATUSES[] = {
    {CPR_OK, 0, "ok"},
    {CPR_BAD_CP_SIZE, -901, "bad_cp_size"},
    {CPR_BAD_RANK, -902, "bad_rank"},
    {CPR_BAD_LAYOUT, -903, "bad_layout"},
    {CPR_DTYPE, -904, "dtype"},
    {CPR_DEVICE, -905, "device"},
    {CPR_EMPTY_CU_SEQLENS, -906, "empty_cu_seqlens"},
    {CPR_NONZERO_START, -907, "nonzero_start"},
    {CPR_DECREASING, -908, "decreasing"},
    {CPR_TOTAL_MISMATCH, -909, "total_mismatch"},
    {CPR_NOT_DIVISIBLE_2CP, -910, "not_divisible_2cp"},
    {CPR_NOT_DIVISIBLE_CP, -911, "not_divisible_cp"},
    {CPR_NOT_DIVISIBLE_CP_TP, -912, "not_divisible_cp_tp"},
    {CPR_OVERFLOW, -913, "overflow"},
    {CPR_NO_MEMORY, -914, "no_memory"},
    {CPR_SPLIT_MISMATCH, -915, "split_mismatch"},
    {CPR_DIVERGENT_METADATA, -916, "divergent_metadata"},
    {CPR_LAYOUT_MISMATCH, -917, "layout_mismatch"},
    {CPR_CAPTURE_LAYOUT_CHANGE, -918, "capture_layout_change"},
    {CPR_BAD_ROW, -919, "bad_row"},
    {CPR_CUDA_ERROR, -920, "cuda"},
    {CPR_NCCL_ERROR, -921, "nccl"},
    {CPR_TIMEOUT, -922, "timeout"},
    {CPR_PEER_FAILED, -923, "peer_failed"},
    {CPR_INTERNAL, -999, "internal"},
};

static void version_is_that_of_the_header(void **state) {
    (void)state;
    char text[32];
    assert_int_equal(cpr_version_number(), CPR_VERSION_NUMBER);
    snprintf(text, sizeof text, "%d.%d.%d", CPR_VERSION_MAJOR, CPR_VERSION_MINOR, CPR_VERSION_PATCH);
    assert_string_equal(cpr_version_string(), text);
    assert_string_equal(CPR_VERSION_STRING, text);
}

static void statuses_have_stable_numbers_and_names(void **state) {
    (void)state;
    for (int64_t i = 0; i < LENGTH_OF(STATUSES); i++) {
        assert_int_equal(STATUSES[i].status, STATUSES[i].number);
        assert_string_equal(cpr_status_name(STATUSES[i].status), STATUSES[i].name);
        cpr_status found = CPR_INTERNAL;
        assert_true(cpr_status_from_name(STATUSES[i].name, &found));
        assert_int_equal(found, STATUSES[i].status);
    }
}

static void every_status_has_a_sentence_of_its_own(void **state) {
    (void)state;
    for (int64_t i = 0; i < LENGTH_OF(STATUSES); i++) {
        assert_true(strlen(cpr_status_message(STATUSES[i].status)) > 0);
        for (int64_t k = 0; k < i; k++)
            assert_string_not_equal(cpr_status_message(STATUSES[i].status),
                                    cpr_status_message(STATUSES[k].status));
    }
}

static void unknown_statuses_are_unknown(void **state) {
    (void)state;
    cpr_status untouched = CPR_DTYPE;
    assert_string_equal(cpr_status_name((cpr_status)-900), "unknown");
    assert_string_equal(cpr_status_name((cpr_status)7), "unknown");
    assert_false(cpr_status_from_name("unknown", &untouched));
    assert_false(cpr_status_from_name("", &untouched));
    assert_false(cpr_status_from_name("OK", &untouched));
    assert_int_equal(untouched, CPR_DTYPE);
}

static void dtypes_have_names(void **state) {
    (void)state;
    static const char *const names[] = {"int32", "int64", "float16", "bfloat16", "float32", "float64"};
    cpr_dtype dtype = CPR_OTHER_DTYPE;
    for (int i = 0; i < LENGTH_OF(names); i++) {
        assert_string_equal(cpr_dtype_name((cpr_dtype)i), names[i]);
        assert_true(cpr_dtype_from_name(names[i], &dtype));
        assert_int_equal(dtype, i);
    }
    assert_true(cpr_dtype_from_name(cpr_dtype_name(CPR_OTHER_DTYPE), &dtype));
    assert_int_equal(dtype, CPR_OTHER_DTYPE);
    assert_false(cpr_dtype_from_name("int16", &dtype));
    assert_int_equal(dtype, CPR_OTHER_DTYPE);
    assert_string_equal(cpr_dtype_name((cpr_dtype)7), "unknown");
    assert_string_equal(cpr_dtype_name((cpr_dtype)-1), "unknown");
}

static void layouts_have_names(void **state) {
    (void)state;
    static const char *const names[CPR_LAYOUT_COUNT] = {
        [CPR_ZIGZAG] = "zigzag",
        [CPR_CONTIGUOUS] = "contiguous",
        [CPR_PER_SEQUENCE_CONTIGUOUS] = "per_sequence_contiguous",
        [CPR_FLAT_ZIGZAG] = "flat_zigzag",
        [CPR_HEADS_THEN_TAILS] = "heads_then_tails",
    };
    cpr_layout layout = CPR_LAYOUT_COUNT;
    for (int i = 0; i < CPR_LAYOUT_COUNT; i++) {
        assert_string_equal(cpr_layout_name((cpr_layout)i), names[i]);
        assert_true(cpr_layout_from_name(names[i], &layout));
        assert_int_equal(layout, i);
    }
    assert_false(cpr_layout_from_name("zig", &layout));
    assert_int_equal(layout, CPR_HEADS_THEN_TAILS);
    assert_string_equal(cpr_layout_name(CPR_LAYOUT_COUNT), "unknown");
    assert_string_equal(cpr_layout_name((cpr_layout)-1), "unknown");
}

static void views_of_plain_arrays(void **state) {
    (void)state;
    static const int32_t narrow[] = {0, 4};
    static const int64_t wide[] = {0, 4, 8};
    const cpr_cu_seqlens a = cpr_cu_seqlens_int32(narrow, 2);
    const cpr_cu_seqlens b = cpr_cu_seqlens_int64(wide, 3);
    assert_ptr_equal(a.data, narrow);
    assert_int_equal(a.count, 2);
    assert_int_equal(a.stride, 1);
    assert_int_equal(a.dtype, CPR_INT32);
    assert_int_equal(a.device, CPR_CPU);
    assert_ptr_equal(b.data, wide);
    assert_int_equal(b.count, 3);
    assert_int_equal(b.stride, 1);
    assert_int_equal(b.dtype, CPR_INT64);
    assert_int_equal(b.device, CPR_CPU);
}

static void errors_read_as_sentences(void **state) {
    (void)state;
    static const struct {
        cpr_error error;
        const char *text;
    } examples[] = {
        {{CPR_OK, -1, 0, 0}, "no error"},
        {{CPR_BAD_CP_SIZE, -1, 0, 1}, "the number of ranks is out of range: cp_size 0, limit 1"},
        {{CPR_BAD_RANK, -1, 2, 2}, "the rank is not one of the group: cp_rank 2, cp_size 2"},
        {{CPR_BAD_RANK, 0, 1, 0}, "it is that of another rank or group: number 0, rank 1, expected 0"},
        {{CPR_BAD_RANK, 1, 0, 1}, "it is that of another rank or group: number 1, rank 0, expected 1"},
        {{CPR_BAD_CP_SIZE, 0, 3, 4}, "it is that of another group: number 0, cp_size 3, expected 4"},
        {{CPR_BAD_ROW, 16, 9, 8}, "a row is out of range or there twice: entry 16, row 9, rows 8"},
        {{CPR_DECREASING, 3, -1, 8}, "cu_seqlens decreases: entry 3, value -1, entry before it 8"},
        {{CPR_NOT_DIVISIBLE_2CP, 1, 10, 4},
         "a length is not divisible by twice the number of ranks: sequence 1, length 10, 2 * cp_size 4"},
        {{CPR_NOT_DIVISIBLE_2CP, -1, 10, 4},
         "a length is not divisible by twice the number of ranks: length 10, 2 * cp_size 4"},
        {{CPR_OVERFLOW, -1, INT64_MAX, INT32_MAX},
         "a number does not fit its type or limit: value 9223372036854775807, largest that fits 2147483647"},
        {{CPR_NO_MEMORY, -1, 0, 0}, "memory ran out"},
        {{CPR_CUDA_ERROR, -1, 700, 0}, "the CUDA runtime refused: cudaError_t 700"},
        {{CPR_TIMEOUT, -1, 60003, 60000}, "other ranks did not answer: milliseconds 60003, limit 60000"},
        {{CPR_PEER_FAILED, 1, CPR_NO_MEMORY, 0}, "another rank could not take part: rank 1, status -914"},
        {{(cpr_status)-900, INT64_MIN, 2, 3}, "unknown status: index -9223372036854775808, got 2, wanted 3"},
    };
    for (int64_t i = 0; i < LENGTH_OF(examples); i++) {
        char text[256];
        const int length = cpr_error_format(&examples[i].error, text, sizeof text);
        assert_string_equal(text, examples[i].text);
        assert_int_equal(length, strlen(examples[i].text));
    }
}

static void sentences_are_cut_to_size(void **state) {
    (void)state;
    const cpr_error error = {CPR_NO_MEMORY, -1, 0, 0};
    char text[] = "##########";
    assert_int_equal(cpr_error_format(&error, NULL, 0), 14);
    assert_int_equal(cpr_error_format(&error, text, 7), 14);
    assert_string_equal(text, "memory");
    assert_string_equal(text + 7, "###");
    assert_int_equal(cpr_error_format(&error, text, 1), 14);
    assert_string_equal(text, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_is_that_of_the_header),
        cmocka_unit_test(statuses_have_stable_numbers_and_names),
        cmocka_unit_test(every_status_has_a_sentence_of_its_own),
        cmocka_unit_test(unknown_statuses_are_unknown),
        cmocka_unit_test(dtypes_have_names),
        cmocka_unit_test(layouts_have_names),
        cmocka_unit_test(views_of_plain_arrays),
        cmocka_unit_test(errors_read_as_sentences),
        cmocka_unit_test(sentences_are_cut_to_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
