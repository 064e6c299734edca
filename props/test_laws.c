/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every law on random cases: those of a fixed seed, and those of a new one that is printed. CPR_SEED=N asks for the cases of
 * one seed again, CPR_CASES=N for more or fewer of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/runner.h"
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum { CASES = 20000, FIXED_SEED = 1, MOST_LAWS = 64 };
static const double SECONDS = 0.2;

static uint64_t number_from_environment(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static void law_holds(const law *l, uint64_t seed, uint64_t cases) {
    const run_options options = {.seed = seed, .cases = cases, .seconds = getenv("CPR_CASES") ? 0 : SECONDS};
    const run_report report = run_law(l, &options);
    printf("# %s: %" PRIu64 " cases of seed %" PRIu64 ", %" PRIu64 " not applicable\n", l->id, report.cases,
           seed, report.not_applicable);
    if (report.failed) {
        run_report_show(stdout, l, &report, false);
        fail_msg("%s: CPR_SEED=%" PRIu64 " shows it again", l->id, seed);
    }
    assert_true(report.cases > report.not_applicable);
}

static void law_holds_on_random_cases(void **state) {
    const law *l = *state;
    const uint64_t cases = number_from_environment("CPR_CASES", CASES);
    if (!getenv("CPR_SEED"))
        law_holds(l, FIXED_SEED, cases);
    law_holds(l, number_from_environment("CPR_SEED", (uint64_t)time(NULL)), cases);
}

int main(void) {
    struct CMUnitTest tests[MOST_LAWS] = {{NULL, NULL, NULL, NULL, NULL}};
    for (size_t i = 0; i < law_count && i < MOST_LAWS; i++)
        tests[i] = (struct CMUnitTest){.name = laws[i].id,
                                       .test_func = law_holds_on_random_cases,
                                       .initial_state = (void *)(uintptr_t)&laws[i]};
    return _cmocka_run_group_tests("laws, random cases", tests, law_count < MOST_LAWS ? law_count : MOST_LAWS,
                                   NULL, NULL);
}
