/* SPDX-License-Identifier: Apache-2.0 */
/* Every hole that is known of published keys is found, soon, with a script of a few lines; this library's guards have those that
 * are documented; and docs/cache-guards.md says what was found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "guards/guard.h"
#include <stdlib.h>
#include <string.h>

enum { SCRIPTS_UNTIL_FOUND = 20000, SECONDS_UNTIL_FOUND = 10, SAFE_SCRIPTS = 5000 };

static const struct hole {
    const char *name, *guard, *mutation;
    int64_t most_ops; /* of the shrunk script */
} holes[] = {
    {"refill in place", "attribute", "refilled in place", 4},
    {"refill in place, with a header", "attribute, header", "refilled in place", 4},
    {"replaced tensor", "attribute", "another tensor in the same parameters", 4},
    {"copied parameters", "attribute", "parameters copied, then another tensor", 5},
    {"group swap", "attribute", "group of another size", 3},
    {"a rank's route of equal length", "attribute", "another rank, as many rows", 3},
    {"reversed direction", "attribute, header", "the other direction", 3},
    {"address reuse", "data_ptr, offset, shape, version", "freed; address and id used again", 5},
    {"id reuse", "id, version", "freed; address and id used again", 5},
    {"stride", "data_ptr, offset, shape, version", "view with another stride", 4},
    {"dtype", "data_ptr, offset, shape, version", "view as another dtype", 4},
    {"storage swap", "held identity, version", "same object, other storage", 4},
    {".data write", "data_ptr, offset, shape, version", "written below the counter (`.data`, numpy, kernels)",
     4},
    {".data write, identity held", "held identity, version",
     "written below the counter (`.data`, numpy, kernels)", 4},
    {"counter of 32 bits", "held identity, version", "a 32-bit counter wraps", 5},
    {"validation only on miss", "held identity, version", "another number of rows", 3},
    {"unbounded growth", "data_ptr, offset, shape, version", "a new tensor every time: growth", 6},
    {"our version guard is blind to writes below the counter", "cproute version",
     "written below the counter (`.data`, numpy, kernels)", 4},
    {"our version guard trusts the counter", "cproute version", "a counter is set back by hand", 5},
};
enum { HOLES = sizeof holes / sizeof *holes };

static const guard *guard_named(const char *name) {
    for (size_t i = 0; i < guard_count; i++)
        if (!strcmp(guards[i].name, name))
            return &guards[i];
    fail_msg("there is no guard %s", name);
    return NULL;
}

static const mutation *mutation_named(const char *name) {
    for (size_t i = 0; i < mutation_count; i++)
        if (!strcmp(mutations[i].name, name))
            return &mutations[i];
    fail_msg("there is no mutation %s", name);
    return NULL;
}

static void hole_is_found(void **state) {
    const struct hole *h = *state;
    guard_finding *found = calloc(1, sizeof *found);
    assert_non_null(found);
    guard_search(guard_named(h->guard), mutation_named(h->mutation), SCRIPTS_UNTIL_FOUND, found);
    const guard_finding seen = {.stale = found->stale, .scripts = found->scripts, .seconds = found->seconds};
    const int64_t ops = found->script.op_count;
    if (found->stale)
        cache_family.show(stdout, &found->script, false);
    free(found);
    print_message("%s: after %llu scripts, %.3f s, %lld operations\n", h->name,
                  (unsigned long long)seen.scripts, seen.seconds, (long long)ops);
    assert_true(seen.stale);
    assert_true(seen.seconds < (double)SECONDS_UNTIL_FOUND);
    assert_true(ops <= h->most_ops);
}

static bool is_documented(const guard *g, const mutation *m) {
    for (size_t i = 0; i < HOLES; i++)
        if (!strcmp(holes[i].guard, g->name) && !strcmp(holes[i].mutation, m->name))
            return true;
    return false;
}

static void ours_have_no_other_hole(void **state) {
    (void)state;
    guard_finding *found = calloc(1, sizeof *found);
    assert_non_null(found);
    for (size_t g = 0; g < guard_count; g++)
        for (size_t m = 0; m < mutation_count && guards[g].ours; m++) {
            if (is_documented(&guards[g], &mutations[m]))
                continue;
            guard_search(&guards[g], &mutations[m], SAFE_SCRIPTS, found);
            if (found->stale)
                fail_msg("%s, %s: %s", guards[g].name, mutations[m].name, found->verdict.reason);
        }
    free(found);
}

static char *read_stream(FILE *file) {
    enum { MOST = 1 << 20 };
    char *text = calloc(1, MOST);
    assert_non_null(text);
    rewind(file);
    const size_t length = fread(text, 1, MOST - 1, file);
    text[length] = '\0';
    return text;
}

static void table_is_current(void **state) {
    (void)state;
    FILE *kept = fopen(GUARDS_TABLE, "r"), *made = tmpfile();
    assert_non_null(kept);
    assert_non_null(made);
    assert_true(guards_write(made, GUARD_SCRIPTS));
    char *kept_text = read_stream(kept), *made_text = read_stream(made);
    const bool same = !strcmp(kept_text, made_text);
    free(kept_text);
    free(made_text);
    fclose(kept);
    fclose(made);
    if (!same)
        fail_msg("%s is out of date: make cache-guards", GUARDS_TABLE);
}

int main(void) {
    struct CMUnitTest tests[HOLES + 2] = {
        cmocka_unit_test(ours_have_no_other_hole),
        cmocka_unit_test(table_is_current),
    };
    for (size_t i = 0; i < HOLES; i++)
        tests[i + 2] = (struct CMUnitTest){
            .name = holes[i].name, .test_func = hole_is_found, .initial_state = (void *)(uintptr_t)&holes[i]};
    return cmocka_run_group_tests_name("cache guards", tests, NULL, NULL);
}
