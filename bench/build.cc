/* SPDX-License-Identifier: Apache-2.0 */
/* What routes cost: as runs, as rows, for one rank and for all, over S, P and T; and to have a request validated. */
#include "pack.h"
#include <cinttypes>

namespace {

std::string name_of(const std::string &series, int64_t sequences, int64_t ranks, int64_t tokens) {
    return series + "/S:" + std::to_string(sequences) + "/P:" + std::to_string(ranks) +
           "/T:" + std::to_string(tokens);
}

struct built {
    pack batch;
    arena memory;
    built(const pack &of, size_t bytes) : batch(of), memory(bytes) {
    }
};

size_t bytes_of(const cpr_route *route) {
    return sizeof *route + static_cast<size_t>(route->send.count + route->recv.count) * sizeof(cpr_run);
}

double runs_of(const cpr_route *route) {
    return static_cast<double>(route->send.count + route->recv.count);
}

void add_build_of(const std::string &name, const pack &batch, cpr_layout source, cpr_layout target) {
    const route_ptr route = build_route(batch.request(source, target));
    const size_t bytes = bytes_of(route.get());
    auto b = std::make_shared<built>(batch, bytes);
    work done;
    done.items = runs_of(route.get());
    done.written = bytes;
    add_benchmark(name, done, [b, source, target] {
        const cpr_route_request request = b->batch.request(source, target);
        const cpr_allocator allocator = b->memory.allocator();
        cpr_route *made;
        benchmark::DoNotOptimize(cpr_route_build(&request, &allocator, &made, nullptr));
        b->memory.reset();
    });
}

void add_build(const std::string &series, int64_t sequences, int64_t ranks, int64_t chunk,
               cpr_layout source = CPR_ZIGZAG, cpr_layout target = CPR_CONTIGUOUS) {
    const pack batch(sequences, ranks, chunk);
    add_build_of(name_of(series, sequences, ranks, batch.tokens()), batch, source, target);
}

/* Boundaries of a static shape whose empty slots are not all at the end. */
void add_build_with_slots(int64_t sequences, int64_t ranks, int64_t chunk, int64_t slots) {
    const pack batch(sequences, ranks, chunk, slots);
    const std::string series = "build/slots:" + std::to_string(slots);
    add_build_of(name_of(series, sequences, ranks, batch.tokens()), batch, CPR_ZIGZAG, CPR_CONTIGUOUS);
}

/* Every pair of layouts in one direction; the other one finds the same two lists. */
void add_pairs(int64_t sequences, int64_t ranks, int64_t chunk) {
    for (int source = 0; source < CPR_LAYOUT_COUNT; source++)
        for (int target = source + 1; target < CPR_LAYOUT_COUNT; target++) {
            const auto from = static_cast<cpr_layout>(source), to = static_cast<cpr_layout>(target);
            const std::string series =
                std::string("build/pairs/") + cpr_layout_name(from) + "-" + cpr_layout_name(to);
            add_build(series, sequences, ranks, chunk, from, to);
        }
}

/* With malloc and free, as callers do who bring no allocator. */
void add_build_with_malloc(const std::string &series, int64_t sequences, int64_t ranks, int64_t chunk) {
    auto batch = std::make_shared<pack>(sequences, ranks, chunk);
    const route_ptr route = build_route(batch->request());
    work done;
    done.items = runs_of(route.get());
    add_benchmark(name_of(series, sequences, ranks, batch->tokens()), done, [batch] {
        const cpr_route_request request = batch->request();
        cpr_route *made;
        benchmark::DoNotOptimize(cpr_route_build(&request, nullptr, &made, nullptr));
        cpr_route_free(made);
    });
}

void add_group(int64_t sequences, int64_t ranks, int64_t chunk) {
    const pack batch(sequences, ranks, chunk);
    const cpr_route_request request = batch.request();
    cpr_route_group *group;
    if (cpr_route_group_build(&request, nullptr, &group, nullptr) != CPR_OK)
        return;
    work done;
    for (int64_t rank = 0; rank < ranks; rank++) {
        done.items += runs_of(group->routes[rank]);
        done.written += bytes_of(group->routes[rank]);
    }
    cpr_route_group_free(group);
    /* Blocks are rounded up to 64 bytes. */
    const size_t bytes = done.written + static_cast<size_t>(ranks) * 256;
    auto b = std::make_shared<built>(batch, bytes);
    add_benchmark(name_of("all_ranks", sequences, ranks, batch.tokens()), done, [b] {
        const cpr_route_request all = b->batch.request();
        const cpr_allocator allocator = b->memory.allocator();
        cpr_route_group *made;
        benchmark::DoNotOptimize(cpr_route_group_build(&all, &allocator, &made, nullptr));
        b->memory.reset();
    });
}

/* Refused by the last of all rules: validated and not built. */
void add_validation(int64_t sequences) {
    auto batch = std::make_shared<pack>(sequences, 8, 128);
    work done;
    done.items = static_cast<double>(sequences + 1);
    done.read = batch->boundaries().size() * sizeof(int64_t);
    add_benchmark(name_of("validate", sequences, 8, batch->tokens()), done, [batch] {
        cpr_route_request request = batch->request();
        request.tp_size = batch->tokens();
        cpr_route *made;
        benchmark::DoNotOptimize(cpr_route_build(&request, nullptr, &made, nullptr));
    });
}

/* Rows of the contiguous side, where they are no identity. */
void add_rows(const std::string &series, cpr_dtype dtype, int64_t sequences, int64_t ranks, int64_t chunk) {
    const pack batch(sequences, ranks, chunk);
    std::shared_ptr<cpr_route> route(build_route(batch.request()).release(), route_deleter());
    const auto rows = static_cast<size_t>(route->recv.rows);
    work done;
    done.items = static_cast<double>(rows);
    done.written = rows * (dtype == CPR_INT64 ? sizeof(int64_t) : sizeof(int32_t));
    auto memory = std::make_shared<std::vector<int64_t>>(rows);
    add_benchmark(name_of(series, sequences, ranks, batch.tokens()), done, [=] {
        cpr_route_rows(route.get(), CPR_RECV, dtype, memory->data(), route->recv.rows, nullptr);
        benchmark::ClobberMemory();
    });
}

/* The packs that are compared with the upstream builder: P, sequences, tokens of a chunk. */
const int64_t PACKS[][3] = {{4, 16, 768}, {4, 4096, 3}, {64, 4096, 1}};

void add_all() {
    for (int64_t sequences = 1; sequences <= 65536; sequences *= 4)
        add_build("build/by_S", sequences, 8, 128);
    add_build("build/alone", 64, 1, 128);
    for (int64_t ranks = 2; ranks <= 1024; ranks *= 2)
        add_build("build/by_P", 64, ranks, 128);
    for (int64_t chunk = 4; chunk <= INT64_C(1) << 30; chunk *= 128)
        add_build("build/by_T", 64, 8, chunk);
    for (int64_t slots = 1; slots <= 256; slots *= 16)
        add_build_with_slots(4096, 8, 128, slots);
    add_pairs(64, 8, 128);
    add_pairs(4096, 8, 16);
    for (int64_t sequences = 1; sequences <= 4096; sequences *= 4)
        add_group(sequences, 8, 128);
    for (int64_t ranks = 2; ranks <= 1024; ranks *= 4)
        add_group(16, ranks, 128);
    for (int64_t sequences = 1; sequences <= 65536; sequences *= 16)
        add_validation(sequences);
    for (const auto &p : PACKS) {
        add_build("build/packs", p[1], p[0], p[2]);
        add_build_with_malloc("build/packs_malloc", p[1], p[0], p[2]);
        /* One run a side: what is left is to validate boundaries and to hash them. */
        add_build("build/same", p[1], p[0], p[2], CPR_ZIGZAG, CPR_ZIGZAG);
        add_rows("rows32/packs", CPR_INT32, p[1], p[0], p[2]);
        add_rows("rows64/packs", CPR_INT64, p[1], p[0], p[2]);
    }
    add_build_with_malloc("build/packs_malloc", 64, 8, 128);
    for (int64_t chunk = 4; chunk <= 65536; chunk *= 16) {
        add_rows("rows32/by_chunk", CPR_INT32, 65536 / chunk, 8, chunk);
        add_rows("rows64/by_chunk", CPR_INT64, 65536 / chunk, 8, chunk);
    }
}

const benchmarks all(add_all);

} // namespace
