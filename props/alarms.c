/* SPDX-License-Identifier: Apache-2.0 */
#include "alarms.h"

#include <string.h>

static size_t law_number(const alarm_suite *suite, const char *id) {
    size_t number = 0;
    while (number < suite->law_count && strcmp(suite->law_id(number), id) != 0)
        number++;
    assert_true(number < suite->law_count);
    return number;
}

static void bug_is_noticed(void **state) {
    const alarm_test *test = *state;
    const alarm_suite *suite = test->suite;
    const alarm a = suite->alarm_at(test->number);
    for (size_t i = 0; i < LAWS_OF_AN_ALARM && a.noticed_by[i]; i++) {
        const size_t number = law_number(suite, a.noticed_by[i]);
        uint64_t seed = 0;
        verdict v = {.outcome = LAW_PASSED};
        for (; seed < CASES_UNTIL_NOTICED && v.outcome != LAW_FAILED; seed++)
            v = suite->judge(number, test->number, seed);
        if (v.outcome != LAW_FAILED)
            fail_msg("%s: law %s says nothing in %d cases", a.bug, a.noticed_by[i], CASES_UNTIL_NOTICED);
        print_message("%s: law %s after %llu cases: %s (%s)\n", a.bug, a.noticed_by[i],
                      (unsigned long long)seed, v.reason, v.details);
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
    for (size_t number = 0; number < suite->law_count; number++)
        if (!has_alarm(suite, suite->law_id(number)))
            fail_msg("no planted bug shows that law %s can fail", suite->law_id(number));
}

static void no_false_alarm(void **state) {
    const alarm_suite *suite = ((const alarm_test *)*state)->suite;
    for (size_t number = 0; number < suite->law_count; number++)
        for (uint64_t seed = 0; seed < suite->cases_without_alarm; seed++) {
            const verdict v = suite->judge(number, NO_ALARM, seed);
            if (v.outcome == LAW_FAILED)
                fail_msg("law %s, seed %llu: %s (%s)", suite->law_id(number), (unsigned long long)seed,
                         v.reason, v.details);
        }
}

void alarm_tests(const alarm_suite *suite, struct CMUnitTest *tests, alarm_test *states) {
    const size_t count = suite->alarm_count;
    for (size_t i = 0; i < count + TESTS_BESIDE_ALARMS; i++) {
        states[i] = (alarm_test){suite, i};
        tests[i] = (struct CMUnitTest){.test_func = bug_is_noticed, .initial_state = &states[i]};
        tests[i].name = i < count ? suite->alarm_at(i).bug : NULL;
    }
    tests[count].name = "every_law_has_an_alarm";
    tests[count].test_func = every_law_has_an_alarm;
    tests[count + 1].name = "no_false_alarm";
    tests[count + 1].test_func = no_false_alarm;
}
