/* SPDX-License-Identifier: Apache-2.0 */
/* What the kit writes as text is read back as the same case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/show.h"
#include "text/text_case.h"
#include <stdlib.h>
#include <string.h>

enum { RANDOM_CASES = 20000, TEXT_SIZE = 1 << 16 };

/* What has no name, or no value that stands for it in text, is read back as another value that is refused alike. */
static bool has_names(const route_case *c) {
    cpr_dtype dtype;
    cpr_layout layout;
    return cpr_dtype_from_name(cpr_dtype_name(c->dtype), &dtype) && (int)c->device <= CPR_OTHER_DEVICE &&
           cpr_layout_from_name(cpr_layout_name(c->source), &layout) &&
           cpr_layout_from_name(cpr_layout_name(c->target), &layout);
}

static void write_text(const route_case *c, char *text) {
    FILE *out = fmemopen(text, TEXT_SIZE, "w");
    assert_non_null(out);
    write_case_text(out, c, "equivalence", "a \"note\",\n\twith \\ in it");
    fclose(out);
}

static void read_text(const char *text, route_case *c) {
    char mistake[256];
    text_case parsed;
    if (!text_case_parse(&parsed, text, strlen(text), mistake, sizeof mistake))
        fail_msg("%s in %s", mistake, text);
    assert_string_equal(parsed.note, "a \"note\",\n\twith \\ in it");
    assert_string_equal(parsed.law, "equivalence");
    assert_false(parsed.every_rank);
    assert_true(text_case_to_route_case(&parsed, parsed.rank, parsed.expect == CPR_OK, c));
    text_case_free(&parsed);
}

static void shell_words(void **state) {
    (void)state;
    static const char *const words[][2] = {{"build/release/cproute", "build/release/cproute"},
                                           {"findings/a-1.jsonl:3", "findings/a-1.jsonl:3"},
                                           {"my findings/a", "'my findings/a'"},
                                           {"it's $HOME", "'it'\\''s $HOME'"},
                                           {"~/a", "'~/a'"},
                                           {"", "''"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char text[64] = "";
        FILE *out = fmemopen(text, sizeof text, "w");
        assert_non_null(out);
        write_shell_word(out, words[i][0]);
        fclose(out);
        assert_string_equal(text, words[i][1]);
    }
}

static void cases_are_read_back(void **state) {
    (void)state;
    route_case *written = malloc(sizeof *written), *read = malloc(sizeof *read);
    char *text = calloc(1, TEXT_SIZE);
    for (uint64_t seed = 0; seed < RANDOM_CASES; seed++) {
        choices from = choices_from_seed(seed, NULL);
        route_case_draw(&from, &CASE_BOUNDS_DRAWN, written);
        write_text(written, text);
        read_text(text, read);
        assert_int_equal(read->expected.status, written->expected.status);
        if (!has_names(written))
            continue;
        if (written->expected.status == CPR_OK)
            read->expected = written->expected; /* a case that is good has no details to compare */
        assert_true(route_case_equal(written, read));
    }
    free(text);
    free(read);
    free(written);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases_are_read_back), cmocka_unit_test(shell_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
