/* SPDX-License-Identifier: Apache-2.0 */
/* Caches with a bug planted on purpose: the laws that are there for it must notice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "laws/laws.h"
#include <string.h>

enum { CASES_UNTIL_NOTICED = 20000, CASES_WITHOUT_ALARM = 2000, LAWS_OF_AN_ALARM = 3 };

/*==============================================================================
 * MARK: - Bugs
 *============================================================================*/

static void tell_nothing(cpr_cache *cache, uint64_t handle) {
    (void)cache;
    (void)handle;
}

static void clear_nothing(cpr_cache *cache) {
    (void)cache;
}

static cpr_status limit_nothing(cpr_cache *cache, int64_t max_entries, int64_t max_bytes, cpr_error *error) {
    (void)cache;
    (void)max_entries;
    (void)max_bytes;
    (void)error;
    return CPR_OK;
}

static cpr_status get_whatever_generation(cpr_cache *cache, const cpr_lookup *lookup, const cpr_route **route,
                                          bool *hit, cpr_error *error) {
    cpr_lookup wrong = *lookup;
    wrong.tensor.generation = 0;
    return cpr_cache_get(cache, &wrong, route, hit, error);
}

static cpr_status get_whatever_stride(cpr_cache *cache, const cpr_lookup *lookup, const cpr_route **route,
                                      bool *hit, cpr_error *error) {
    cpr_lookup wrong = *lookup;
    wrong.tensor.stride = 1;
    wrong.tensor.handle = wrong.tensor.storage; /* identity by address */
    return cpr_cache_get(cache, &wrong, route, hit, error);
}

static cpr_status get_whatever_rank(cpr_cache *cache, const cpr_lookup *lookup, const cpr_route **route,
                                    bool *hit, cpr_error *error) {
    cpr_lookup wrong = *lookup;
    if (wrong.geometry.cp_rank == 1)
        wrong.geometry.cp_rank = 0;
    return cpr_cache_get(cache, &wrong, route, hit, error);
}

static cpr_status get_whatever_rows(cpr_cache *cache, const cpr_lookup *lookup, const cpr_route **route,
                                    bool *hit, cpr_error *error) {
    cpr_lookup wrong = *lookup;
    wrong.rows = CPR_ROWS_UNCHECKED;
    return cpr_cache_get(cache, &wrong, route, hit, error);
}

static cpr_status get_eagerly(cpr_cache *cache, const cpr_lookup *lookup, const cpr_route **route, bool *hit,
                              cpr_error *error) {
    cpr_lookup wrong = *lookup;
    wrong.use = CPR_USE_EAGER;
    return cpr_cache_get(cache, &wrong, route, hit, error);
}

static cpr_status get_anew(cpr_cache *cache, const cpr_lookup *lookup, const cpr_route **route, bool *hit,
                           cpr_error *error) {
    cpr_cache_invalidate(cache, lookup->tensor.handle);
    return cpr_cache_get(cache, lookup, route, hit, error);
}

static cpr_status get_and_lose_memory(cpr_cache *cache, const cpr_lookup *lookup, const cpr_route **route,
                                      bool *hit, cpr_error *error) {
    const cpr_status status = cpr_cache_get(cache, lookup, route, hit, error);
    if (status == CPR_NO_MEMORY)
        cpr_cache_clear(cache);
    return status;
}

static cpr_status resolve_without_kv(cpr_cache *cache, const cpr_packed_params *params, int64_t rows,
                                     int64_t cp_size, cpr_layout layout, cpr_guard guard,
                                     cpr_tensor *resolved, bool *hit, cpr_error *error) {
    cpr_packed_params wrong = *params;
    wrong.has_kv = wrong.has_kv_padded = false;
    return cpr_cache_resolve(cache, &wrong, rows, cp_size, layout, guard, resolved, hit, error);
}

static cpr_status resolve_plain_first(cpr_cache *cache, const cpr_packed_params *params, int64_t rows,
                                      int64_t cp_size, cpr_layout layout, cpr_guard guard,
                                      cpr_tensor *resolved, bool *hit, cpr_error *error) {
    cpr_packed_params wrong = *params;
    wrong.has_q_padded = wrong.has_q_padded && !wrong.has_q;
    return cpr_cache_resolve(cache, &wrong, rows, cp_size, layout, guard, resolved, hit, error);
}

static const struct alarm {
    const char *bug;
    cache_engine engine; /* NULL: as the library */
    const char *noticed_by[LAWS_OF_AN_ALARM];
} alarms[] = {
    {"invalidate does nothing", {.invalidate = tell_nothing}, {"cache_never_stale"}},
    {"a tensor that dies is not told",
     {.tensor_freed = tell_nothing},
     {"cache_never_stale", "cache_bounded"}},
    {"generations do not matter", {.get = get_whatever_generation}, {"cache_never_stale", "cache_threads"}},
    {"strides do not matter, and addresses are identities",
     {.get = get_whatever_stride},
     {"cache_never_stale"}},
    {"ranks do not matter", {.get = get_whatever_rank}, {"cache_never_stale", "cache_threads"}},
    {"rows are not checked", {.get = get_whatever_rows}, {"cache_never_stale"}},
    {"replays are lookups", {.get = get_eagerly}, {"cache_capture"}},
    {"captures are not released", {.capture_released = tell_nothing}, {"cache_no_needless_build"}},
    {"clear does nothing", {.clear = clear_nothing}, {"cache_no_needless_build"}},
    {"every lookup builds", {.get = get_anew}, {"cache_no_needless_build"}},
    {"bounds do not change", {.set_limits = limit_nothing}, {"cache_bounded"}},
    {"running out of memory clears", {.get = get_and_lose_memory}, {"cache_no_memory"}},
    {"kv is not looked at", {.resolve = resolve_without_kv}, {"cache_resolve"}},
    {"plain goes before padded", {.resolve = resolve_plain_first}, {"cache_resolve"}},
};
enum { ALARM_COUNT = sizeof alarms / sizeof *alarms };

static cache_engine plant(const struct alarm *a) {
    cache_engine engine = the_cache_engine;
#define PLANT(function)                                                                                      \
    if (a->engine.function)                                                                                  \
    engine.function = a->engine.function
    PLANT(get);
    PLANT(resolve);
    PLANT(invalidate);
    PLANT(tensor_freed);
    PLANT(capture_released);
    PLANT(clear);
    PLANT(set_limits);
#undef PLANT
    return engine;
}

/*==============================================================================
 * MARK: - Tests
 *============================================================================*/

static const struct {
    const char *id;
    void (*judge)(const cache_case *c, const cache_engine *engine, verdict *v);
} judges[] = {
#define OF_route(id)
#define OF_cache(id)             {#id, judge_##id},
#define LAW(id, family, meaning) OF_##family(id)
#include "laws/laws.def"
#undef LAW
};
enum { LAW_COUNT = sizeof judges / sizeof *judges };

static verdict judge_case(size_t number, const cache_engine *engine, uint64_t seed) {
    static cache_case c;
    verdict v = {.outcome = LAW_PASSED};
    choices from = choices_from_seed(seed, NULL);
    cache_case_draw(&from, CACHE_ALPHABET_DRAWN, &c);
    judges[number].judge(&c, engine, &v);
    return v;
}

static size_t law_index(const char *id) {
    size_t number = 0;
    while (number < LAW_COUNT && strcmp(judges[number].id, id) != 0)
        number++;
    assert_true(number < LAW_COUNT);
    return number;
}

static void bug_is_noticed(void **state) {
    const struct alarm *a = *state;
    const cache_engine engine = plant(a);
    for (size_t i = 0; i < LAWS_OF_AN_ALARM && a->noticed_by[i]; i++) {
        const size_t number = law_index(a->noticed_by[i]);
        uint64_t seed = 0;
        verdict v = {.outcome = LAW_PASSED};
        for (; seed < CASES_UNTIL_NOTICED && v.outcome != LAW_FAILED; seed++)
            v = judge_case(number, &engine, seed);
        if (v.outcome != LAW_FAILED)
            fail_msg("%s: law %s says nothing in %d cases", a->bug, a->noticed_by[i], CASES_UNTIL_NOTICED);
        print_message("%s: law %s after %llu cases: %s (%s)\n", a->bug, a->noticed_by[i],
                      (unsigned long long)seed, v.reason, v.details);
    }
}

static void every_law_has_an_alarm(void **state) {
    (void)state;
    for (size_t number = 0; number < LAW_COUNT; number++) {
        bool found = false;
        for (size_t a = 0; a < ALARM_COUNT; a++)
            for (size_t i = 0; i < LAWS_OF_AN_ALARM && alarms[a].noticed_by[i]; i++)
                found |= strcmp(alarms[a].noticed_by[i], judges[number].id) == 0;
        if (!found)
            fail_msg("no planted bug shows that law %s can fail", judges[number].id);
    }
}

static void no_false_alarm(void **state) {
    (void)state;
    for (size_t number = 0; number < LAW_COUNT; number++)
        for (uint64_t seed = 0; seed < CASES_WITHOUT_ALARM; seed++) {
            const verdict v = judge_case(number, &the_cache_engine, seed);
            if (v.outcome == LAW_FAILED)
                fail_msg("law %s, seed %llu: %s (%s)", judges[number].id, (unsigned long long)seed, v.reason,
                         v.details);
        }
}

int main(void) {
    struct CMUnitTest tests[ALARM_COUNT + 2] = {
        cmocka_unit_test(every_law_has_an_alarm),
        cmocka_unit_test(no_false_alarm),
    };
    for (size_t i = 0; i < ALARM_COUNT; i++)
        tests[i + 2] = (struct CMUnitTest){.name = alarms[i].bug,
                                           .test_func = bug_is_noticed,
                                           .initial_state = (void *)(uintptr_t)&alarms[i]};
    return cmocka_run_group_tests_name("cache alarms", tests, NULL, NULL);
}
