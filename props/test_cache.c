/* SPDX-License-Identifier: Apache-2.0 */
/* The validity cache by example: what scripts cannot say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../engine/cache_key.h"
#include "laws/cache_scenario.h"
#include "laws/ledger.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int32_t PLAIN[] = {0, 4, 16};
static const int32_t PADDED[] = {0, 4, 4, 16, 16};
static const int32_t OTHER[] = {0, 12, 16};

#define VIEW(array) cpr_cu_seqlens_int32(array, (int64_t)(sizeof(array) / sizeof(array)[0]))

static cpr_tensor tensor_of(uint64_t handle, cpr_cu_seqlens view) {
    return (cpr_tensor){
        .handle = handle, .storage = handle, .stride = 1, .has_generation = true, .view = view};
}

static cpr_lookup lookup_of(uint64_t handle, cpr_cu_seqlens view, cpr_guard guard) {
    return (cpr_lookup){
        .tensor = tensor_of(handle, view),
        .rows = CPR_ROWS_UNCHECKED,
        .geometry = {.cp_size = 2, .cp_rank = 0},
        .source = CPR_ZIGZAG,
        .target = CPR_CONTIGUOUS,
        .guard = guard,
    };
}

static cpr_cache *cache_of(int64_t max_entries, const cpr_allocator *allocator) {
    const cpr_cache_options options = {.max_entries = max_entries};
    cpr_cache *cache = NULL;
    assert_int_equal(cpr_cache_create(&options, allocator, &cache, NULL), CPR_OK);
    return cache;
}

static bool get(cpr_cache *cache, const cpr_lookup *lookup) {
    const cpr_route *route;
    bool hit;
    assert_int_equal(cpr_cache_get(cache, lookup, &route, &hit, NULL), CPR_OK);
    cpr_route_release(route);
    return hit;
}

static void assert_error(cpr_error got, cpr_error wanted) {
    assert_int_equal(got.status, wanted.status);
    assert_int_equal(got.index, wanted.index);
    assert_int_equal(got.got, wanted.got);
    assert_int_equal(got.wanted, wanted.wanted);
}

static void get_refuses(cpr_cache *cache, const cpr_lookup *lookup, cpr_error wanted) {
    const cpr_route *route = (const cpr_route *)cache;
    bool hit = true;
    cpr_error error;
    assert_int_equal(cpr_cache_get(cache, lookup, &route, &hit, &error), wanted.status);
    assert_error(error, wanted);
    assert_ptr_equal(route, cache);
    assert_true(hit);
}

/*==============================================================================
 * MARK: - Lookups
 *============================================================================*/

static void a_training_step_builds_once_a_batch(void **state) {
    (void)state;
    static const cpr_guard guards[] = {CPR_GUARD_DEFAULT, CPR_GUARD_VERSION, CPR_GUARD_CONTENT};
    for (int i = 0; i < 3; i++) {
        cpr_cache *cache = cache_of(64, NULL);
        const scenario s = {.guard = guards[i], .sequences = 64, .cp_size = 4};
        assert_int_equal(scenario_run(cache, &s), CPR_OK);
        const cpr_cache_stats stats = cpr_cache_get_stats(cache);
        assert_int_equal(stats.builds, 10);
        assert_int_equal(stats.checks, 10);
        assert_int_equal(stats.hits, 10 * 24 * 2 * 3);
        assert_int_equal(stats.misses, 0);
        cpr_cache_free(cache);
    }
}

static void empty_sequences_are_no_difference_in_contents(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(8, NULL);
    const cpr_lookup plain = lookup_of(1, VIEW(PLAIN), CPR_GUARD_CONTENT);
    const cpr_lookup padded = lookup_of(2, VIEW(PADDED), CPR_GUARD_CONTENT);
    assert_false(get(cache, &plain));
    assert_true(get(cache, &padded));
    cpr_lookup trusted = padded;
    trusted.guard = CPR_GUARD_VERSION;
    assert_false(get(cache, &trusted));
    cpr_cache_free(cache);
}

static void one_rank_exchanges_nothing(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(8, NULL);
    cpr_lookup lookup = lookup_of(1, VIEW(PLAIN), CPR_GUARD_DEFAULT);
    const cpr_route *route = (const cpr_route *)cache;
    lookup.geometry = (cpr_geometry){.cp_size = 1, .cp_rank = 0};
    assert_int_equal(cpr_cache_get(cache, &lookup, &route, NULL, NULL), CPR_OK);
    assert_null(route);
    lookup.rows = 17;
    get_refuses(cache, &lookup, (cpr_error){CPR_TOTAL_MISMATCH, -1, 17, 16});
    lookup.tensor.view.data = NULL;
    assert_int_equal(cpr_cache_get(cache, &lookup, &route, NULL, NULL), CPR_OK);
    lookup.geometry.cp_rank = 1;
    get_refuses(cache, &lookup, (cpr_error){CPR_BAD_RANK, -1, 1, 1});
    lookup.geometry.cp_rank = 0;
    lookup.target = CPR_LAYOUT_COUNT;
    get_refuses(cache, &lookup, (cpr_error){CPR_BAD_LAYOUT, 1, CPR_LAYOUT_COUNT, CPR_LAYOUT_COUNT});
    lookup.source = CPR_LAYOUT_COUNT;
    get_refuses(cache, &lookup, (cpr_error){CPR_BAD_LAYOUT, 0, CPR_LAYOUT_COUNT, CPR_LAYOUT_COUNT});
    lookup.target = CPR_CONTIGUOUS;
    get_refuses(cache, &lookup, (cpr_error){CPR_BAD_LAYOUT, 0, CPR_LAYOUT_COUNT, CPR_LAYOUT_COUNT});
    cpr_cache_free(cache);
}

static void what_is_not_packed_has_no_route(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(8, NULL);
    cpr_lookup lookup = {.not_packed = true};
    const cpr_route *route = (const cpr_route *)cache;
    bool hit = true;
    assert_int_equal(cpr_cache_get(cache, &lookup, &route, &hit, NULL), CPR_OK);
    assert_null(route);
    assert_false(hit);
    assert_int_equal(cpr_cache_prebuild(cache, &lookup, NULL), CPR_OK);
    assert_int_equal(cpr_cache_get_stats(cache).entries, 0);
    cpr_cache_free(cache);
}

static void a_loader_reads_what_others_cannot(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(8, NULL);
    cpr_lookup lookup = lookup_of(1, VIEW(PLAIN), CPR_GUARD_VERSION);
    lookup.tensor.device = CPR_CUDA;
    assert_int_equal(cpr_cache_prebuild(cache, &lookup, NULL), CPR_OK);
    lookup.tensor.view.data = NULL;
    assert_true(get(cache, &lookup));
    lookup.source = CPR_CONTIGUOUS;
    lookup.target = CPR_ZIGZAG;
    assert_true(get(cache, &lookup));
    lookup.guard = CPR_GUARD_DEFAULT;
    assert_true(get(cache, &lookup));
    lookup.guard = CPR_GUARD_CONTENT;
    get_refuses(cache, &lookup, (cpr_error){CPR_DEVICE, -1, -1, CPR_CPU});
    lookup.tensor.view = VIEW(PLAIN);
    lookup.tensor.view.device = CPR_CUDA;
    get_refuses(cache, &lookup, (cpr_error){CPR_DEVICE, -1, CPR_CUDA, CPR_CPU});
    assert_int_equal(cpr_cache_get_stats(cache).builds, 1);
    cpr_cache_free(cache);
}

/* As an eager lookup, whatever the lookup is for. */
static void prebuilding_is_for_later(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(8, NULL);
    cpr_lookup lookup = lookup_of(1, VIEW(PLAIN), CPR_GUARD_VERSION);
    for (int use = CPR_USE_EAGER; use <= CPR_USE_REPLAY; use++) {
        lookup.use = (cpr_use)use;
        assert_int_equal(cpr_cache_prebuild(cache, &lookup, NULL), CPR_OK);
    }
    const cpr_cache_stats stats = cpr_cache_get_stats(cache);
    assert_int_equal(stats.builds, 1);
    assert_int_equal(stats.captured, 0);
    cpr_cache_free(cache);
}

static void prebuild_refuses(cpr_cache *cache, const cpr_lookup *lookup, cpr_error wanted) {
    cpr_error error;
    assert_int_equal(cpr_cache_prebuild(cache, lookup, &error), wanted.status);
    assert_error(error, wanted);
}

/* Either direction may be what is known, and the contents may be out of reach by now. */
static void prebuilding_checks_rows_of_what_is_known(void **state) {
    (void)state;
    static const cpr_layout pairs[][2] = {
        {CPR_ZIGZAG, CPR_CONTIGUOUS}, {CPR_CONTIGUOUS, CPR_ZIGZAG}, {CPR_ZIGZAG, CPR_ZIGZAG}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        cpr_cache *cache = cache_of(8, NULL);
        cpr_lookup lookup = lookup_of(1, VIEW(PLAIN), CPR_GUARD_VERSION);
        lookup.source = pairs[i][0];
        lookup.target = pairs[i][1];
        get(cache, &lookup);
        lookup.tensor.view.data = NULL;
        lookup.source = pairs[0][0];
        lookup.target = pairs[i][0] == pairs[i][1] ? pairs[i][1] : pairs[0][1];
        lookup.rows = 17;
        prebuild_refuses(cache, &lookup, (cpr_error){CPR_TOTAL_MISMATCH, -1, 17, 16});
        assert_int_equal(cpr_cache_get_stats(cache).builds, 1);
        cpr_cache_free(cache);
    }
}

static void errors_are_those_of_building(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(8, NULL);
    const cpr_lookup right = lookup_of(1, VIEW(PLAIN), CPR_GUARD_CONTENT);
    cpr_lookup wrong = right;
    get(cache, &right);
    wrong.geometry.cp_size = 0;
    get_refuses(cache, &wrong, (cpr_error){CPR_BAD_CP_SIZE, -1, 0, 1});
    wrong = right;
    wrong.target = CPR_LAYOUT_COUNT;
    get_refuses(cache, &wrong, (cpr_error){CPR_BAD_LAYOUT, 1, CPR_LAYOUT_COUNT, CPR_LAYOUT_COUNT});
    wrong = right;
    wrong.tensor.view.dtype = CPR_FLOAT32;
    get_refuses(cache, &wrong, (cpr_error){CPR_DTYPE, -1, CPR_FLOAT32, CPR_INT64});
    wrong = right;
    wrong.tensor.view.count = 0;
    get_refuses(cache, &wrong, (cpr_error){CPR_EMPTY_CU_SEQLENS, -1, 0, 1});
    wrong = right;
    wrong.tp_size = 3;
    get_refuses(cache, &wrong, (cpr_error){CPR_NOT_DIVISIBLE_CP_TP, -1, 8, 3});
    wrong = right;
    wrong.rows = 8;
    get_refuses(cache, &wrong, (cpr_error){CPR_TOTAL_MISMATCH, -1, 8, 16});
    prebuild_refuses(cache, &wrong, (cpr_error){CPR_TOTAL_MISMATCH, -1, 8, 16});
    wrong = right;
    wrong.tensor.view.dtype = CPR_FLOAT32;
    prebuild_refuses(cache, &wrong, (cpr_error){CPR_DTYPE, -1, CPR_FLOAT32, CPR_INT64});
    wrong.target = CPR_LAYOUT_COUNT;
    prebuild_refuses(cache, &wrong, (cpr_error){CPR_BAD_LAYOUT, 1, CPR_LAYOUT_COUNT, CPR_LAYOUT_COUNT});
    assert_int_equal(cpr_cache_get_stats(cache).builds, 1);
    cpr_cache_free(cache);
}

static void bounds_must_be_possible(void **state) {
    (void)state;
    static const struct {
        int64_t max_entries, max_bytes;
        cpr_error error;
    } bounds[] = {
        {0, 0, {CPR_OVERFLOW, -1, 0, 1}},
        {INT64_MIN, 0, {CPR_OVERFLOW, -1, INT64_MIN, 1}},
        {-5, -1, {CPR_OVERFLOW, -1, -5, 1}},
        {1, -1, {CPR_OVERFLOW, -1, -1, 0}},
        {1, INT64_MIN, {CPR_OVERFLOW, -1, INT64_MIN, 0}},
    };
    cpr_cache *narrow = cache_of(1, NULL);
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const cpr_cache_options options = {.max_entries = bounds[i].max_entries,
                                           .max_bytes = bounds[i].max_bytes};
        cpr_cache *cache = narrow;
        cpr_error error;
        assert_int_equal(cpr_cache_create(&options, NULL, &cache, &error), CPR_OVERFLOW);
        assert_error(error, bounds[i].error);
        assert_ptr_equal(cache, narrow);
        assert_int_equal(cpr_cache_set_limits(narrow, options.max_entries, options.max_bytes, &error),
                         CPR_OVERFLOW);
        assert_error(error, bounds[i].error);
    }
    cpr_cache_free(narrow);
    cpr_cache_free(NULL);
    cpr_route_release(NULL);
}

static void making_one_takes_memory(void **state) {
    (void)state;
    const cpr_cache_options options = {.max_entries = INT64_C(1) << 20};
    for (uint64_t fail_at = 1; fail_at <= 3; fail_at++) {
        ledger books = {.fail_at = fail_at};
        const cpr_allocator allocator = ledger_allocator(&books);
        cpr_cache *cache = NULL;
        const cpr_status status = cpr_cache_create(&options, &allocator, &cache, NULL);
        assert_int_equal(status, fail_at < 3 ? CPR_NO_MEMORY : CPR_OK);
        assert_int_equal(cache != NULL, status == CPR_OK);
        cpr_cache_free(cache);
        assert_int_equal(books.live_blocks, 0);
    }
}

/* What is wrong with a request was so before memory lacked. */
static void lack_of_memory_is_told_last(void **state) {
    (void)state;
    const int64_t wrong[] = {0, 6};
    ledger books = {0};
    const cpr_allocator allocator = ledger_allocator(&books);
    cpr_cache *cache = cache_of(4, &allocator);
    for (int guard = CPR_GUARD_VERSION; guard <= CPR_GUARD_CONTENT; guard++)
        for (int call = 0; call < 5; call++) {
            cpr_lookup lookup = lookup_of(1, cpr_cu_seqlens_int64(wrong, 2), (cpr_guard)guard);
            lookup.use = call == 1 ? CPR_USE_CAPTURE : CPR_USE_EAGER;
            lookup.tensor.has_generation = call != 2;
            const cpr_packed_params params = {.has_q = true, .q = lookup.tensor};
            const cpr_route *route = NULL;
            cpr_tensor resolved;
            cpr_error error;
            books.allocations = 0;
            books.fail_at = 1;
            if (call < 3)
                (void)cpr_cache_get(cache, &lookup, &route, NULL, &error);
            else if (call == 3)
                (void)cpr_cache_prebuild(cache, &lookup, &error);
            else
                (void)cpr_cache_resolve(cache, &params, CPR_ROWS_UNCHECKED, 2, CPR_ZIGZAG, lookup.guard,
                                        &resolved, NULL, &error);
            assert_int_equal(books.allocations, 1);
            assert_error(error, ((cpr_error){CPR_NOT_DIVISIBLE_2CP, 0, 6, 4}));
        }
    books.fail_at = 0;
    cpr_cache_free(cache);
}

static size_t bytes_before_the_buckets(void) {
    ledger books = {.fail_at = 2};
    const cpr_allocator allocator = ledger_allocator(&books);
    cpr_cache *cache = NULL;
    assert_int_equal(cpr_cache_create(&(cpr_cache_options){.max_entries = 1}, &allocator, &cache, NULL),
                     CPR_NO_MEMORY);
    return books.peak_bytes;
}

static size_t bytes_of_buckets(int64_t max_entries) {
    ledger books = {0};
    const cpr_allocator allocator = ledger_allocator(&books);
    cpr_cache *cache = cache_of(max_entries, &allocator);
    const size_t bytes = books.live_bytes;
    cpr_cache_free(cache);
    return bytes - bytes_before_the_buckets();
}

/* It is made for a training step as for a server: a bucket for an entry, of which there are powers of two, within limits. */
static void memory_follows_the_bound(void **state) {
    (void)state;
    enum { FEWEST = 16, MOST = 1 << 16 };
    static const struct {
        int64_t max_entries;
        size_t buckets;
    } examples[] = {{1, FEWEST},  {FEWEST, FEWEST}, {FEWEST + 1, 2 * FEWEST}, {1000, 1024},     {1024, 1024},
                    {1025, 2048}, {MOST, MOST},     {MOST + 1, MOST},         {INT64_MAX, MOST}};
    assert_true(bytes_before_the_buckets() < 4096);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        assert_int_equal(bytes_of_buckets(examples[i].max_entries), examples[i].buckets * sizeof(void *));
}

/* One thing about a tensor is another, and all else is as it was. */
static void other_handle(cpr_tensor *t) {
    t->handle++;
}
static void other_storage(cpr_tensor *t) {
    t->storage++;
}
static void other_offset(cpr_tensor *t) {
    t->storage_offset++;
}
static void other_stride(cpr_tensor *t) {
    t->stride++;
}
static void other_device(cpr_tensor *t) {
    t->device = CPR_CUDA;
}
static void other_device_index(cpr_tensor *t) {
    t->device_index++;
}
static void next_generation(cpr_tensor *t) {
    t->generation++;
}
static void wrapped_generation(cpr_tensor *t) {
    t->generation += UINT64_C(1) << 32;
}
static void shorter(cpr_tensor *t) {
    t->view.count--;
}
static void wider(cpr_tensor *t) {
    static const int64_t entries[] = {0, 4, 16};
    t->view = cpr_cu_seqlens_int64(entries, 3);
}

static void (*const tensor_changes[])(cpr_tensor *t) = {
    other_handle,       other_storage,   other_offset,       other_stride, other_device,
    other_device_index, next_generation, wrapped_generation, shorter,      wider,
};
enum { TENSOR_CHANGES = sizeof tensor_changes / sizeof *tensor_changes };

static void version_looks_at_all_of_a_tensor(void **state) {
    (void)state;
    for (int i = 0; i < TENSOR_CHANGES; i++) {
        cpr_cache *cache = cache_of(8, NULL);
        cpr_lookup lookup = lookup_of(1, VIEW(PLAIN), CPR_GUARD_VERSION);
        assert_false(get(cache, &lookup));
        assert_true(get(cache, &lookup));
        tensor_changes[i](&lookup.tensor);
        assert_false(get(cache, &lookup));
        assert_true(get(cache, &lookup));
        cpr_cache_free(cache);
    }
}

/* The same contents in many boundaries, entries `stride` apart. */
static void fill_boundaries(int32_t *entries, int64_t count, int64_t stride) {
    for (int64_t i = 0; i < count; i++)
        entries[i * stride] = (int32_t)(8 * i);
}

static void judge_every_difference(int64_t count, int64_t stride, uint64_t handle) {
    cpr_cache *cache = cache_of(2, NULL);
    int32_t *entries = calloc((size_t)(count * stride), sizeof *entries);
    assert_non_null(entries);
    fill_boundaries(entries, count, stride);
    cpr_lookup lookup = lookup_of(1, cpr_cu_seqlens_int32(entries, count), CPR_GUARD_CONTENT);
    lookup.tensor.view.stride = stride;
    lookup.geometry.cp_size = 1; /* any length is legal */
    assert_false(get(cache, &lookup));
    lookup.tensor.handle = handle;
    for (int64_t i = 1; i < count; i++) {
        for (int32_t change = -1; change <= 1; change += 2) {
            entries[i * stride] += change;
            assert_false(get(cache, &lookup));
            entries[i * stride] -= change;
            assert_true(get(cache, &lookup));
        }
    }
    free(entries);
    cpr_cache_free(cache);
}

static void content_looks_at_every_boundary(void **state) {
    (void)state;
    static const int64_t counts[] = {2, 9, 33, 66, 130};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int64_t stride = 1; stride <= 3; stride++)
            for (uint64_t handle = 1; handle <= 2; handle++)
                judge_every_difference(counts[i], stride, handle);
}

/* What is known lies densely in the memory of a view that skips some of it, or repeats its first entry. */
static void a_view_is_read_with_its_stride(void **state) {
    (void)state;
    static const int32_t memory[] = {0, 4, 16, 0, 32};
    for (int64_t stride = 0; stride <= 2; stride += 2) {
        cpr_cache *cache = cache_of(8, NULL);
        cpr_lookup lookup = lookup_of(1, cpr_cu_seqlens_int32(memory, 3), CPR_GUARD_CONTENT);
        assert_false(get(cache, &lookup));
        lookup.tensor.view.stride = stride;
        assert_false(get(cache, &lookup));
        assert_true(get(cache, &lookup));
        cpr_cache_free(cache);
    }
}

static int64_t tokens_of_route(cpr_cache *cache, const cpr_lookup *lookup, bool *hit) {
    const cpr_route *route;
    assert_int_equal(cpr_cache_get(cache, lookup, &route, hit, NULL), CPR_OK);
    const int64_t tokens = route->total_tokens;
    cpr_route_release(route);
    return tokens;
}

static uint64_t hash_of(const cpr_lookup *lookup) {
    cache_key key;
    cache_key_of_lookup(lookup, &key);
    assert_true(cache_key_hash(&key));
    return key.hash;
}

/* Made by turning the steps of the hash back; others take their place if it comes to be another one. */
static void boundaries_with_one_hash_are_told_apart(void **state) {
    (void)state;
    static const struct {
        int64_t entries[3], count;
    } pairs[][2] = {
        {{{0, 4, INT64_C(1152921504606846976)}, 3}, {{0, 20, INT64_C(4447555767772846744)}, 3}},
        {{{0, 84}, 2}, {{0, 84, INT64_C(2284774069054908912)}, 3}},
    };
    for (int i = 0; i < 4; i++) {
        cpr_cache *cache = cache_of(8, NULL);
        cpr_lookup lookups[2];
        int64_t tokens[2];
        for (int k = 0; k < 2; k++) {
            const int which = k ^ (i & 1);
            const int64_t *entries = pairs[i / 2][which].entries;
            const int64_t count = pairs[i / 2][which].count;
            lookups[k] = lookup_of(1, cpr_cu_seqlens_int64(entries, count), CPR_GUARD_CONTENT);
            tokens[k] = entries[count - 1];
        }
        assert_true(hash_of(&lookups[0]) == hash_of(&lookups[1]));
        for (int times = 0; times < 2; times++) {
            for (int k = 0; k < 2; k++) {
                bool hit;
                assert_int_equal(tokens_of_route(cache, &lookups[k], &hit), tokens[k]);
                assert_int_equal(hit, times > 0);
            }
        }
        cpr_cache_free(cache);
    }
}

enum { SECONDS_TO_COMPARE = 20 };

/* Nowhere as what is known. It hangs if a difference is what is looked on from. */
static void a_view_of_other_entries_is_compared_to_its_end(void **state) {
    (void)state;
    int32_t memory[] = {0, 99, 8, 99, 16};
    cpr_cache *cache = cache_of(8, NULL);
    cpr_lookup lookup = lookup_of(1, cpr_cu_seqlens_int32(memory, 3), CPR_GUARD_CONTENT);
    lookup.tensor.view.stride = 2;
    alarm(SECONDS_TO_COMPARE);
    assert_false(get(cache, &lookup));
    memory[0] = 5;
    memory[2] = 9;
    memory[4] = 17;
    get_refuses(cache, &lookup, (cpr_error){CPR_NONZERO_START, 0, 5, 0});
    alarm(0);
    cpr_cache_free(cache);
}

static void resolve_compares_views_to_their_ends(void **state) {
    (void)state;
    static const int32_t q[] = {5, 0, 9, 0}, kv[] = {0, 0, 8, 0};
    cpr_cache *cache = cache_of(8, NULL);
    cpr_packed_params params = {.q = tensor_of(1, cpr_cu_seqlens_int32(q, 2)),
                                .kv = tensor_of(2, cpr_cu_seqlens_int32(kv, 2)),
                                .has_q = true,
                                .has_kv = true};
    params.q.view.stride = params.kv.view.stride = 2;
    cpr_tensor resolved;
    cpr_error error;
    alarm(SECONDS_TO_COMPARE);
    assert_int_equal(cpr_cache_resolve(cache, &params, CPR_ROWS_UNCHECKED, 2, CPR_ZIGZAG, CPR_GUARD_CONTENT,
                                       &resolved, NULL, &error),
                     CPR_NONZERO_START);
    alarm(0);
    assert_error(error, (cpr_error){CPR_NONZERO_START, 0, 5, 0});
    cpr_cache_free(cache);
}

/* The memory of the one begins as the other's contents, in either order and in both. */
static void resolve_reads_views_with_their_strides(void **state) {
    (void)state;
    static const int32_t memory[] = {0, 4, 16, 0, 32};
    static const int64_t strides[][2] = {{0, 1}, {1, 0}, {2, 1}, {1, 2}, {2, 0}};
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        cpr_cache *cache = cache_of(8, NULL);
        cpr_packed_params params = {.q = tensor_of(1, cpr_cu_seqlens_int32(memory, 3)),
                                    .kv = tensor_of(2, cpr_cu_seqlens_int32(memory, 3)),
                                    .has_q = true,
                                    .has_kv = true};
        cpr_tensor resolved;
        params.q.view.stride = strides[i][0];
        params.kv.view.stride = strides[i][1];
        assert_int_equal(cpr_cache_resolve(cache, &params, CPR_ROWS_UNCHECKED, 2, CPR_ZIGZAG,
                                           CPR_GUARD_CONTENT, &resolved, NULL, NULL),
                         CPR_DIVERGENT_METADATA);
        cpr_cache_free(cache);
    }
}

static void bytes_are_those_that_the_allocator_gave(void **state) {
    (void)state;
    static const cpr_guard guards[] = {CPR_GUARD_VERSION, CPR_GUARD_CONTENT};
    for (int i = 0; i < 2; i++) {
        ledger books = {0};
        const cpr_allocator allocator = ledger_allocator(&books);
        cpr_cache *cache = cache_of(8, &allocator);
        const size_t empty = books.live_bytes;
        const cpr_lookup first = lookup_of(1, VIEW(PLAIN), guards[i]);
        const cpr_lookup second = lookup_of(2, VIEW(OTHER), guards[i]);
        get(cache, &first);
        assert_int_equal(cpr_cache_get_stats(cache).bytes, books.live_bytes - empty);
        get(cache, &second);
        assert_int_equal(cpr_cache_get_stats(cache).bytes, books.live_bytes - empty);
        cpr_cache_clear(cache);
        assert_int_equal(cpr_cache_get_stats(cache).bytes, 0);
        assert_int_equal(books.live_bytes, empty);
        cpr_cache_free(cache);
    }
}

enum { FEW = 16, MANY = 300 };

static void widen_in_use(uint64_t before_first, bool without_memory) {
    ledger books = {0};
    const cpr_allocator allocator = ledger_allocator(&books);
    cpr_cache *cache = cache_of(FEW, &allocator);
    for (uint64_t i = 1; i <= MANY; i++) {
        const cpr_lookup lookup = lookup_of(before_first + i, VIEW(PLAIN), CPR_GUARD_VERSION);
        assert_false(get(cache, &lookup));
        if (i == FEW) {
            const size_t before = books.live_bytes;
            books.fail_at = without_memory ? books.allocations + 1 : 0;
            assert_int_equal(cpr_cache_set_limits(cache, MANY, 0, NULL), CPR_OK);
            assert_int_equal(books.live_bytes,
                             before + (without_memory ? 0 : bytes_of_buckets(MANY) - bytes_of_buckets(FEW)));
        }
    }
    const size_t wide = books.live_bytes;
    assert_int_equal(cpr_cache_set_limits(cache, MANY, 0, NULL), CPR_OK);
    assert_int_equal(books.live_bytes,
                     without_memory ? wide + bytes_of_buckets(MANY) - bytes_of_buckets(FEW) : wide);
    for (uint64_t i = 1; i <= MANY; i++) {
        const cpr_lookup lookup = lookup_of(before_first + i, VIEW(PLAIN), CPR_GUARD_VERSION);
        assert_true(get(cache, &lookup));
        cpr_cache_tensor_freed(cache, before_first + i);
    }
    assert_int_equal(cpr_cache_get_stats(cache).entries, 0);
    cpr_cache_free(cache);
    assert_int_equal(books.live_blocks, 0);
    assert_int_equal(books.mistakes, 0);
}

/* Entries are found by key after wider bounds as before, with memory for more buckets or without. So often that something lies in
 * every bucket once. */
static void wider_bounds_keep_what_is_there(void **state) {
    (void)state;
    enum { TIMES = 8 };
    for (uint64_t i = 0; i < TIMES; i++) {
        widen_in_use(i * MANY, false);
        widen_in_use(i * MANY, true);
    }
}

static void what_does_not_fit_is_handed_out(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(8, NULL);
    const cpr_lookup lookup = lookup_of(1, VIEW(PLAIN), CPR_GUARD_CONTENT);
    assert_int_equal(cpr_cache_set_limits(cache, 8, 100, NULL), CPR_OK);
    assert_false(get(cache, &lookup));
    assert_false(get(cache, &lookup));
    assert_int_equal(cpr_cache_get_stats(cache).entries, 0);
    cpr_cache_free(cache);
}

static int64_t bytes_of_an_entry(cpr_cu_seqlens view, cpr_guard guard) {
    cpr_cache *cache = cache_of(8, NULL);
    const cpr_lookup lookup = lookup_of(1, view, guard);
    get(cache, &lookup);
    const int64_t bytes = cpr_cache_get_stats(cache).bytes;
    cpr_cache_free(cache);
    return bytes;
}

/* The same route, and boundaries only where they are the key. */
static void an_entry_takes_its_key_and_its_route(void **state) {
    (void)state;
    const int64_t trusted = bytes_of_an_entry(VIEW(PLAIN), CPR_GUARD_VERSION);
    assert_int_equal(bytes_of_an_entry(VIEW(PADDED), CPR_GUARD_VERSION), trusted);
    assert_int_equal(bytes_of_an_entry(VIEW(PLAIN), CPR_GUARD_CONTENT), trusted + (int64_t)sizeof PLAIN);
    assert_int_equal(bytes_of_an_entry(VIEW(PADDED), CPR_GUARD_CONTENT), trusted + (int64_t)sizeof PADDED);
}

static cpr_cache *cache_of_bytes(int64_t max_bytes) {
    const cpr_cache_options options = {.max_entries = 8, .max_bytes = max_bytes};
    cpr_cache *cache = NULL;
    assert_int_equal(cpr_cache_create(&options, NULL, &cache, NULL), CPR_OK);
    return cache;
}

/* Entries of the same size: as many stay as fit, and none of them once a byte is missing. */
static void bytes_are_a_bound_to_the_last(void **state) {
    (void)state;
    const int64_t bytes = bytes_of_an_entry(VIEW(PLAIN), CPR_GUARD_VERSION);
    for (int64_t room = 0; room < 2; room++) {
        cpr_cache *cache = cache_of_bytes(3 * bytes - room);
        for (uint64_t handle = 1; handle <= 5; handle++) {
            const cpr_lookup lookup = lookup_of(handle, VIEW(PLAIN), CPR_GUARD_VERSION);
            get(cache, &lookup);
        }
        assert_int_equal(cpr_cache_get_stats(cache).entries, 3 - room);
        cpr_cache_capture_released(cache, 1);
        assert_int_equal(cpr_cache_get_stats(cache).entries, 3 - room);
        assert_int_equal(cpr_cache_set_limits(cache, 8, bytes, NULL), CPR_OK);
        assert_int_equal(cpr_cache_get_stats(cache).entries, 1);
        assert_int_equal(cpr_cache_set_limits(cache, 8, 1, NULL), CPR_OK);
        assert_int_equal(cpr_cache_get_stats(cache).entries, 0);
        cpr_cache_free(cache);
    }
}

static void a_route_outlives_its_cache(void **state) {
    (void)state;
    ledger books = {0};
    const cpr_allocator allocator = ledger_allocator(&books);
    cpr_cache *cache = cache_of(1, &allocator);
    const cpr_lookup lookup = lookup_of(1, VIEW(PLAIN), CPR_GUARD_CONTENT);
    const cpr_route *route;
    assert_int_equal(cpr_cache_get(cache, &lookup, &route, NULL, NULL), CPR_OK);
    cpr_cache_free(cache);
    assert_true(cpr_route_validate(route, NULL, NULL));
    cpr_route_release(route);
    assert_int_equal(books.live_blocks, 0);
    assert_int_equal(books.mistakes, 0);
}

/*==============================================================================
 * MARK: - Captures
 *============================================================================*/

static const cpr_route *capture(cpr_cache *cache, cpr_lookup lookup) {
    const cpr_route *route;
    lookup.use = CPR_USE_CAPTURE;
    assert_int_equal(cpr_cache_get(cache, &lookup, &route, NULL, NULL), CPR_OK);
    return route;
}

static cpr_status replay(cpr_cache *cache, cpr_lookup lookup, const cpr_route *captured) {
    const cpr_route *route;
    lookup.use = CPR_USE_REPLAY;
    lookup.captured = captured;
    const cpr_status status = cpr_cache_get(cache, &lookup, &route, NULL, NULL);
    if (status == CPR_OK)
        cpr_route_release(route);
    return status;
}

static void a_captured_route_stays(void **state) {
    (void)state;
    static const cpr_guard guards[] = {CPR_GUARD_VERSION, CPR_GUARD_CONTENT};
    for (int i = 0; i < 2; i++) {
        cpr_cache *cache = cache_of(2, NULL);
        const cpr_lookup first = lookup_of(1, VIEW(PLAIN), guards[i]);
        cpr_lookup refilled = lookup_of(1, VIEW(OTHER), guards[i]);
        refilled.tensor.generation = 1;
        const cpr_route *captured = capture(cache, first);
        assert_int_equal(replay(cache, first, captured), CPR_OK);
        assert_false(get(cache, &refilled));
        assert_true(get(cache, &refilled));
        assert_int_equal(replay(cache, refilled, captured), CPR_CAPTURE_LAYOUT_CHANGE);
        assert_int_equal(cpr_cache_get_stats(cache).captured, 1);
        for (uint64_t other = 2; other < 9; other++) {
            const cpr_lookup lookup = lookup_of(other, VIEW(PADDED), CPR_GUARD_VERSION);
            get(cache, &lookup);
        }
        assert_int_equal(cpr_cache_get_stats(cache).captured, 1);
        cpr_cache_capture_released(cache, 1);
        assert_int_equal(cpr_cache_get_stats(cache).captured, 0);
        assert_int_equal(replay(cache, first, captured), CPR_CAPTURE_LAYOUT_CHANGE);
        cpr_route_release(captured);
        cpr_cache_free(cache);
    }
}

static void capturing_again_takes_no_more_memory(void **state) {
    (void)state;
    ledger books = {0};
    const cpr_allocator allocator = ledger_allocator(&books);
    cpr_cache *cache = cache_of(4, &allocator);
    const cpr_lookup lookup = lookup_of(1, VIEW(PLAIN), CPR_GUARD_VERSION);
    cpr_route_release(capture(cache, lookup));
    const size_t bytes = books.live_bytes;
    for (int i = 0; i < 10; i++)
        cpr_route_release(capture(cache, lookup));
    assert_int_equal(books.live_bytes, bytes);
    cpr_cache_free(cache);
    verdict v = {.outcome = LAW_PASSED};
    assert_true(ledger_settled(&books, "the cache", &v));
}

static void a_replay_is_for_its_own_route(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(4, NULL);
    const cpr_lookup first = lookup_of(1, VIEW(PLAIN), CPR_GUARD_CONTENT);
    cpr_lookup other_rank = first;
    other_rank.geometry.cp_rank = 1;
    const cpr_route *captured = capture(cache, first), *other = capture(cache, other_rank);
    assert_int_equal(replay(cache, first, other), CPR_CAPTURE_LAYOUT_CHANGE);
    assert_int_equal(replay(cache, other_rank, other), CPR_OK);
    cpr_cache_clear(cache);
    assert_int_equal(replay(cache, first, captured), CPR_CAPTURE_LAYOUT_CHANGE);
    cpr_route_release(captured);
    cpr_route_release(other);
    cpr_cache_free(cache);
}

static void captures_have_a_bound(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(1, NULL);
    const cpr_route *captured = capture(cache, lookup_of(1, VIEW(PLAIN), CPR_GUARD_CONTENT));
    cpr_lookup second = lookup_of(2, VIEW(OTHER), CPR_GUARD_CONTENT);
    second.use = CPR_USE_CAPTURE;
    get_refuses(cache, &second, (cpr_error){CPR_OVERFLOW, -1, 2, 1});
    second.use = CPR_USE_EAGER;
    assert_false(get(cache, &second));
    assert_int_equal(cpr_cache_get_stats(cache).entries, 1);
    cpr_route_release(captured);
    cpr_cache_free(cache);
}

static void captures_have_a_bound_of_bytes(void **state) {
    (void)state;
    const int64_t bytes = bytes_of_an_entry(VIEW(PLAIN), CPR_GUARD_VERSION);
    cpr_cache *cache = cache_of_bytes(3 * bytes);
    cpr_lookup one_more = lookup_of(4, VIEW(PLAIN), CPR_GUARD_VERSION);
    for (uint64_t handle = 1; handle <= 3; handle++)
        cpr_route_release(capture(cache, lookup_of(handle, VIEW(PLAIN), CPR_GUARD_VERSION)));
    assert_false(get(cache, &one_more));
    assert_false(get(cache, &one_more));
    one_more.use = CPR_USE_CAPTURE;
    get_refuses(cache, &one_more, (cpr_error){CPR_OVERFLOW, -1, 4, 8});
    cpr_cache_capture_released(cache, 2);
    cpr_route_release(capture(cache, one_more));
    assert_int_equal(cpr_cache_get_stats(cache).captured, 3);
    assert_int_equal(cpr_cache_get_stats(cache).bytes, 3 * bytes);
    cpr_cache_free(cache);
}

static void narrower_bounds_wait_for_captures(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(4, NULL);
    const cpr_route *first = capture(cache, lookup_of(1, VIEW(PLAIN), CPR_GUARD_VERSION));
    const cpr_route *second = capture(cache, lookup_of(2, VIEW(PLAIN), CPR_GUARD_VERSION));
    assert_int_equal(cpr_cache_set_limits(cache, 1, 0, NULL), CPR_OK);
    assert_int_equal(cpr_cache_get_stats(cache).entries, 2);
    cpr_cache_capture_released(cache, 1);
    assert_int_equal(cpr_cache_get_stats(cache).entries, 1);
    assert_int_equal(replay(cache, lookup_of(2, VIEW(PLAIN), CPR_GUARD_VERSION), second), CPR_OK);
    cpr_route_release(first);
    cpr_route_release(second);
    cpr_cache_free(cache);
}

/* Of what lookup_of(1, VIEW(PLAIN), CPR_GUARD_VERSION) asks for, once it was written to. */
static cpr_lookup lookup_of_next_state(void) {
    cpr_lookup next = lookup_of(1, VIEW(OTHER), CPR_GUARD_VERSION);
    next.tensor.generation = 1;
    return next;
}

static void a_captured_state_that_was_left_is_not_found_again(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(4, NULL);
    const cpr_lookup before = lookup_of(1, VIEW(PLAIN), CPR_GUARD_VERSION);
    const cpr_lookup after = lookup_of_next_state();
    const cpr_route *captured = capture(cache, before);
    assert_true(get(cache, &before));
    assert_false(get(cache, &after));
    assert_int_equal(replay(cache, before, captured), CPR_CAPTURE_LAYOUT_CHANGE);
    assert_false(get(cache, &before));
    assert_int_equal(replay(cache, before, captured), CPR_CAPTURE_LAYOUT_CHANGE);
    cpr_route_release(captured);
    cpr_cache_free(cache);
}

enum { PAINTED_BYTES = 4096 };

/* Leaves a number wherever calls that follow have their variables. */
__attribute__((noinline)) static int paint_stack(int byte) {
    volatile unsigned char below[PAINTED_BYTES];
    for (int i = 0; i < PAINTED_BYTES; i++)
        below[i] = (unsigned char)byte;
    return below[0];
}

/* Where an entry is remembered is told by its key, and by nothing else: a state that was left would be found there. */
static void what_was_left_is_found_nowhere(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(4, NULL);
    const cpr_lookup before = lookup_of(1, VIEW(PLAIN), CPR_GUARD_VERSION);
    const cpr_lookup after = lookup_of_next_state();
    (void)paint_stack(1);
    cpr_route_release(capture(cache, before));
    (void)paint_stack(1);
    assert_true(get(cache, &before));
    (void)paint_stack(2);
    assert_false(get(cache, &after));
    (void)paint_stack(1);
    assert_false(get(cache, &before));
    cpr_cache_free(cache);
}

static void captures_end_with_their_own_entry(void **state) {
    (void)state;
    for (uint64_t ended = 1; ended <= 3; ended++) {
        cpr_cache *cache = cache_of(4, NULL);
        for (uint64_t handle = 1; handle <= 3; handle++)
            cpr_route_release(capture(cache, lookup_of(handle, VIEW(PLAIN), CPR_GUARD_VERSION)));
        cpr_cache_invalidate(cache, ended);
        assert_int_equal(cpr_cache_get_stats(cache).captured, 2);
        for (uint64_t handle = 1; handle <= 3; handle++)
            cpr_cache_capture_released(cache, handle);
        assert_int_equal(cpr_cache_get_stats(cache).captured, 0);
        assert_int_equal(cpr_cache_get_stats(cache).entries, 2);
        cpr_cache_free(cache);
    }
}

static void what_is_not_kept_cannot_be_replayed(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(4, NULL);
    cpr_lookup lookup = lookup_of(1, VIEW(PLAIN), CPR_GUARD_VERSION);
    lookup.tensor.has_generation = false;
    const cpr_route *captured = capture(cache, lookup);
    assert_int_equal(replay(cache, lookup, captured), CPR_CAPTURE_LAYOUT_CHANGE);
    assert_int_equal(cpr_cache_get_stats(cache).bypasses, 1);
    cpr_route_release(captured);
    cpr_cache_free(cache);
}

/*==============================================================================
 * MARK: - Resolving
 *============================================================================*/

static void resolve_tells_the_first_difference(void **state) {
    (void)state;
    static const cpr_guard guards[] = {CPR_GUARD_VERSION, CPR_GUARD_CONTENT};
    static const int32_t longer[] = {0, 4, 16, 20};
    for (int i = 0; i < 2; i++) {
        cpr_cache *cache = cache_of(4, NULL);
        cpr_tensor resolved = {.handle = 9};
        cpr_error error;
        cpr_packed_params params = {
            .q = tensor_of(1, VIEW(PADDED)), .kv = tensor_of(2, VIEW(PLAIN)), .has_q = true, .has_kv = true};
        assert_int_equal(
            cpr_cache_resolve(cache, &params, 16, 2, CPR_ZIGZAG, guards[i], &resolved, NULL, &error), CPR_OK);
        assert_int_equal(resolved.handle, 1);
        params.kv = tensor_of(3, VIEW(OTHER));
        assert_int_equal(
            cpr_cache_resolve(cache, &params, 16, 2, CPR_ZIGZAG, guards[i], &resolved, NULL, &error),
            CPR_DIVERGENT_METADATA);
        assert_error(error, (cpr_error){CPR_DIVERGENT_METADATA, 1, 12, 4});
        params.kv = tensor_of(4, VIEW(longer));
        cpr_cache_resolve(cache, &params, CPR_ROWS_UNCHECKED, 2, CPR_ZIGZAG, guards[i], &resolved, NULL,
                          &error);
        assert_error(error, (cpr_error){CPR_DIVERGENT_METADATA, -1, 3, 2});
        cpr_cache_free(cache);
    }
}

static void resolve_refuses_what_cannot_be_compared(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(4, NULL);
    cpr_tensor resolved;
    cpr_packed_params params = {
        .q = tensor_of(1, VIEW(PLAIN)), .kv = tensor_of(2, VIEW(PLAIN)), .has_q = true, .has_kv = true};
    params.kv.view.data = NULL;
    assert_int_equal(
        cpr_cache_resolve(cache, &params, 16, 2, CPR_ZIGZAG, CPR_GUARD_CONTENT, &resolved, NULL, NULL),
        CPR_DEVICE);
    params.q.view.data = NULL;
    assert_int_equal(
        cpr_cache_resolve(cache, &params, 16, 2, CPR_ZIGZAG, CPR_GUARD_CONTENT, &resolved, NULL, NULL),
        CPR_DEVICE);
    params.q.view = params.kv.view = VIEW(PLAIN);
    params.q.view.dtype = params.kv.view.dtype = CPR_FLOAT32;
    assert_int_equal(
        cpr_cache_resolve(cache, &params, 16, 2, CPR_ZIGZAG, CPR_GUARD_CONTENT, &resolved, NULL, NULL),
        CPR_DTYPE);
    params.q.view = params.kv.view = VIEW(PLAIN);
    for (int64_t count = 0; count >= -1; count--) {
        params.q.view.count = params.kv.view.count = count;
        assert_int_equal(
            cpr_cache_resolve(cache, &params, 16, 2, CPR_ZIGZAG, CPR_GUARD_CONTENT, &resolved, NULL, NULL),
            CPR_EMPTY_CU_SEQLENS);
    }
    cpr_cache_free(cache);
}

/* The default guard, once the verdict is known. */
static void resolve_trusts_what_it_cannot_read(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(4, NULL);
    cpr_packed_params params = {
        .q = tensor_of(1, VIEW(PADDED)), .kv = tensor_of(2, VIEW(PLAIN)), .has_q = true, .has_kv = true};
    cpr_tensor resolved;
    bool hit;
    assert_int_equal(
        cpr_cache_resolve(cache, &params, 16, 2, CPR_ZIGZAG, CPR_GUARD_VERSION, &resolved, &hit, NULL),
        CPR_OK);
    for (int unreadable = 1; unreadable < 4; unreadable++) {
        params.q.view.data = unreadable & 1 ? NULL : PADDED;
        params.kv.view.data = unreadable & 2 ? NULL : PLAIN;
        assert_int_equal(
            cpr_cache_resolve(cache, &params, 16, 2, CPR_ZIGZAG, CPR_GUARD_DEFAULT, &resolved, &hit, NULL),
            CPR_OK);
        assert_true(hit);
    }
    cpr_cache_free(cache);
}

/* What is said to be absent may be anything. */
static void absent_tensors_are_not_looked_at(void **state) {
    (void)state;
    static const cpr_guard guards[] = {CPR_GUARD_VERSION, CPR_GUARD_CONTENT};
    for (int i = 0; i < 2; i++) {
        cpr_cache *cache = cache_of(4, NULL);
        cpr_packed_params params = {.q = tensor_of(1, VIEW(PLAIN)),
                                    .q_padded = tensor_of(2, VIEW(OTHER)),
                                    .kv = tensor_of(3, VIEW(OTHER)),
                                    .kv_padded = tensor_of(4, VIEW(OTHER)),
                                    .has_q = true};
        cpr_tensor resolved = {.handle = 9};
        cpr_error error;
        assert_int_equal(
            cpr_cache_resolve(cache, &params, 16, 2, CPR_ZIGZAG, guards[i], &resolved, NULL, NULL), CPR_OK);
        assert_int_equal(resolved.handle, 1);
        params.has_q = false;
        cpr_cache_resolve(cache, &params, 16, 2, CPR_ZIGZAG, guards[i], &resolved, NULL, &error);
        assert_error(error, (cpr_error){CPR_EMPTY_CU_SEQLENS, -1, 0, 1});
        assert_int_equal(resolved.handle, 1);
        cpr_cache_free(cache);
    }
}

/* Handle 0 is one like others, also beside tensors that are absent. */
static void absent_tensors_have_no_handle(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(4, NULL);
    cpr_tensor resolved;
    const cpr_packed_params params = {.q = tensor_of(7, VIEW(PLAIN)), .has_q = true};
    assert_int_equal(
        cpr_cache_resolve(cache, &params, 16, 2, CPR_ZIGZAG, CPR_GUARD_VERSION, &resolved, NULL, NULL),
        CPR_OK);
    cpr_cache_invalidate(cache, 0);
    assert_int_equal(cpr_cache_get_stats(cache).entries, 1);
    const cpr_packed_params wider = {
        .q = tensor_of(7, VIEW(PLAIN)), .kv = tensor_of(0, VIEW(PLAIN)), .has_q = true, .has_kv = true};
    assert_int_equal(
        cpr_cache_resolve(cache, &wider, 16, 2, CPR_ZIGZAG, CPR_GUARD_VERSION, &resolved, NULL, NULL),
        CPR_OK);
    assert_int_equal(cpr_cache_get_stats(cache).entries, 2);
    cpr_cache_free(cache);
}

static void a_verdict_falls_with_any_of_its_tensors(void **state) {
    (void)state;
    cpr_cache *cache = cache_of(4, NULL);
    cpr_tensor resolved;
    bool hit;
    cpr_packed_params params = {.q = tensor_of(1, VIEW(PLAIN)),
                                .q_padded = tensor_of(2, VIEW(PADDED)),
                                .kv_padded = tensor_of(3, VIEW(PLAIN)),
                                .has_q = true,
                                .has_q_padded = true,
                                .has_kv_padded = true};
    for (uint64_t handle = 1; handle <= 3; handle++) {
        for (int again = 0; again < 2; again++) {
            cpr_cache_resolve(cache, &params, 16, 2, CPR_ZIGZAG, CPR_GUARD_VERSION, &resolved, &hit, NULL);
            assert_int_equal(hit, again);
        }
        cpr_cache_invalidate(cache, handle);
        assert_int_equal(cpr_cache_get_stats(cache).entries, 0);
    }
    cpr_cache_free(cache);
}

static void a_verdict_needs_every_generation(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        cpr_cache *cache = cache_of(4, NULL);
        cpr_packed_params params = {.q = tensor_of(1, VIEW(PLAIN)),
                                    .q_padded = tensor_of(2, VIEW(PADDED)),
                                    .kv = tensor_of(3, VIEW(PLAIN)),
                                    .kv_padded = tensor_of(4, VIEW(PLAIN)),
                                    .has_q = true,
                                    .has_q_padded = true,
                                    .has_kv = true,
                                    .has_kv_padded = true};
        cpr_tensor *const all[] = {&params.q, &params.q_padded, &params.kv, &params.kv_padded};
        all[i]->has_generation = false;
        for (int again = 0; again < 2; again++) {
            cpr_tensor resolved;
            bool hit;
            assert_int_equal(cpr_cache_resolve(cache, &params, 16, 2, CPR_ZIGZAG, CPR_GUARD_VERSION,
                                               &resolved, &hit, NULL),
                             CPR_OK);
            assert_false(hit);
        }
        assert_int_equal(cpr_cache_get_stats(cache).entries, 0);
        cpr_cache_free(cache);
    }
}

/*==============================================================================
 * MARK: - Identities
 *============================================================================*/

static void count_up(void *context, uint64_t handle) {
    ((int64_t *)context)[handle]++;
}

static void count_down(void *context, uint64_t handle) {
    ((int64_t *)context)[handle]--;
}

static void identities_are_held_while_they_are_known(void **state) {
    (void)state;
    int64_t held[4] = {0};
    cpr_cache *cache = NULL;
    const cpr_cache_options options = {
        .max_entries = 1, .hold = count_up, .drop = count_down, .context = held};
    assert_int_equal(cpr_cache_create(&options, NULL, &cache, NULL), CPR_OK);
    const cpr_lookup first = lookup_of(1, VIEW(PLAIN), CPR_GUARD_VERSION);
    const cpr_lookup second = lookup_of(2, VIEW(PLAIN), CPR_GUARD_VERSION);
    const cpr_lookup compared = lookup_of(3, VIEW(PLAIN), CPR_GUARD_CONTENT);
    get(cache, &first);
    assert_int_equal(held[1], 1);
    get(cache, &second);
    assert_int_equal(held[1], 0);
    assert_int_equal(held[2], 1);
    get(cache, &compared);
    assert_int_equal(held[2], 0);
    assert_int_equal(held[3], 0);
    get(cache, &first);
    cpr_cache_free(cache);
    assert_int_equal(held[1], 0);
}

/*==============================================================================
 * MARK: - While a route is built
 *============================================================================*/

enum { MOST_WAITERS = 3 };

/* Memory that interrupts: does something at one of its allocations, in the middle of a build that is. */
typedef struct interruption {
    int64_t at;
    atomic_int allocations, live;
    void (*act)(struct interruption *self);
    cpr_cache *cache;
    bool fail;
    atomic_int stage;
    atomic_bool building;
    atomic_int arrived, waiters[MOST_WAITERS]; /* the system's numbers of threads, 0 before they are there */
} interruption;

static void *allocate(void *context, size_t size) {
    interruption *self = context;
    if (++self->allocations == self->at) {
        self->act(self);
        if (self->fail)
            return NULL;
    }
    self->live++;
    return malloc(size);
}

static void release(void *context, void *memory, size_t size) {
    (void)size;
    ((interruption *)context)->live--;
    free(memory);
}

static void invalidate_it(interruption *self) {
    cpr_cache_invalidate(self->cache, 1);
}

static void free_it(interruption *self) {
    cpr_cache_tensor_freed(self->cache, 1);
}

static void clear_all(interruption *self) {
    cpr_cache_clear(self->cache);
}

static void invalidate_other(interruption *self) {
    cpr_cache_invalidate(self->cache, 2);
}

/* How many entries are there after a build that was interrupted? */
static int64_t entries_after(cpr_guard guard, void (*act)(interruption *self)) {
    interruption self = {.act = act};
    const cpr_allocator allocator = {.allocate = allocate, .release = release, .context = &self};
    self.cache = cache_of(4, &allocator);
    const cpr_lookup lookup = lookup_of(1, VIEW(PLAIN), guard);
    self.at = self.allocations + 2; /* the first is for the entry, those after it for the route */
    get(self.cache, &lookup);
    assert_true(self.allocations >= self.at);
    const int64_t entries = cpr_cache_get_stats(self.cache).entries;
    cpr_cache_free(self.cache);
    assert_int_equal(self.live, 0);
    return entries;
}

static void a_build_that_is_overtaken_is_not_kept(void **state) {
    (void)state;
    assert_int_equal(entries_after(CPR_GUARD_VERSION, invalidate_it), 0);
    assert_int_equal(entries_after(CPR_GUARD_VERSION, free_it), 0);
    assert_int_equal(entries_after(CPR_GUARD_VERSION, clear_all), 0);
    assert_int_equal(entries_after(CPR_GUARD_CONTENT, clear_all), 0);
    assert_int_equal(entries_after(CPR_GUARD_VERSION, invalidate_other), 1);
    assert_int_equal(entries_after(CPR_GUARD_CONTENT, invalidate_it), 1);
}

static int32_t written_meanwhile[] = {0, 4, 16};

static void write_a_step_down(interruption *self) {
    (void)self;
    written_meanwhile[1] = 20;
}

static void write_another_start(interruption *self) {
    (void)self;
    written_meanwhile[0] = 4;
}

static void invalidate_twice(interruption *self) {
    invalidate_it(self);
    invalidate_it(self);
}

/* What is copied is what is judged. */
static void a_write_during_a_lookup_is_seen(void **state) {
    (void)state;
    static const struct {
        void (*act)(interruption *self);
        cpr_error error;
    } writes[] = {{write_a_step_down, {CPR_DECREASING, 2, 16, 20}},
                  {write_another_start, {CPR_NONZERO_START, 0, 4, 0}}};
    for (int i = 0; i < 2; i++) {
        interruption self = {.act = writes[i].act};
        const cpr_allocator allocator = {.allocate = allocate, .release = release, .context = &self};
        cpr_cache *cache = cache_of(4, &allocator);
        const cpr_lookup lookup = lookup_of(1, VIEW(written_meanwhile), CPR_GUARD_CONTENT);
        memcpy(written_meanwhile, PLAIN, sizeof PLAIN);
        self.at = self.allocations + 1;
        get_refuses(cache, &lookup, writes[i].error);
        cpr_cache_free(cache);
        assert_int_equal(self.live, 0);
    }
}

static void write_legally(interruption *self) {
    (void)self;
    written_meanwhile[1] = 12;
}

/* After the copy it is too late: route and key are those of the contents before. */
static void a_write_during_a_build_is_seen_by_the_next(void **state) {
    (void)state;
    interruption self = {.act = write_legally};
    const cpr_allocator allocator = {.allocate = allocate, .release = release, .context = &self};
    cpr_cache *cache = cache_of(4, &allocator);
    const cpr_lookup lookup = lookup_of(1, VIEW(written_meanwhile), CPR_GUARD_CONTENT);
    memcpy(written_meanwhile, PLAIN, sizeof PLAIN);
    self.at = self.allocations + 2;
    assert_false(get(cache, &lookup));
    assert_int_equal(written_meanwhile[1], 12);
    assert_false(get(cache, &lookup));
    written_meanwhile[1] = 4;
    const cpr_lookup plain = lookup_of(2, VIEW(PLAIN), CPR_GUARD_CONTENT);
    const cpr_lookup other = lookup_of(2, VIEW(OTHER), CPR_GUARD_CONTENT);
    const cpr_lookup *const lookups[] = {&plain, &other};
    for (int i = 0; i < 2; i++) {
        const cpr_route_request request = {.cu_seqlens = lookups[i]->tensor.view,
                                           .rows = CPR_ROWS_UNCHECKED,
                                           .geometry = lookups[i]->geometry,
                                           .source = lookups[i]->source,
                                           .target = lookups[i]->target};
        const cpr_route *kept;
        cpr_route *right;
        bool hit;
        assert_int_equal(cpr_cache_get(cache, lookups[i], &kept, &hit, NULL), CPR_OK);
        assert_int_equal(cpr_route_build(&request, NULL, &right, NULL), CPR_OK);
        assert_true(hit);
        assert_true(cpr_route_equal(kept, right));
        cpr_route_release(kept);
        cpr_route_free(right);
    }
    cpr_cache_free(cache);
}

static void an_overtaken_capture_is_not_kept(void **state) {
    (void)state;
    interruption self = {.act = invalidate_twice};
    const cpr_allocator allocator = {.allocate = allocate, .release = release, .context = &self};
    self.cache = cache_of(4, &allocator);
    const cpr_lookup lookup = lookup_of(1, VIEW(PLAIN), CPR_GUARD_VERSION);
    self.at = self.allocations + 3;
    const cpr_route *captured = capture(self.cache, lookup);
    assert_int_equal(cpr_cache_get_stats(self.cache).captured, 0);
    assert_int_equal(replay(self.cache, lookup, captured), CPR_CAPTURE_LAYOUT_CHANGE);
    cpr_route_release(captured);
    cpr_cache_free(self.cache);
}

/* One direction is there when a prebuild begins and gone when it ends. */
static void a_prebuild_may_lose_the_other_direction(void **state) {
    (void)state;
    interruption self = {.act = clear_all};
    const cpr_allocator allocator = {.allocate = allocate, .release = release, .context = &self};
    self.cache = cache_of(4, &allocator);
    const cpr_lookup lookup = lookup_of(1, VIEW(PLAIN), CPR_GUARD_VERSION);
    get(self.cache, &lookup);
    self.at = self.allocations + 3;
    assert_int_equal(cpr_cache_prebuild(self.cache, &lookup, NULL), CPR_OK);
    assert_int_equal(cpr_cache_get_stats(self.cache).entries, 0);
    cpr_cache_free(self.cache);
}

/* The state after the one that is being built is asked for meanwhile. */
static void ask_later_state(interruption *self) {
    const cpr_lookup later = lookup_of_next_state();
    self->at = 0;
    assert_false(get(self->cache, &later));
}

static void an_overtaken_state_is_not_kept(void **state) {
    (void)state;
    interruption self = {.act = ask_later_state};
    const cpr_allocator allocator = {.allocate = allocate, .release = release, .context = &self};
    self.cache = cache_of(4, &allocator);
    const cpr_lookup before = lookup_of(1, VIEW(PLAIN), CPR_GUARD_VERSION);
    const cpr_lookup after = lookup_of_next_state();
    self.at = self.allocations + 2;
    assert_false(get(self.cache, &before));
    assert_true(get(self.cache, &after));
    assert_false(get(self.cache, &before));
    cpr_cache_free(self.cache);
}

enum { SHARERS = 4, SHARINGS = 20000, GO = SHARERS + 1 };

/* `stage` counts who has taken, until all may give back. */
static void *take_and_give_back(void *argument) {
    interruption *self = argument;
    const cpr_lookup lookup = lookup_of(1, VIEW(PLAIN), CPR_GUARD_CONTENT);
    const cpr_route *route = NULL;
    int64_t read = 0;
    for (int i = 0; i < SHARINGS; i++)
        if (cpr_cache_get(self->cache, &lookup, &route, NULL, NULL) != CPR_OK)
            return NULL;
    atomic_fetch_add(&self->stage, 1);
    while (atomic_load(&self->stage) != GO)
        usleep(1);
    for (int i = 0; i < SHARINGS; i++) {
        read += route->total_tokens;
        cpr_route_release(route);
    }
    return read == SHARINGS * (int64_t)16 ? self : NULL;
}

/* Nothing but the count keeps the route: the cache has let go of it. */
static void a_shared_route_goes_with_the_last_reference(void **state) {
    (void)state;
    interruption self = {.at = 0};
    const cpr_allocator allocator = {.allocate = allocate, .release = release, .context = &self};
    pthread_t threads[SHARERS];
    self.cache = cache_of(4, &allocator);
    for (int i = 0; i < SHARERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give_back, &self), 0);
    while (atomic_load(&self.stage) != SHARERS)
        usleep(100);
    cpr_cache_free(self.cache);
    atomic_store(&self.stage, GO);
    for (int i = 0; i < SHARERS; i++) {
        void *good;
        pthread_join(threads[i], &good);
        assert_non_null(good);
    }
    assert_int_equal(self.live, 0);
}

typedef struct waiter {
    pthread_t thread;
    cpr_cache *cache;
    cpr_lookup lookup;
    interruption *first;
    bool hit;
} waiter;

/* Waits until the first thread is in the middle of its build. What follows is to wait for the end of that build. */
static void arrive(const waiter *w) {
    while (!atomic_load(&w->first->building))
        usleep(100);
    const int place = atomic_fetch_add(&w->first->arrived, 1);
    atomic_store(&w->first->waiters[place], (int)syscall(SYS_gettid));
}

/* As Linux tells it; elsewhere nobody is ever seen asleep. */
static bool is_asleep(int thread) {
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    (void)fscanf(file, "%*d (%*[^)]) %c", &state);
    fclose(file);
    return state == 'S';
}

static void wait_until_asleep(const atomic_int *thread) {
    enum { MOST_MS = 2000 };
    for (int i = 0; i < MOST_MS && (atomic_load(thread) == 0 || !is_asleep(atomic_load(thread))); i++)
        usleep(1000);
}

static void wait_for_waiters(interruption *self, int count) {
    atomic_store(&self->building, true);
    for (int i = 0; i < count; i++)
        wait_until_asleep(&self->waiters[i]);
}

static void wait_for_one(interruption *self) {
    wait_for_waiters(self, 1);
}

static void *ask_too(void *argument) {
    waiter *w = argument;
    arrive(w);
    w->hit = get(w->cache, &w->lookup);
    return NULL;
}

static cpr_cache_stats build_in_two_threads(cpr_guard guard, bool fail, bool *second_hit) {
    interruption self = {.act = wait_for_one, .fail = fail};
    const cpr_allocator allocator = {.allocate = allocate, .release = release, .context = &self};
    self.cache = cache_of(4, &allocator);
    waiter second = {.cache = self.cache, .lookup = lookup_of(1, VIEW(PLAIN), guard), .first = &self};
    const cpr_route *route;
    self.at = self.allocations + 2;
    assert_int_equal(pthread_create(&second.thread, NULL, ask_too, &second), 0);
    const cpr_status status = cpr_cache_get(self.cache, &second.lookup, &route, NULL, NULL);
    assert_int_equal(status, fail ? CPR_NO_MEMORY : CPR_OK);
    if (status == CPR_OK)
        cpr_route_release(route);
    pthread_join(second.thread, NULL);
    const cpr_cache_stats stats = cpr_cache_get_stats(self.cache);
    cpr_cache_free(self.cache);
    assert_int_equal(self.live, 0);
    *second_hit = second.hit;
    return stats;
}

static void two_threads_build_once(void **state) {
    (void)state;
    static const cpr_guard guards[] = {CPR_GUARD_VERSION, CPR_GUARD_CONTENT};
    for (int i = 0; i < 2; i++) {
        bool hit;
        const cpr_cache_stats stats = build_in_two_threads(guards[i], false, &hit);
        assert_int_equal(stats.builds, 1);
        assert_true(hit);
    }
}

static void *ask_for_other_rows(void *argument) {
    waiter *w = argument;
    arrive(w);
    get_refuses(w->cache, &w->lookup, (cpr_error){CPR_TOTAL_MISMATCH, -1, 17, 16});
    return NULL;
}

static void who_waited_is_held_to_the_rows_too(void **state) {
    (void)state;
    interruption self = {.act = wait_for_one};
    const cpr_allocator allocator = {.allocate = allocate, .release = release, .context = &self};
    self.cache = cache_of(4, &allocator);
    const cpr_lookup lookup = lookup_of(1, VIEW(PLAIN), CPR_GUARD_CONTENT);
    waiter second = {.cache = self.cache, .lookup = lookup, .first = &self};
    second.lookup.rows = 17;
    self.at = self.allocations + 2;
    assert_int_equal(pthread_create(&second.thread, NULL, ask_for_other_rows, &second), 0);
    assert_false(get(self.cache, &lookup));
    pthread_join(second.thread, NULL);
    cpr_cache_free(self.cache);
    assert_int_equal(self.live, 0);
}

static void *prebuild_too(void *argument) {
    waiter *w = argument;
    arrive(w);
    assert_int_equal(cpr_cache_prebuild(w->cache, &w->lookup, NULL), CPR_OK);
    return NULL;
}

/* The direction that the second thread found missing before it began to wait for the one that is in flight. */
static void ask_other_direction(interruption *self) {
    const cpr_lookup other = lookup_of(1, VIEW(PLAIN), CPR_GUARD_CONTENT);
    self->at = 0;
    wait_for_one(self);
    assert_false(get(self->cache, &other));
}

static void a_prebuild_that_waited_looks_at_both_again(void **state) {
    (void)state;
    interruption self = {.act = ask_other_direction};
    const cpr_allocator allocator = {.allocate = allocate, .release = release, .context = &self};
    self.cache = cache_of(4, &allocator);
    waiter second = {
        .cache = self.cache, .lookup = lookup_of(1, VIEW(PLAIN), CPR_GUARD_CONTENT), .first = &self};
    cpr_lookup reversed = second.lookup;
    reversed.source = second.lookup.target;
    reversed.target = second.lookup.source;
    self.at = self.allocations + 2;
    assert_int_equal(pthread_create(&second.thread, NULL, prebuild_too, &second), 0);
    assert_false(get(self.cache, &reversed));
    pthread_join(second.thread, NULL);
    const cpr_cache_stats stats = cpr_cache_get_stats(self.cache);
    assert_int_equal(stats.builds, 2);
    assert_int_equal(stats.entries, 2);
    cpr_cache_free(self.cache);
    assert_int_equal(self.live, 0);
}

static void wait_for_all(interruption *self) {
    wait_for_waiters(self, MOST_WAITERS);
}

/* It hangs if one of them is forgotten. */
static void a_build_wakes_all_who_wait(void **state) {
    (void)state;
    enum { SECONDS_TO_WAKE = 20 };
    interruption self = {.act = wait_for_all};
    const cpr_allocator allocator = {.allocate = allocate, .release = release, .context = &self};
    self.cache = cache_of(4, &allocator);
    waiter waiters[MOST_WAITERS];
    const cpr_lookup lookup = lookup_of(1, VIEW(PLAIN), CPR_GUARD_CONTENT);
    alarm(SECONDS_TO_WAKE);
    self.at = self.allocations + 2;
    for (int i = 0; i < MOST_WAITERS; i++) {
        waiters[i] = (waiter){.cache = self.cache, .lookup = lookup, .first = &self};
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, ask_too, &waiters[i]), 0);
    }
    assert_false(get(self.cache, &lookup));
    for (int i = 0; i < MOST_WAITERS; i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_true(waiters[i].hit);
    }
    alarm(0);
    assert_int_equal(cpr_cache_get_stats(self.cache).builds, 1);
    cpr_cache_free(self.cache);
}

static void a_build_that_fails_wakes_who_waits(void **state) {
    (void)state;
    bool hit;
    const cpr_cache_stats stats = build_in_two_threads(CPR_GUARD_CONTENT, true, &hit);
    assert_int_equal(stats.builds, 1);
    assert_int_equal(stats.misses, 1);
    assert_false(hit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_step_builds_once_a_batch),
        cmocka_unit_test(empty_sequences_are_no_difference_in_contents),
        cmocka_unit_test(one_rank_exchanges_nothing),
        cmocka_unit_test(what_is_not_packed_has_no_route),
        cmocka_unit_test(a_loader_reads_what_others_cannot),
        cmocka_unit_test(prebuilding_is_for_later),
        cmocka_unit_test(prebuilding_checks_rows_of_what_is_known),
        cmocka_unit_test(errors_are_those_of_building),
        cmocka_unit_test(bounds_must_be_possible),
        cmocka_unit_test(making_one_takes_memory),
        cmocka_unit_test(lack_of_memory_is_told_last),
        cmocka_unit_test(memory_follows_the_bound),
        cmocka_unit_test(version_looks_at_all_of_a_tensor),
        cmocka_unit_test(content_looks_at_every_boundary),
        cmocka_unit_test(a_view_is_read_with_its_stride),
        cmocka_unit_test(boundaries_with_one_hash_are_told_apart),
        cmocka_unit_test(a_view_of_other_entries_is_compared_to_its_end),
        cmocka_unit_test(resolve_reads_views_with_their_strides),
        cmocka_unit_test(resolve_compares_views_to_their_ends),
        cmocka_unit_test(bytes_are_those_that_the_allocator_gave),
        cmocka_unit_test(wider_bounds_keep_what_is_there),
        cmocka_unit_test(what_does_not_fit_is_handed_out),
        cmocka_unit_test(an_entry_takes_its_key_and_its_route),
        cmocka_unit_test(bytes_are_a_bound_to_the_last),
        cmocka_unit_test(a_route_outlives_its_cache),
        cmocka_unit_test(a_captured_route_stays),
        cmocka_unit_test(capturing_again_takes_no_more_memory),
        cmocka_unit_test(a_replay_is_for_its_own_route),
        cmocka_unit_test(captures_have_a_bound),
        cmocka_unit_test(captures_have_a_bound_of_bytes),
        cmocka_unit_test(narrower_bounds_wait_for_captures),
        cmocka_unit_test(a_captured_state_that_was_left_is_not_found_again),
        cmocka_unit_test(what_was_left_is_found_nowhere),
        cmocka_unit_test(captures_end_with_their_own_entry),
        cmocka_unit_test(what_is_not_kept_cannot_be_replayed),
        cmocka_unit_test(resolve_tells_the_first_difference),
        cmocka_unit_test(resolve_refuses_what_cannot_be_compared),
        cmocka_unit_test(resolve_trusts_what_it_cannot_read),
        cmocka_unit_test(absent_tensors_are_not_looked_at),
        cmocka_unit_test(absent_tensors_have_no_handle),
        cmocka_unit_test(a_verdict_falls_with_any_of_its_tensors),
        cmocka_unit_test(a_verdict_needs_every_generation),
        cmocka_unit_test(identities_are_held_while_they_are_known),
        cmocka_unit_test(a_build_that_is_overtaken_is_not_kept),
        cmocka_unit_test(a_write_during_a_lookup_is_seen),
        cmocka_unit_test(a_write_during_a_build_is_seen_by_the_next),
        cmocka_unit_test(an_overtaken_capture_is_not_kept),
        cmocka_unit_test(a_prebuild_may_lose_the_other_direction),
        cmocka_unit_test(an_overtaken_state_is_not_kept),
        cmocka_unit_test(a_shared_route_goes_with_the_last_reference),
        cmocka_unit_test(two_threads_build_once),
        cmocka_unit_test(who_waited_is_held_to_the_rows_too),
        cmocka_unit_test(a_prebuild_that_waited_looks_at_both_again),
        cmocka_unit_test(a_build_wakes_all_who_wait),
        cmocka_unit_test(a_build_that_fails_wakes_who_waits),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
