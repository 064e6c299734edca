/* SPDX-License-Identifier: Apache-2.0 */
/* Every law on every case up to a bound, and the number of cases that this was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/runner.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* For laws that build the routes of all ranks many times over for one case. */
static const case_bounds THREE_SLOTS = {.max_cp_size = 5, .max_sequences = 3, .max_multiple = 3};

/* For laws that run the threads of kernels one by one. */
static const case_bounds TWO_SLOTS = {.max_cp_size = 5, .max_sequences = 2, .max_multiple = 3};

/* Bounds of a law: CASE_BOUNDS_EXHAUSTIVE where nothing else is said. */
static const struct {
    const char *law;
    const case_bounds *legal, *wrong;
} bounds_of_laws[] = {
    {"equivalence", &CASE_BOUNDS_EXHAUSTIVE, &CASE_BOUNDS_CORRUPTED},
    {"all_ranks", &THREE_SLOTS, NULL},
    {"errors", NULL, &CASE_BOUNDS_CORRUPTED},
    {"round_trip", &THREE_SLOTS, NULL},
    {"views", &THREE_SLOTS, NULL},
    {"no_memory", &THREE_SLOTS, NULL},
    {"determinism", &THREE_SLOTS, NULL},
    {"validation", &THREE_SLOTS, NULL},
    {"dump", &THREE_SLOTS, NULL},
    {"flat_tensor", &THREE_SLOTS, NULL},
    {"two_view", &THREE_SLOTS, NULL},
    {"fused", &THREE_SLOTS, NULL},
    {"chunks", &THREE_SLOTS, NULL},
    {"padded", &THREE_SLOTS, NULL},
    {"real_rows", &THREE_SLOTS, NULL},
    {"digest", &THREE_SLOTS, NULL},
    {"device_moves", &TWO_SLOTS, NULL},
    {"direct", &TWO_SLOTS, NULL},
};

typedef struct exhaustion {
    const law *l;
    const case_bounds *bounds;
    char name[64];
} exhaustion;

enum { MOST_RUNS = 128 };

static void law_holds_exhaustively(void **state) {
    const exhaustion *e = *state;
    const run_options options = {.exhaustive = e->bounds};
    const run_report report = run_law(e->l, &options);
    printf("# exhaustive: %" PRIu64 " cases, %" PRIu64 " not applicable, P to %" PRId64
           ", every rank, every pair of "
           "layouts, %" PRId64 " slots of 0 to %" PRId64 " times 2P tokens%s\n",
           report.cases, report.not_applicable, e->bounds->max_cp_size, e->bounds->max_sequences,
           e->bounds->max_multiple, e->bounds->corruptions ? ", one or two things wrong" : "");
    if (report.failed)
        run_report_show(stdout, e->l, &report, false);
    assert_false(report.failed);
    assert_true(report.cases > report.not_applicable);
}

static size_t add_run(exhaustion *runs, size_t count, const law *l, const case_bounds *bounds) {
    if (!bounds || count == MOST_RUNS)
        return count;
    runs[count].l = l;
    runs[count].bounds = bounds;
    snprintf(runs[count].name, sizeof runs[count].name, "%s, %s", l->id,
             bounds->corruptions ? "wrong" : "legal");
    return count + 1;
}

static size_t add_law(exhaustion *runs, size_t count, const law *l) {
    for (size_t i = 0; i < sizeof bounds_of_laws / sizeof *bounds_of_laws; i++) {
        if (strcmp(bounds_of_laws[i].law, l->id) == 0) {
            count = add_run(runs, count, l, bounds_of_laws[i].legal);
            return add_run(runs, count, l, bounds_of_laws[i].wrong);
        }
    }
    return add_run(runs, count, l, &CASE_BOUNDS_EXHAUSTIVE);
}

int main(void) {
    exhaustion runs[MOST_RUNS];
    struct CMUnitTest tests[MOST_RUNS];
    size_t count = 0;
    for (size_t i = 0; i < law_count; i++) {
        if (laws[i].family == &route_family)
            count = add_law(runs, count, &laws[i]);
    }
    for (size_t i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){
            .name = runs[i].name, .test_func = law_holds_exhaustively, .initial_state = &runs[i]};
    return _cmocka_run_group_tests("laws, exhaustively", tests, count, NULL, NULL);
}
