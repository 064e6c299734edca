/* SPDX-License-Identifier: Apache-2.0 */
/* Caches with a bug planted on purpose: the laws that are there for it must notice. */
#include "alarms.h"

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

static cpr_status get_of_the_next_identity(cpr_cache *cache, const cpr_lookup *lookup,
                                           const cpr_route **route, bool *hit, cpr_error *error) {
    cpr_lookup wrong = *lookup;
    wrong.tensor.handle++;
    return cpr_cache_get(cache, &wrong, route, hit, error);
}

static cpr_status get_and_tell(cpr_cache *cache, const cpr_lookup *lookup, const cpr_route **route, bool *hit,
                               cpr_error *error) {
    *hit = false;
    return cpr_cache_get(cache, lookup, route, hit, error);
}

static cpr_status resolve_and_tell(cpr_cache *cache, const cpr_packed_params *params, int64_t rows,
                                   int64_t cp_size, cpr_layout layout, cpr_guard guard, cpr_tensor *resolved,
                                   bool *hit, cpr_error *error) {
    *hit = false;
    return cpr_cache_resolve(cache, params, rows, cp_size, layout, guard, resolved, hit, error);
}

static cpr_status resolve_unjudged(cpr_cache *cache, const cpr_packed_params *params, int64_t rows,
                                   int64_t cp_size, cpr_layout layout, cpr_guard guard, cpr_tensor *resolved,
                                   bool *hit, cpr_error *error) {
    *resolved = params->q;
    return cpr_cache_resolve(cache, params, rows, cp_size, layout, guard, resolved, hit, error);
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

static const struct planted {
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
    {"another identity is trusted", {.get = get_of_the_next_identity}, {"cache_bounded"}},
    {"a lookup that fails says that it missed",
     {.get = get_and_tell},
     {"cache_never_stale", "cache_no_memory"}},
    {"a resolution that fails says that it missed", {.resolve = resolve_and_tell}, {"cache_resolve"}},
    {"a resolution that fails hands out a tensor", {.resolve = resolve_unjudged}, {"cache_resolve"}},
    {"replays are lookups", {.get = get_eagerly}, {"cache_capture"}},
    {"captures are not released", {.capture_released = tell_nothing}, {"cache_no_needless_build"}},
    {"clear does nothing", {.clear = clear_nothing}, {"cache_no_needless_build"}},
    {"every lookup builds", {.get = get_anew}, {"cache_no_needless_build"}},
    {"bounds do not change", {.set_limits = limit_nothing}, {"cache_bounded"}},
    {"running out of memory clears", {.get = get_and_lose_memory}, {"cache_no_memory"}},
    {"kv is not looked at", {.resolve = resolve_without_kv}, {"cache_resolve"}},
    {"plain goes before padded", {.resolve = resolve_plain_first}, {"cache_resolve"}},
};

static const cache_engine *plant(const struct planted *a) {
    static cache_engine engine;
    engine = the_cache_engine;
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
    return &engine;
}

static alarm alarm_at(size_t number) {
    const struct planted *a = &alarms[number];
    return (alarm){a->bug, a->noticed_by, plant(a)};
}

int main(void) {
    return alarm_tests(&(alarm_suite){.name = "cache alarms",
                                      .family = &cache_family,
                                      .engine = &the_cache_engine,
                                      .cases_without_alarm = 2000,
                                      .alarm_count = sizeof alarms / sizeof *alarms,
                                      .alarm_at = alarm_at});
}
