/* SPDX-License-Identifier: Apache-2.0 */
#include "pack.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>

pack::pack(int64_t sequences, int64_t ranks, int64_t chunk, int64_t slots) : ranks_(ranks), boundaries_{0} {
    for (int64_t i = 0; i < sequences; i++) {
        const int64_t length = chunk + (i % 3 - 1) * (chunk / 4);
        boundaries_.push_back(boundaries_.back() + 2 * ranks * length);
        boundaries_.insert(boundaries_.end(), static_cast<size_t>(slots), boundaries_.back());
    }
}

cpr_route_request pack::request(cpr_layout source, cpr_layout target) const {
    cpr_route_request request = {};
    request.cu_seqlens = cpr_cu_seqlens_int64(boundaries_.data(), static_cast<int64_t>(boundaries_.size()));
    request.rows = tokens();
    request.geometry = {ranks_, ranks_ / 2};
    request.source = source;
    request.target = target;
    return request;
}

arena::arena(size_t bytes) : memory_(bytes + 4096) {
}

cpr_allocator arena::allocator() {
    return {allocate, release, this};
}

void *arena::allocate(void *context, size_t size) {
    auto *self = static_cast<arena *>(context);
    const size_t begin = self->used_;
    const size_t end = begin + (size + 63) / 64 * 64;
    if (end > self->memory_.size())
        return nullptr;
    self->used_ = end;
    return self->memory_.data() + begin;
}

route_ptr build_route(const cpr_route_request &request) {
    cpr_route *route = nullptr;
    cpr_error error;
    if (cpr_route_build(&request, nullptr, &route, &error) != CPR_OK) {
        std::fprintf(stderr, "bench: a request is refused: %s\n", cpr_status_name(error.status));
        std::exit(1);
    }
    return route_ptr(route);
}

namespace {

void run_rounds(benchmark::State &state, const work &done, const std::function<void()> &round) {
    for (auto _ : state)
        round();
    state.counters["items"] = done.items;
    state.counters["bytes"] = static_cast<double>(done.written + done.read);
}

/* Floors are measured with what they do, in memory of their own. */
void copy_bytes(benchmark::State &state, size_t bytes) {
    const std::vector<char> from(bytes, 1);
    std::vector<char> to(bytes, 2);
    for (auto _ : state) {
        std::memcpy(to.data(), from.data(), bytes);
        benchmark::ClobberMemory();
    }
}

void compare_bytes(benchmark::State &state, size_t bytes) {
    const std::vector<char> a(bytes, 1), b(bytes, 1);
    for (auto _ : state) {
        benchmark::ClobberMemory();
        benchmark::DoNotOptimize(std::memcmp(a.data(), b.data(), bytes));
    }
}

} // namespace

void add_benchmark(const std::string &name, const work &done, std::function<void()> round) {
    benchmark::RegisterBenchmark(name.c_str(), [done, round = std::move(round)](benchmark::State &state) {
        run_rounds(state, done, round);
    });
    if (done.written > 0)
        benchmark::RegisterBenchmark((name + "/memcpy").c_str(), copy_bytes, done.written);
    if (done.read > 0)
        benchmark::RegisterBenchmark((name + "/memcmp").c_str(), compare_bytes, done.read);
}
