/* SPDX-License-Identifier: Apache-2.0 */
/* Cases about the layer that consumes routes: drawn, encoded, shown, and the same as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/law.h"
#include "text/text_replay.h"
#include <stdlib.h>
#include <string.h>

enum { CASES = 2000 };

static delta_case drawn(uint64_t seed) {
    delta_case c;
    choices from = choices_from_seed(seed, NULL);
    delta_case_draw(&from, &c);
    return c;
}

static void assert_same(const delta_case *a, const delta_case *b) {
    assert_memory_equal(&a->shape, &b->shape, sizeof a->shape);
    assert_int_equal(a->salt, b->salt);
    assert_int_equal(a->batches, b->batches);
    for (int64_t i = 0; i < a->batches; i++) {
        assert_int_equal(a->batch[i].mode, b->batch[i].mode);
        assert_int_equal(a->batch[i].cp_size, b->batch[i].cp_size);
        assert_int_equal(a->batch[i].entries, b->batch[i].entries);
        assert_memory_equal(a->batch[i].cu, b->batch[i].cu,
                            (size_t)a->batch[i].entries * sizeof *a->batch[i].cu);
    }
}

static void drawn_cases_are_legal(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        const delta_case c = drawn(seed);
        for (int64_t i = 0; i < c.batches; i++)
            assert_int_equal(delta_expected(&c.shape, &c.batch[i]).status, DELTA_OK);
    }
}

static bool has_boundary_at_an_edge(const delta_pack *p) {
    const int64_t rows = p->cu[p->entries - 1] / p->cp_size;
    for (int64_t i = 1; i < p->entries; i++)
        if (rows > 0 && p->cu[i] > 0 && p->cu[i] < rows * p->cp_size && p->cu[i] % rows == 0)
            return true;
    return false;
}

static bool spans_three_ranks(const delta_pack *p) {
    const int64_t rows = p->cu[p->entries - 1] / p->cp_size;
    for (int64_t i = 1; i < p->entries; i++)
        if (rows > 0 && p->cu[i] > p->cu[i - 1] && (p->cu[i] - 1) / rows - p->cu[i - 1] / rows >= 2)
            return true;
    return false;
}

static bool has_empty_slot(const delta_pack *p) {
    for (int64_t i = 1; i < p->entries; i++)
        if (p->cu[i] == p->cu[i - 1])
            return true;
    return false;
}

static bool is_shorter_than_convolution(const delta_case *c, const delta_pack *p) {
    for (int64_t i = 1; i < p->entries; i++)
        if (p->cu[i] > p->cu[i - 1] && p->cu[i] - p->cu[i - 1] < c->shape.taps)
            return true;
    return false;
}

/* Of everything that packs can have, enough is met in a short run. */
static void all_kinds_are_drawn(void **state) {
    (void)state;
    enum { AT_LEAST = 40 };
    int ranks[9] = {0}, modes[DELTA_MODE_COUNT] = {0}, headwise_ranks[9] = {0};
    int edges = 0, spans = 0, empties = 0, shorts = 0, thin = 0, dynamic = 0;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        const delta_case c = drawn(seed);
        for (int64_t i = 0; i < c.batches; i++) {
            const delta_pack *p = &c.batch[i];
            const int64_t rows = p->cu[p->entries - 1] / p->cp_size;
            ranks[p->cp_size]++;
            modes[p->mode]++;
            headwise_ranks[p->cp_size] += p->mode == DELTA_HEADWISE;
            edges += has_boundary_at_an_edge(p);
            spans += spans_three_ranks(p);
            empties += has_empty_slot(p);
            shorts += is_shorter_than_convolution(&c, p);
            thin += rows > 0 && rows < c.shape.taps - 1;
            dynamic += i > 0 && p->cp_size != c.batch[i - 1].cp_size;
        }
    }
    for (int i = 1; i <= 8; i++)
        assert_true(ranks[i] >= AT_LEAST && headwise_ranks[i] >= AT_LEAST / 4);
    for (int i = 0; i < DELTA_MODE_COUNT; i++)
        assert_true(modes[i] >= AT_LEAST);
    assert_true(edges >= AT_LEAST && spans >= AT_LEAST && empties >= AT_LEAST && shorts >= AT_LEAST &&
                thin >= AT_LEAST && dynamic >= AT_LEAST);
}

static void encoded_bytes_draw_the_case_again(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        const delta_case c = drawn(seed);
        uint8_t bytes[CHOICE_LOG_BYTES];
        size_t length = 0;
        assert_true(delta_case_encode(&c, bytes, sizeof bytes, &length));
        assert_false(delta_case_encode(&c, bytes, length - 1, &length));
        delta_case again;
        choices from = choices_from_bytes(bytes, length, NULL);
        delta_case_draw(&from, &again);
        assert_same(&again, &c);
    }
}

static void what_is_not_drawn_has_no_bytes(void **state) {
    (void)state;
    uint8_t bytes[CHOICE_LOG_BYTES];
    size_t length;
    const delta_case good = {.shape = {1, 1, 1, 1}, .batches = 1, .batch = {{.cp_size = 2, .entries = 1}}};
    delta_case many_heads = good, ragged = good, salty = good;
    many_heads.shape.heads = 9;
    ragged.batch[0].entries = 2;
    ragged.batch[0].cu[1] = 3;
    salty.salt = UINT16_MAX + 1;
    assert_true(delta_case_encode(&good, bytes, sizeof bytes, &length));
    assert_false(delta_case_encode(&many_heads, bytes, sizeof bytes, &length));
    assert_false(delta_case_encode(&ragged, bytes, sizeof bytes, &length));
    assert_false(delta_case_encode(&salty, bytes, sizeof bytes, &length));
}

static char *text_of(const delta_case *c, size_t *length) {
    char *line = NULL;
    FILE *out = open_memstream(&line, length);
    assert_non_null(out);
    delta_family.write_text(out, c, "delta_errors", "drawn \"so\"");
    fclose(out);
    return line;
}

static void a_case_is_the_same_as_text(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < CASES / 20; seed++) {
        const delta_case c = drawn(seed);
        char mistake[200];
        size_t length = 0;
        char *line = text_of(&c, &length);
        text_case text;
        if (!text_case_parse(&text, line, length, mistake, sizeof mistake))
            fail_msg("%s", mistake);
        assert_non_null(text.delta);
        assert_same(text.delta, &c);
        verdict v;
        const law *broken;
        text_case_judge(&text, law_named("delta_errors"), &v, &broken, NULL);
        if (v.outcome != LAW_PASSED)
            fail_msg("%s%s: %s", line, v.reason, v.details);
        text_case_free(&text);
        free(line);
    }
}

static void mistakes_in_text_are_told(void **state) {
    (void)state;
    static const char head[] = "{\"id\":\"x\",\"cu_seqlens\":[0],\"cp_size\":1,\"expect\":\"ok\",\"ops\":[";
    static const char shape[] = "{\"op\":\"delta\",\"heads\":1,\"keys\":1,\"values\":1,\"taps\":1}";
    static const struct {
        const char *ops, *told;
    } wrong[] = {
        {"", "go together"},
        {",{\"op\":\"micro_batch\",\"mode\":\"ringwise\",\"cp\":1,\"cu\":[0]}",
         "there is no mode 'ringwise'"},
        {",{\"op\":\"micro_batch\",\"mode\":\"headwise\",\"cp\":65,\"cu\":[0]}", "at most 64 ranks"},
        {",{\"op\":\"micro_batch\",\"mode\":\"headwise\",\"cp\":1,\"cu\":[0.5]}", "whole numbers"},
        {",{\"op\":\"micro_batch\",\"mode\":\"headwise\",\"cp\":1,\"cu\":[0,2000]}", "whole numbers"},
        {",{\"op\":\"micro_batch\",\"mode\":\"headwise\",\"cp\":1,\"cu\":7}", "a list"},
        {",{\"op\":\"micro_batch\",\"mode\":\"headwise\",\"cp\":1}", "cu"},
        {",{\"op\":\"delta\",\"heads\":1,\"keys\":1,\"values\":1,\"taps\":1}", "delta twice"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char line[600], mistake[200];
        snprintf(line, sizeof line, "%s%s%s]}", head, shape, wrong[i].ops);
        text_case c;
        assert_false(text_case_parse(&c, line, strlen(line), mistake, sizeof mistake));
        if (!strstr(mistake, wrong[i].told))
            fail_msg("%s: %s", line, mistake);
    }
}

static void a_case_is_shown(void **state) {
    (void)state;
    const delta_case c = {.shape = {3, 1, 2, 4},
                          .salt = 7,
                          .batches = 2,
                          .batch = {{.mode = DELTA_CHUNKWISE, .cp_size = 2, .entries = 3, .cu = {0, 4, 8}},
                                    {.mode = DELTA_HEADWISE, .cp_size = 2, .entries = 2, .cu = {0, 4}}}};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    delta_family.show(out, &c, false);
    fclose(out);
    assert_string_equal(text, "heads 3  keys 1  values 2  taps 4  salt 7\n"
                              "\nmicro-batch 0: chunkwise on 2 ranks, ok\n"
                              "  cu_seqlens [0,4,8]\n"
                              "zigzag\n"
                              "  rank 0  a..ab..b  0 3-4 7\n"
                              "  rank 1  .aa..bb.  1-2 5-6\n"
                              "contiguous\n"
                              "  rank 0  aaaa....  0-3\n"
                              "  rank 1  ....bbbb  4-7\n"
                              "\nmicro-batch 1: headwise on 2 ranks, not_divisible_heads\n"
                              "  cu_seqlens [0,4]\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_cases_are_legal),
        cmocka_unit_test(all_kinds_are_drawn),
        cmocka_unit_test(encoded_bytes_draw_the_case_again),
        cmocka_unit_test(what_is_not_drawn_has_no_bytes),
        cmocka_unit_test(a_case_is_the_same_as_text),
        cmocka_unit_test(mistakes_in_text_are_told),
        cmocka_unit_test(a_case_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
