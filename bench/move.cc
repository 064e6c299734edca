/* SPDX-License-Identifier: Apache-2.0 */
/* What is done with a route: its rows packed and scattered on the host, and the flat tensor written and read. */
#include "pack.h"

namespace {

struct moved {
    route_ptr route;
    std::vector<char> local, message;
};

void add_move(size_t row_bytes) {
    const pack batch(64, 8, 32);
    auto m = std::make_shared<moved>();
    m->route = build_route(batch.request());
    const auto rows = static_cast<size_t>(m->route->recv.rows);
    m->local.resize(rows * row_bytes, 1);
    m->message.resize(rows * row_bytes, 2);
    work done;
    done.items = static_cast<double>(rows);
    done.written = rows * row_bytes;
    const std::string size = "/row_bytes:" + std::to_string(row_bytes);
    add_benchmark("pack" + size, done, [m, row_bytes] {
        cpr_pack(m->route.get(), row_bytes, m->local.data(), m->message.data());
        benchmark::ClobberMemory();
    });
    add_benchmark("scatter" + size, done, [m, row_bytes] {
        cpr_scatter(m->route.get(), row_bytes, m->message.data(), m->local.data());
        benchmark::ClobberMemory();
    });
}

struct encoded {
    pack batch;
    route_ptr route;
    std::vector<int64_t> flat;
};

void add_flat(int64_t sequences) {
    auto e = std::make_shared<encoded>(encoded{pack(sequences, 8, 32), nullptr, {}});
    e->route = build_route(e->batch.request());
    int64_t count = 0;
    cpr_flat_size(e->route.get(), &count, nullptr);
    e->flat.resize(static_cast<size_t>(count));
    cpr_flat_encode(e->route.get(), e->flat.data(), count, nullptr);
    work written, read;
    written.items = read.items = static_cast<double>(count);
    written.written = read.read = e->flat.size() * sizeof(int64_t);
    const std::string size = "/S:" + std::to_string(sequences);
    add_benchmark("flat/encode" + size, written, [e, count] {
        cpr_flat_encode(e->route.get(), e->flat.data(), count, nullptr);
        benchmark::ClobberMemory();
    });
    add_benchmark("flat/decode" + size, read, [e, count] {
        cpr_flat_view view;
        benchmark::DoNotOptimize(cpr_flat_decode(e->flat.data(), count, e->batch.request().geometry, nullptr,
                                                 &view, nullptr));
    });
}

void add_all() {
    for (size_t row_bytes = 16; row_bytes <= 16384; row_bytes *= 8)
        add_move(row_bytes);
    for (int64_t sequences = 1; sequences <= 256; sequences *= 16)
        add_flat(sequences);
}

const benchmarks all(add_all);

} // namespace
