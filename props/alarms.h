/* SPDX-License-Identifier: Apache-2.0 */
/* Bugs planted on purpose, and the laws that must notice each: tests that laws can fail at all. */
#ifndef CPROUTE_PROPS_ALARMS_H
#define CPROUTE_PROPS_ALARMS_H

#include "laws/laws.h"
#include <setjmp.h>
#include <stdarg.h>

/* cmocka wants the two above before it. */
#include <cmocka.h>

enum { LAWS_OF_AN_ALARM = 7 };

typedef struct alarm {
    const char *bug;
    const char *const *noticed_by; /* LAWS_OF_AN_ALARM ids, NULL behind the last */
    const void *engine;            /* of the family, with the bug; until the next one is asked for */
} alarm;

typedef struct alarm_suite {
    const char *name;
    const family *family;
    const void *engine; /* without a bug */
    uint64_t cases_without_alarm;
    size_t alarm_count;
    alarm (*alarm_at)(size_t number);
} alarm_suite;

/* Each bug is noticed by its laws, each law of the family notices one, and none notices a bug where there is none. What main returns. */
int alarm_tests(const alarm_suite *suite);

#endif
