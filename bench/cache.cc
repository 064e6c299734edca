/* SPDX-License-Identifier: Apache-2.0 */
/* What a hit costs, against the floor of comparing the same bytes; and a training step. */
#include "cproute/cproute.h"
#include <benchmark/benchmark.h>
#include <cstring>
#include <vector>

extern "C" {
#include "laws/cache_scenario.h"
}

namespace {

std::vector<int32_t> boundaries_of(int64_t sequences) {
    std::vector<int32_t> entries;
    for (int64_t i = 0; i <= sequences; i++)
        entries.push_back(static_cast<int32_t>(16 * i));
    return entries;
}

cpr_cache *make_cache() {
    cpr_cache_options options = {};
    options.max_entries = 256;
    cpr_cache *cache = nullptr;
    cpr_cache_create(&options, nullptr, &cache, nullptr);
    return cache;
}

cpr_lookup lookup_of(const std::vector<int32_t> &entries, cpr_guard guard) {
    cpr_lookup lookup = {};
    lookup.tensor.handle = 1;
    lookup.tensor.storage = 1;
    lookup.tensor.stride = 1;
    lookup.tensor.has_generation = true;
    lookup.tensor.view = cpr_cu_seqlens_int32(entries.data(), static_cast<int64_t>(entries.size()));
    lookup.rows = entries.back();
    lookup.geometry = {4, 1};
    lookup.source = CPR_ZIGZAG;
    lookup.target = CPR_CONTIGUOUS;
    lookup.guard = guard;
    return lookup;
}

void look_up(benchmark::State &state, const cpr_lookup &lookup, cpr_cache *cache) {
    for (auto _ : state) {
        const cpr_route *route;
        if (cpr_cache_get(cache, &lookup, &route, nullptr, nullptr) != CPR_OK)
            state.SkipWithError("refused");
        benchmark::DoNotOptimize(route);
        cpr_route_release(route);
    }
}

void hit(benchmark::State &state, cpr_guard guard) {
    const auto entries = boundaries_of(state.range(0));
    cpr_cache *cache = make_cache();
    look_up(state, lookup_of(entries, guard), cache);
    state.counters["builds"] = static_cast<double>(cpr_cache_get_stats(cache).builds);
    cpr_cache_free(cache);
}

/* The contents are known from another tensor with other memory: found by hash. */
void hit_of_other_tensor(benchmark::State &state) {
    const auto entries = boundaries_of(state.range(0));
    cpr_cache *cache = make_cache();
    cpr_lookup lookup = lookup_of(entries, CPR_GUARD_CONTENT);
    std::vector<int64_t> wide(entries.begin(), entries.end());
    const cpr_route *route;
    cpr_cache_get(cache, &lookup, &route, nullptr, nullptr);
    cpr_route_release(route);
    lookup.tensor.view = cpr_cu_seqlens_int64(wide.data(), static_cast<int64_t>(wide.size()));
    look_up(state, lookup, cache);
    cpr_cache_free(cache);
}

void compare_bytes(benchmark::State &state) {
    const auto a = boundaries_of(state.range(0)), b = a;
    for (auto _ : state) {
        benchmark::ClobberMemory();
        benchmark::DoNotOptimize(std::memcmp(a.data(), b.data(), a.size() * sizeof(int32_t)));
    }
}

void build(benchmark::State &state) {
    const auto entries = boundaries_of(state.range(0));
    const cpr_lookup lookup = lookup_of(entries, CPR_GUARD_CONTENT);
    cpr_route_request request = {};
    request.cu_seqlens = lookup.tensor.view;
    request.rows = lookup.rows;
    request.geometry = lookup.geometry;
    request.source = lookup.source;
    request.target = lookup.target;
    for (auto _ : state) {
        cpr_route *route;
        cpr_route_build(&request, nullptr, &route, nullptr);
        cpr_route_free(route);
    }
}

/* Every lookup is the first of its contents. */
void miss(benchmark::State &state, cpr_guard guard) {
    const auto entries = boundaries_of(state.range(0));
    cpr_cache *cache = make_cache();
    const cpr_lookup lookup = lookup_of(entries, guard);
    for (auto _ : state) {
        const cpr_route *route;
        if (cpr_cache_get(cache, &lookup, &route, nullptr, nullptr) != CPR_OK)
            state.SkipWithError("refused");
        cpr_route_release(route);
        cpr_cache_clear(cache);
    }
    cpr_cache_free(cache);
}

/* 10 micro-batches x 24 layers x 2 directions x forward, recompute and backward. */
void training_step(benchmark::State &state, cpr_guard guard) {
    cpr_cache *cache = make_cache();
    scenario s = {guard, state.range(0), 4, 0};
    for (auto _ : state) {
        if (scenario_run(cache, &s) != CPR_OK)
            state.SkipWithError("refused");
        s.step++;
        if (guard == CPR_GUARD_CONTENT) /* as if no step had batches of another */
            cpr_cache_clear(cache);
    }
    const cpr_cache_stats stats = cpr_cache_get_stats(cache);
    const auto steps = static_cast<double>(s.step);
    state.counters["builds/step"] = static_cast<double>(stats.builds) / steps;
    state.counters["checks/step"] = static_cast<double>(stats.checks) / steps;
    state.counters["hits/step"] = static_cast<double>(stats.hits) / steps;
    state.counters["per use"] = benchmark::Counter(static_cast<double>(SCENARIO_LOOKUPS) * steps,
                                                   benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
    cpr_cache_free(cache);
}

BENCHMARK_CAPTURE(hit, version, CPR_GUARD_VERSION)->Name("cache/hit/version")->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(hit, content, CPR_GUARD_CONTENT)->Name("cache/hit/content")->Arg(64)->Arg(4096);
BENCHMARK(hit_of_other_tensor)->Name("cache/hit/other_tensor")->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(miss, version, CPR_GUARD_VERSION)->Name("cache/miss/version")->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(miss, content, CPR_GUARD_CONTENT)->Name("cache/miss/content")->Arg(64)->Arg(4096);
BENCHMARK(compare_bytes)->Name("cache/memcmp")->Arg(64)->Arg(4096);
BENCHMARK(build)->Name("cache/build")->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(training_step, version, CPR_GUARD_VERSION)
    ->Name("cache/step/version")
    ->Arg(64)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(training_step, content, CPR_GUARD_CONTENT)
    ->Name("cache/step/content")
    ->Arg(64)
    ->Unit(benchmark::kMicrosecond);

} // namespace
