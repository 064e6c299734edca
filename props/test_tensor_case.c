/* SPDX-License-Identifier: Apache-2.0 */
/* Cases about flat tensors: drawn, encoded, written as text, and judged as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/law.h"
#include "text/text_replay.h"
#include <stdlib.h>
#include <string.h>

enum { CASES = 3000 };

static tensor_case drawn(uint64_t seed) {
    tensor_case c;
    choices from = choices_from_seed(seed, NULL);
    tensor_case_draw(&from, &c);
    return c;
}

static void encoded_bytes_draw_the_case_again(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        const tensor_case c = drawn(seed);
        uint8_t bytes[CHOICE_LOG_BYTES];
        size_t length = 0;
        tensor_case again;
        assert_true(tensor_case_encode(&c, bytes, sizeof bytes, &length));
        assert_false(tensor_case_encode(&c, bytes, length - 1, &length));
        choices from = choices_from_bytes(bytes, length, NULL);
        tensor_case_draw(&from, &again);
        assert_int_equal(again.geometry.cp_size, c.geometry.cp_size);
        assert_int_equal(again.geometry.cp_rank, c.geometry.cp_rank);
        assert_int_equal(again.count, c.count);
        assert_memory_equal(again.entries, c.entries, (size_t)c.count * sizeof *c.entries);
    }
}

/* Both good tensors and every kind of fault are drawn often enough to be met in a short run. */
static void all_answers_are_drawn(void **state) {
    (void)state;
    static const cpr_status statuses[] = {CPR_OK,      CPR_BAD_CP_SIZE,    CPR_BAD_RANK,
                                          CPR_BAD_ROW, CPR_SPLIT_MISMATCH, CPR_TOTAL_MISMATCH};
    enum { STATUSES = sizeof statuses / sizeof *statuses, AT_LEAST = 10 };
    int seen[STATUSES] = {0};
    for (uint64_t seed = 0; seed < CASES; seed++) {
        const tensor_case c = drawn(seed);
        const cpr_error answer = flat_expected(c.entries, c.count, c.geometry);
        int which = 0;
        while (which < STATUSES && statuses[which] != answer.status)
            which++;
        assert_true(which < STATUSES);
        seen[which]++;
    }
    for (int i = 0; i < STATUSES; i++)
        assert_true(seen[i] >= AT_LEAST);
}

static void a_case_is_the_same_as_text(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < CASES / 10; seed++) {
        const tensor_case c = drawn(seed);
        char *line = NULL, mistake[200];
        size_t length = 0;
        FILE *out = open_memstream(&line, &length);
        assert_non_null(out);
        tensor_family.write_text(out, &c, "flat_decode", "drawn");
        fclose(out);
        text_case text;
        if (!text_case_parse(&text, line, length, mistake, sizeof mistake))
            fail_msg("%s", mistake);
        verdict v;
        const law *broken;
        text_case_judge(&text, NULL, &v, &broken, NULL);
        if (v.outcome != LAW_PASSED)
            fail_msg("%s%s: %s", line, v.reason, v.details);
        text_case_free(&text);
        free(line);
    }
}

static void a_case_is_shown(void **state) {
    (void)state;
    const tensor_case c = {.geometry = {1, 0}, .count = 10, .entries = {1, 0, 2, 2, 2, 0, 2, 2, 0, 1}};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    tensor_family.show(out, &c, false);
    fclose(out);
    assert_string_equal(
        text, "flat tensor of 10 entries for rank 0 of 1\n\n"
              "  1 0 2 2 2 0 2 2 0 1\n\n"
              "total_mismatch: the row count disagrees with the boundaries: number 4, rows 2, expected 0\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoded_bytes_draw_the_case_again),
        cmocka_unit_test(all_answers_are_drawn),
        cmocka_unit_test(a_case_is_the_same_as_text),
        cmocka_unit_test(a_case_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
