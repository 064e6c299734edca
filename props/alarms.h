/* SPDX-License-Identifier: Apache-2.0 */
/* Bugs planted on purpose, and the laws that must notice each: tests that laws can fail at all. */
#ifndef CPROUTE_PROPS_ALARMS_H
#define CPROUTE_PROPS_ALARMS_H

#include "kit/law.h"
#include <setjmp.h>
#include <stdarg.h>

/* cmocka wants the two above before it. */
#include <cmocka.h>

enum { CASES_UNTIL_NOTICED = 20000, LAWS_OF_AN_ALARM = 7, TESTS_BESIDE_ALARMS = 2 };
static const size_t NO_ALARM = SIZE_MAX;

typedef struct alarm {
    const char *bug;
    const char *const *noticed_by; /* LAWS_OF_AN_ALARM ids, NULL behind the last */
} alarm;

typedef struct alarm_suite {
    size_t law_count, alarm_count;
    uint64_t cases_without_alarm;
    const char *(*law_id)(size_t number);
    alarm (*alarm_at)(size_t number);
    /* Judges the case drawn from the seed, with that bug planted or, for NO_ALARM, none. */
    verdict (*judge)(size_t law_number, size_t alarm_number, uint64_t seed);
} alarm_suite;

typedef struct alarm_test {
    const alarm_suite *suite;
    size_t number;
} alarm_test;

/* Fills one test for every alarm and TESTS_BESIDE_ALARMS more; `states` is as long and outlives them. */
void alarm_tests(const alarm_suite *suite, struct CMUnitTest *tests, alarm_test *states);

#endif
