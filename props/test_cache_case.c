/* SPDX-License-Identifier: Apache-2.0 */
/* Cache scripts: bytes and text say all of them, and the same bytes mean the same for good. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/law.h"
#include "text/text_case.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { RANDOM_SCRIPTS = 300, PINNED_SCRIPTS = 2000, TEXT_SIZE = 1 << 16, COLUMNS = 100 };

static cache_case *new_script(void) {
    cache_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    return c;
}

static void draw_from_seed(uint64_t seed, cache_case *c) {
    choices from = choices_from_seed(seed, NULL);
    cache_case_draw(&from, CACHE_ALPHABET_DRAWN, c);
}

static void encoding_inverts_drawing(void **state) {
    (void)state;
    cache_case *c = new_script(), *again = new_script();
    for (uint64_t seed = 0; seed < RANDOM_SCRIPTS; seed++) {
        uint8_t bytes[CHOICE_LOG_BYTES], bytes_again[CHOICE_LOG_BYTES];
        size_t length, length_again;
        draw_from_seed(seed, c);
        assert_true(cache_case_encode(c, bytes, sizeof bytes, &length));
        choices from = choices_from_bytes(bytes, length, NULL);
        cache_case_draw(&from, CACHE_ALPHABET_DRAWN, again);
        assert_true(cache_case_equal(c, again));
        assert_int_equal(from.position, length);
        assert_true(cache_case_encode(again, bytes_again, sizeof bytes_again, &length_again));
        assert_int_equal(length, length_again);
        assert_memory_equal(bytes, bytes_again, length);
        assert_false(cache_case_encode(c, bytes, length - 1, &length));
    }
    free(c);
    free(again);
}

static void no_bytes_are_a_script(void **state) {
    (void)state;
    cache_case *c = new_script();
    choices from = choices_from_bytes(NULL, 0, NULL);
    cache_case_draw(&from, CACHE_ALPHABET_DRAWN, c);
    assert_int_equal(c->op_count, 0);
    assert_int_equal(c->guard, CPR_GUARD_DEFAULT);
    free(c);
}

static char *written(const cache_case *c) {
    char *text = calloc(1, TEXT_SIZE);
    assert_non_null(text);
    FILE *out = fmemopen(text, TEXT_SIZE, "w");
    assert_non_null(out);
    cache_family.write_text(out, c, "cache_never_stale", "a \"note\"");
    fclose(out);
    return text;
}

static void text_says_all(void **state) {
    (void)state;
    cache_case *c = new_script();
    for (uint64_t seed = 0; seed < RANDOM_SCRIPTS; seed++) {
        text_case read;
        char mistake[512];
        draw_from_seed(seed, c);
        if (c->op_count == 0)
            continue;
        char *text = written(c);
        if (!text_case_parse(&read, text, strlen(text), mistake, sizeof mistake))
            fail_msg("%s\n%s", mistake, text);
        char *again = written(read.cache);
        assert_string_equal(text, again);
        text_case_free(&read);
        free(text);
        free(again);
    }
    free(c);
}

static void lines_are_short(void **state) {
    (void)state;
    cache_case *c = new_script();
    for (uint64_t seed = 0; seed < RANDOM_SCRIPTS; seed++) {
        draw_from_seed(seed, c);
        for (int64_t i = 0; i < c->op_count; i++)
            assert_true(cache_op_format(c, &c->ops[i], NULL, 0) < COLUMNS);
    }
    free(c);
}

/* If this fails, old bytes mean other scripts: bump CACHE_CASE_FORMAT_VERSION, make the byte corpora anew, and put the digest that is
 * printed here. */
static void format_version_is_pinned(void **state) {
    (void)state;
    cache_case *c = new_script();
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (uint64_t seed = 0; seed < PINNED_SCRIPTS; seed++) {
        draw_from_seed(seed, c);
        char *text = written(c);
        for (const char *at = text; *at; at++)
            digest = (digest ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
        free(text);
    }
    free(c);
    printf("# format %d: digest 0x%016" PRIx64 "\n", CACHE_CASE_FORMAT_VERSION, digest);
    assert_int_equal(CACHE_CASE_FORMAT_VERSION, 4);
    assert_true(digest == UINT64_C(0x2770a3985e67b7b4));
}

static void names_are_read_as_written(void **state) {
    (void)state;
    for (int i = 0; i < CACHE_OP_KINDS; i++) {
        cache_op_kind kind;
        assert_true(cache_op_from_name(cache_op_name((cache_op_kind)i), &kind));
        assert_int_equal(kind, i);
    }
    for (int i = 0; i < 3; i++) {
        cpr_guard guard;
        assert_true(cache_guard_from_name(cache_guard_name((cpr_guard)i), &guard));
        assert_int_equal(guard, i);
    }
    cache_op_kind kind;
    cpr_guard guard;
    assert_false(cache_op_from_name("forget", &kind));
    assert_false(cache_guard_from_name("none", &guard));
}

static void mistakes_are_told(void **state) {
    (void)state;
    static const struct {
        const char *ops, *mistake;
    } wrong[] = {
        {"{\"op\":\"new\",\"t\":\"A\",\"data\":[0,1.5]}", "not a whole number"},
        {"{\"op\":\"new\",\"t\":\"A\",\"dtype\":\"int32\",\"data\":[0,4294967296]}", "does not fit 32 bits"},
        {"{\"op\":\"new\",\"t\":\"A\",\"data\":[0]},{\"op\":\"write\",\"t\":\"A\",\"i\":0,\"v\":4294967296}",
         "does not fit 32 bits"},
        {"{\"op\":\"new\",\"t\":\"A\",\"data\":[0]},{\"op\":\"clone\",\"t\":\"B\",\"of\":\"A\"},"
         "{\"op\":\"rebind\",\"t\":\"B\",\"data\":[0,4294967296]}",
         "does not fit 32 bits"},
        {"{\"op\":\"new\",\"t\":\"A\"}", "data"},
        {"{\"op\":\"new\",\"t\":\"A\",\"data\":[0],\"dtype\":\"int7\"}", "no dtype 'int7'"},
        {"{\"op\":\"new\",\"t\":\"A\",\"data\":[0],\"device\":\"cuda:x\"}", "has no number"},
        {"{\"op\":\"new\",\"t\":\"\",\"data\":[0]}", "too long a name"},
        {"{\"op\":\"new\",\"t\":\"A\",\"data\":[0],\"colour\":1}", "colour"},
        {"{\"op\":\"view\",\"t\":\"A\",\"of\":\"B\",\"lo\":3,\"hi\":1}", "lo <= hi"},
        {"{\"op\":\"write\",\"t\":\"A\",\"i\":99,\"v\":0}", "no entry 99"},
        {"{\"op\":\"get\",\"t\":\"A\",\"cp\":2,\"rank\":0,\"want\":\"luck\"}", "'luck' is none"},
        {"{\"op\":\"cap\",\"n\":0}", "1 to 1048576"},
        {"{\"op\":\"clear\"},{\"op\":\"cap\",\"n\":4,\"bytes\":9}", "before all else"},
        {"{\"op\":\"guard\",\"v\":\"luck\"}", "no guard 'luck'"},
        {"{\"op\":\"forget\",\"t\":\"A\"}", "no operation 'forget'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        text_case read;
        char line[512], mistake[512];
        snprintf(line, sizeof line,
                 "{\"id\":\"x\",\"cu_seqlens\":[0],\"cp_size\":2,\"expect\":\"ok\",\"ops\":[%s]}",
                 wrong[i].ops);
        assert_false(text_case_parse(&read, line, strlen(line), mistake, sizeof mistake));
        if (!strstr(mistake, wrong[i].mistake))
            fail_msg("'%s' says nothing of '%s'", mistake, wrong[i].mistake);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoding_inverts_drawing),
        cmocka_unit_test(no_bytes_are_a_script),
        cmocka_unit_test(text_says_all),
        cmocka_unit_test(lines_are_short),
        cmocka_unit_test(format_version_is_pinned),
        cmocka_unit_test(names_are_read_as_written),
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests_name("cache scripts", tests, NULL, NULL);
}
