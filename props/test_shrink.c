/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The quality of the shrinker: failures planted in laws of our own, whose smallest case is known, must shrink to it from
 * wherever they start.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/shrink.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STARTS = 25, STARTS_APART = 3, SEEDS_TRIED = 200000, MOST_ATTEMPTS = 20000, TIMEOUT_S = 1 };

/*==============================================================================
 * MARK: - Planted failures
 *============================================================================*/

typedef bool predicate(const route_case *c);

static int64_t length_of(const route_case *c, int64_t sequence) {
    return c->cu[sequence + 1] - c->cu[sequence];
}

static int64_t sequences_filled(const route_case *c) {
    int64_t filled = 0;
    for (int64_t i = 0; i + 1 < c->entries; i++)
        filled += length_of(c, i) > 0;
    return filled;
}

static bool legal(const route_case *c) {
    return c->expected.status == CPR_OK;
}

static bool anything(const route_case *c) {
    (void)c;
    return true;
}

static bool three_ranks_unequal_lengths(const route_case *c) {
    if (!legal(c) || c->geometry.cp_size != 3)
        return false;
    for (int64_t i = 0; i + 1 < c->entries; i++) {
        for (int64_t j = 0; j < i; j++) {
            if (length_of(c, i) > 0 && length_of(c, j) > 0 && length_of(c, i) != length_of(c, j))
                return true;
        }
    }
    return false;
}

static bool empty_between_filled(const route_case *c) {
    if (!legal(c))
        return false;
    for (int64_t i = 1; i + 2 < c->entries; i++) {
        if (length_of(c, i - 1) > 0 && length_of(c, i) == 0 && length_of(c, i + 1) > 0)
            return true;
    }
    return false;
}

static bool twenty_tokens(const route_case *c) {
    return legal(c) && route_case_tokens(c) >= 20;
}

static bool hundred_tokens(const route_case *c) {
    return legal(c) && route_case_tokens(c) >= 100;
}

static bool five_filled(const route_case *c) {
    return legal(c) && sequences_filled(c) >= 5;
}

static bool third_rank_heads_then_tails(const route_case *c) {
    return legal(c) && c->geometry.cp_rank == 2 && c->target == CPR_HEADS_THEN_TAILS &&
           route_case_tokens(c) > 0;
}

static bool between_unusual_layouts(const route_case *c) {
    return c->source == CPR_FLAT_ZIGZAG && c->target == CPR_PER_SEQUENCE_CONTIGUOUS &&
           c->geometry.cp_size > 4;
}

static bool wide_and_backwards(const route_case *c) {
    return legal(c) && c->stride == -1 && c->dtype == CPR_INT64 && c->entries >= 3;
}

static bool salt_from_1000(const route_case *c) {
    return c->salt >= 1000;
}

static bool decreasing_behind_filled(const route_case *c) {
    return c->expected.status == CPR_DECREASING && c->expected.index >= 2 && c->cu[1] > 0;
}

static bool ragged_third_sequence(const route_case *c) {
    return c->expected.status == CPR_NOT_DIVISIBLE_2CP && c->expected.index == 2;
}

static bool rows_and_tp_wrong(const route_case *c) {
    return c->expected.status == CPR_TOTAL_MISMATCH && c->tp_size < 0;
}

static bool lengths_repeat(const route_case *c) {
    return legal(c) && c->entries >= 3 && length_of(c, 0) > 12 && length_of(c, 0) == length_of(c, 1);
}

static bool longest_comes_last(const route_case *c) {
    if (!legal(c) || sequences_filled(c) < 3)
        return false;
    for (int64_t i = 0; i + 2 < c->entries; i++) {
        if (length_of(c, i) >= length_of(c, c->entries - 2))
            return false;
    }
    return true;
}

static const char PLANTED[] = "planted";

#define PLANT(name)                                                                                          \
    static void judge_##name(const void *subject, verdict *v) {                                              \
        if (name(subject))                                                                                   \
            law_fail(v, PLANTED, "as planned");                                                              \
    }
PLANT(anything)
PLANT(three_ranks_unequal_lengths)
PLANT(empty_between_filled)
PLANT(twenty_tokens)
PLANT(hundred_tokens)
PLANT(five_filled)
PLANT(third_rank_heads_then_tails)
PLANT(between_unusual_layouts)
PLANT(wide_and_backwards)
PLANT(salt_from_1000)
PLANT(decreasing_behind_filled)
PLANT(ragged_third_sequence)
PLANT(rows_and_tp_wrong)
PLANT(lengths_repeat)
PLANT(longest_comes_last)

/* Laws that do not come back. */
static void judge_crash(const void *subject, verdict *v) {
    const route_case *c = subject;
    if (c->geometry.cp_size >= 3 && sequences_filled(c) >= 2)
        abort();
    (void)v;
}

static void judge_hang(const void *subject, verdict *v) {
    const route_case *c = subject;
    volatile bool forever = c->geometry.cp_rank == 1 && c->entries >= 2;
    while (forever) {
    }
    (void)v;
}

/*==============================================================================
 * MARK: - The smallest cases
 *============================================================================*/

/* Fields of a case's bytes: cp_size - 1, rank, source, target, dtype, stride, rows checked, tp, salt in two bytes, two
 * corruptions of kind, where and amount, then records of more, multiple, ragged and a 0. */
enum { HEADER_BYTES = 16, OPTIMUM_BYTES = 48 };

typedef struct planted {
    const char *name;
    void (*judge)(const void *subject, verdict *v);
    const char *optimum;
    uint8_t
        slack; /* by how much the first byte that differs may be larger: a valley that is too wide to leave */
} planted;

#define UNDRESSED "\0\0\0\0\0\0"
#define UNHARMED  "\0\0\0\0\0\0"

/* Optima end in a 0 that the literal has: its final NUL. */
static const struct {
    planted planted;
    size_t length;
} plants[] = {
#define PLANTED_LAW(name, bytes, slack) {{#name, judge_##name, bytes, slack}, sizeof(bytes)},
    PLANTED_LAW(anything, "\0\0\0\0" UNDRESSED UNHARMED, 0)
        PLANTED_LAW(three_ranks_unequal_lengths, "\2\0\0\0" UNDRESSED UNHARMED "\1\1\0\1\2\0", 0)
            PLANTED_LAW(empty_between_filled, "\0\0\0\0" UNDRESSED UNHARMED "\1\0\1\1\0\0\1\0\1", 0)
                PLANTED_LAW(twenty_tokens, "\2\0\1\0" UNDRESSED UNHARMED "\1\3\1", 0)
    /* Seven ranks would do, with lengths that share no simple pattern. */
    PLANTED_LAW(hundred_tokens, "\6\0\1\0" UNDRESSED UNHARMED "\1\3\2\1\3\15",
                1) PLANTED_LAW(five_filled, "\0\0\0\0" UNDRESSED UNHARMED "\1\0\1\1\0\1\1\0\1\1\0\1\1\0\1", 0)
        PLANTED_LAW(third_rank_heads_then_tails, "\2\2\0\4" UNDRESSED UNHARMED "\1\1\0", 0)
            PLANTED_LAW(between_unusual_layouts, "\4\0\3\2" UNDRESSED UNHARMED, 0)
                PLANTED_LAW(wide_and_backwards,
                            "\0\0\0\0"
                            "\1\3\0\0\0\0" UNHARMED "\1\0\0\1\0\0",
                            0) PLANTED_LAW(salt_from_1000,
                                           "\0\0\0\0"
                                           "\0\0\0\0\3\350" UNHARMED,
                                           0) PLANTED_LAW(decreasing_behind_filled,
                                                          "\0\0\0\0" UNDRESSED "\34\1\0\0\0\0"
                                                          "\1\0\1\1\0\0",
                                                          0) PLANTED_LAW(ragged_third_sequence,
                                                                         "\1\0\0\0" UNDRESSED "\36\2\0\0\0\0"
                                                                         "\1\0\0\1\0\0\1\0\0",
                                                                         0)
                    PLANTED_LAW(rows_and_tp_wrong, "\0\0\0\0" UNDRESSED "\35\0\0\37\0\5", 0)
    /* The second is lengthened until two ranks can share the tokens. */
    PLANTED_LAW(lengths_repeat, "\1\0\1\0" UNDRESSED UNHARMED "\1\3\1\1\3\0", 0)
        PLANTED_LAW(longest_comes_last, "\0\0\0\0" UNDRESSED UNHARMED "\1\0\1\1\0\1\1\1\0", 0)
#undef PLANTED_LAW
};

static law law_of(const planted *p) {
    return (law){.id = p->name, .meaning = p->name, .family = &route_family, .judge = p->judge};
}

static bool fails_as_planted(const law *l, const uint8_t *bytes, size_t length, void *subject) {
    verdict v;
    law_judge_bytes(l, bytes, length, subject, &v);
    return v.outcome == LAW_FAILED;
}

static bool near_optimum(const planted *p, size_t optimum_length, const uint8_t *bytes, size_t length) {
    size_t same = 0;
    while (same < length && length == optimum_length && bytes[same] == (uint8_t)p->optimum[same])
        same++;
    if (length == optimum_length && (same == length || bytes[same] - (uint8_t)p->optimum[same] <= p->slack))
        return true;
    printf("%s: got", p->name);
    for (size_t i = 0; i < length; i++)
        printf(" %d", bytes[i]);
    printf("\n");
    return false;
}

/* The next seed that draws a failing case; its bytes. */
static size_t draw_failing(const law *l, uint64_t *seed, choice_log *log, void *subject) {
    for (unsigned i = 0; i < SEEDS_TRIED; i++) {
        choices from = choices_from_seed(random_next(seed), log);
        log->length = log->record_count = 0;
        log->full = false;
        l->family->draw(&from, subject);
        if (fails_as_planted(l, log->bytes, log->length, subject))
            return log->length;
    }
    fail_msg("%s: no case of %d fails", l->id, SEEDS_TRIED);
    return 0;
}

static void planted_failures_shrink_to_their_optimum(void **state) {
    (void)state;
    choice_log log;
    route_case *subject = malloc(sizeof *subject);
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        const planted *p = &plants[i].planted;
        const law l = law_of(p);
        uint64_t seed = i;
        size_t most_attempts = 0;
        assert_true(fails_as_planted(&l, (const uint8_t *)p->optimum, plants[i].length, subject));
        for (int start = 0; start < STARTS; start++) {
            size_t length = draw_failing(&l, &seed, &log, subject);
            const shrink_report report = shrink_law(&l, log.bytes, &length, false, TIMEOUT_S, MOST_ATTEMPTS);
            assert_true(near_optimum(p, plants[i].length, log.bytes, length));
            assert_true(report.drawn >= length);
            most_attempts = report.attempts > most_attempts ? report.attempts : most_attempts;
        }
        assert_true(most_attempts < MOST_ATTEMPTS);
        printf("# %s: at most %zu attempts\n", p->name, most_attempts);
    }
    free(subject);
}

static void shrunk_bytes_shrink_no_further(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        const law l = law_of(&plants[i].planted);
        uint8_t bytes[CHOICE_LOG_BYTES];
        size_t length = plants[i].length;
        memcpy(bytes, plants[i].planted.optimum, length);
        const shrink_report report = shrink_law(&l, bytes, &length, false, TIMEOUT_S, MOST_ATTEMPTS);
        assert_int_equal(length, plants[i].length);
        assert_memory_equal(bytes, plants[i].planted.optimum, length);
        assert_int_equal(report.successes, 0);
    }
}

/* Both lengths are those of bytes that are drawn from, so a short input does not shrink to a longer one. */
static void zeros_past_the_end_count(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        const law l = law_of(&plants[i].planted);
        uint8_t bytes[CHOICE_LOG_BYTES];
        size_t length = plants[i].length;
        memcpy(bytes, plants[i].planted.optimum, length);
        while (length > 0 && !bytes[length - 1])
            length--;
        const shrink_report report = shrink_law(&l, bytes, &length, false, TIMEOUT_S, MOST_ATTEMPTS);
        assert_int_equal(length, plants[i].length);
        assert_int_equal(report.drawn, plants[i].length);
    }
}

static void crash_shrinks_apart(void **state) {
    (void)state;
    static const planted crash = {"crash", judge_crash, "\2\0\0\0" UNDRESSED UNHARMED "\1\1\0\1\1\0", 0};
    static const uint8_t starts[STARTS_APART][OPTIMUM_BYTES] = {
        {8, 3, 2, 4, 1, 2, 1, 0, 7, 9, 0, 0, 0, 0, 0, 0, 1, 2, 0, 1, 0, 0, 1, 3, 0, 1, 1, 0, 0},
        {2, 1, 1, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 1, 1, 1, 3, 1, 3, 2, 1, 1, 0, 0},
        {11, 0, 0, 0, 0, 0, 0, 0, 255, 255, 62, 1, 4, 63, 0, 2, 3, 2, 0, 7, 3, 0, 0}};
    const law l = law_of(&crash);
    for (int start = 0; start < STARTS_APART; start++) {
        uint8_t bytes[CHOICE_LOG_BYTES];
        size_t length = OPTIMUM_BYTES;
        memcpy(bytes, starts[start], length);
        const shrink_report report = shrink_law(&l, bytes, &length, true, TIMEOUT_S, MOST_ATTEMPTS);
        assert_true(near_optimum(&crash, HEADER_BYTES + 7, bytes, length));
        printf("# crash: %zu attempts\n", report.attempts);
    }
}

static void hang_shrinks_apart(void **state) {
    (void)state;
    static const planted hang = {"hang", judge_hang, "\1\1\0\0" UNDRESSED UNHARMED "\1\0\0", 0};
    uint8_t bytes[CHOICE_LOG_BYTES] = {1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 1, 0, 0};
    size_t length = HEADER_BYTES + 7;
    const law l = law_of(&hang);
    const shrink_report report = shrink_law(&l, bytes, &length, true, TIMEOUT_S, MOST_ATTEMPTS);
    assert_true(near_optimum(&hang, HEADER_BYTES + 4, bytes, length));
    printf("# hang: %zu attempts\n", report.attempts);
}

/* Fails for 3 and above with one reason, for 2 with another. */
static void judge_two_reasons(const void *subject, verdict *v) {
    const route_case *c = subject;
    if (c->geometry.cp_size > 2)
        law_fail(v, "above two", "%d", (int)c->geometry.cp_size);
    else if (c->geometry.cp_size == 2)
        law_fail(v, "two", "2");
}

static void shrinking_stays_with_the_reason(void **state) {
    (void)state;
    const law l = {.id = "two_reasons", .family = &route_family, .judge = judge_two_reasons};
    uint8_t bytes[CHOICE_LOG_BYTES] = {7, 3};
    size_t length = 2;
    shrink_law(&l, bytes, &length, false, TIMEOUT_S, MOST_ATTEMPTS);
    assert_int_equal(bytes[0], 2);
    assert_int_equal(length, HEADER_BYTES + 1);
}

static void attempts_are_bounded(void **state) {
    (void)state;
    const law l = {.id = "anything", .family = &route_family, .judge = judge_salt_from_1000};
    uint8_t bytes[CHOICE_LOG_BYTES] = {7, 3, 2, 2, 1, 1, 1, 1, 200, 200};
    size_t length = 10;
    assert_true(shrink_law(&l, bytes, &length, false, TIMEOUT_S, 5).attempts <= 5);
    assert_true(fails_as_planted(&l, bytes, length, NULL));
}

static void what_does_not_fail_stays(void **state) {
    (void)state;
    const law l = {.id = "salt", .family = &route_family, .judge = judge_salt_from_1000};
    uint8_t bytes[CHOICE_LOG_BYTES] = {7, 3};
    size_t length = 2;
    assert_int_equal(shrink_law(&l, bytes, &length, false, TIMEOUT_S, MOST_ATTEMPTS).successes, 0);
    assert_int_equal(length, 2);
    assert_int_equal(bytes[0], 7);
}

/* Bytes without records and with 2-byte numbers: nothing about routes. */
static bool sum_above_300(void *context, const uint8_t *bytes, size_t length, choice_log *log) {
    (void)context, (void)log;
    unsigned sum = 0;
    for (size_t i = 0; i < length; i++)
        sum += bytes[i];
    return sum > 300;
}

static void bytes_without_a_log_shrink_too(void **state) {
    (void)state;
    uint8_t bytes[CHOICE_LOG_BYTES];
    size_t length = 100;
    memset(bytes, 77, length);
    shrink(bytes, &length, sum_above_300, NULL, MOST_ATTEMPTS);
    assert_int_equal(length, 2);
    assert_int_equal(bytes[0], 301 - 255);
    assert_int_equal(bytes[1], 255);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_failures_shrink_to_their_optimum),
        cmocka_unit_test(shrunk_bytes_shrink_no_further),
        cmocka_unit_test(zeros_past_the_end_count),
        cmocka_unit_test(crash_shrinks_apart),
        cmocka_unit_test(hang_shrinks_apart),
        cmocka_unit_test(shrinking_stays_with_the_reason),
        cmocka_unit_test(attempts_are_bounded),
        cmocka_unit_test(what_does_not_fail_stays),
        cmocka_unit_test(bytes_without_a_log_shrink_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
