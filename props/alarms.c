/* SPDX-License-Identifier: Apache-2.0 */
#include "alarms.h"
#include <stdlib.h>
#include <string.h>

enum { CASES_UNTIL_NOTICED = 20000, TESTS_BESIDE_ALARMS = 2 };

typedef struct alarm_test {
    const alarm_suite *suite;
    size_t number;
    void *drawn; /* room for a case */
} alarm_test;

#define LAW(id, family, meaning)                                                                             \
    static void call_##id(const void *c, const void *engine, verdict *v) {                                   \
        judge_##id(c, engine, v);                                                                            \
    }
#include "laws/laws.def"
#undef LAW

/* In the order of laws[]. */
static void (*const judges[])(const void *c, const void *engine, verdict *v) = {
#define LAW(id, family, meaning) call_##id,
#include "laws/laws.def"
#undef LAW
};

static verdict judge(const alarm_test *test, size_t law_number, const void *engine, uint64_t seed) {
    verdict v = {.outcome = LAW_PASSED};
    choices from = choices_from_seed(seed, NULL);
    test->suite->family->draw(&from, test->drawn);
    judges[law_number](test->drawn, engine, &v);
    return v;
}

static void bug_is_noticed(void **state) {
    const alarm_test *test = *state;
    const alarm a = test->suite->alarm_at(test->number);
    for (size_t i = 0; i < LAWS_OF_AN_ALARM && a.noticed_by[i]; i++) {
        const law *l = law_named(a.noticed_by[i]);
        assert_true(l && l->family == test->suite->family);
        uint64_t seed = 0;
        verdict v = {.outcome = LAW_PASSED};
        for (; seed < CASES_UNTIL_NOTICED && v.outcome != LAW_FAILED; seed++)
            v = judge(test, (size_t)(l - laws), a.engine, seed);
        if (v.outcome != LAW_FAILED)
            fail_msg("%s: law %s says nothing in %d cases", a.bug, l->id, CASES_UNTIL_NOTICED);
        print_message("%s: law %s after %llu cases: %s (%s)\n", a.bug, l->id, (unsigned long long)seed,
                      v.reason, v.details);
    }
}

static bool has_alarm(const alarm_suite *suite, const char *id) {
    for (size_t number = 0; number < suite->alarm_count; number++) {
        const alarm a = suite->alarm_at(number);
        for (size_t i = 0; i < LAWS_OF_AN_ALARM && a.noticed_by[i]; i++)
            if (!strcmp(a.noticed_by[i], id))
                return true;
    }
    return false;
}

static void every_law_has_an_alarm(void **state) {
    const alarm_suite *suite = ((const alarm_test *)*state)->suite;
    for (const law *l = laws; l < laws + law_count; l++)
        if (l->family == suite->family && !has_alarm(suite, l->id))
            fail_msg("no planted bug shows that law %s can fail", l->id);
}

static void no_false_alarm(void **state) {
    const alarm_test *test = *state;
    const alarm_suite *suite = test->suite;
    for (size_t number = 0; number < law_count; number++)
        for (uint64_t seed = 0; laws[number].family == suite->family && seed < suite->cases_without_alarm;
             seed++) {
            const verdict v = judge(test, number, suite->engine, seed);
            if (v.outcome == LAW_FAILED)
                fail_msg("law %s, seed %llu: %s (%s)", laws[number].id, (unsigned long long)seed, v.reason,
                         v.details);
        }
}

int alarm_tests(const alarm_suite *suite) {
    const size_t alarms = suite->alarm_count, count = alarms + TESTS_BESIDE_ALARMS;
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    alarm_test *states = calloc(count, sizeof *states);
    void *drawn = calloc(1, suite->family->size);
    int failed = 1;
    if (tests && states && drawn) {
        for (size_t i = 0; i < count; i++) {
            states[i] = (alarm_test){suite, i, drawn};
            tests[i] = (struct CMUnitTest){.test_func = bug_is_noticed, .initial_state = &states[i]};
            tests[i].name = i < alarms ? suite->alarm_at(i).bug : NULL;
        }
        tests[alarms].name = "every_law_has_an_alarm";
        tests[alarms].test_func = every_law_has_an_alarm;
        tests[alarms + 1].name = "no_false_alarm";
        tests[alarms + 1].test_func = no_false_alarm;
        failed = _cmocka_run_group_tests(suite->name, tests, count, NULL, NULL);
    }
    free(drawn);
    free(states);
    free(tests);
    return failed;
}
