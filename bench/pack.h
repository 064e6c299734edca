/* SPDX-License-Identifier: Apache-2.0 */
/* Batches to measure with, memory that costs nothing, and floors: what the same bytes cost a plain copy or comparison. */
#ifndef CPROUTE_BENCH_PACK_H
#define CPROUTE_BENCH_PACK_H

#include "cproute/cproute.h"
#include <benchmark/benchmark.h>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/* `sequences` sequences of 2P times 3/4 of `chunk` tokens, of `chunk`, of 5/4 of it, in turn, and empty slots behind each. */
class pack {
  public:
    pack(int64_t sequences, int64_t ranks, int64_t chunk, int64_t slots = 0);
    /* For rank P/2. */
    cpr_route_request request(cpr_layout source = CPR_ZIGZAG, cpr_layout target = CPR_CONTIGUOUS) const;
    int64_t tokens() const {
        return boundaries_.back();
    }
    const std::vector<int64_t> &boundaries() const {
        return boundaries_;
    }

  private:
    int64_t ranks_;
    std::vector<int64_t> boundaries_;
};

/* Hands out one block after another from memory that was touched before; all of it is free again after reset(). So a build is measured
 * and not the system that gives it fresh pages. */
class arena {
  public:
    explicit arena(size_t bytes);
    cpr_allocator allocator();
    void reset() {
        used_ = 0;
    }

  private:
    std::vector<char> memory_;
    size_t used_ = 0;
    static void *allocate(void *context, size_t size);
    static void release(void *, void *, size_t) {
    }
};

struct route_deleter {
    void operator()(cpr_route *route) const {
        cpr_route_free(route);
    }
};
using route_ptr = std::unique_ptr<cpr_route, route_deleter>;

/* Ends the program if the request is refused. */
route_ptr build_route(const cpr_route_request &request);

/* What one round of a benchmark does: counters of the table. */
struct work {
    double items = 0; /* runs, rows or entries, as the name says */
    size_t written = 0, read = 0;
};

/* Registers `name`, and `name/memcpy` or `name/memcmp` if bytes are written or read. */
void add_benchmark(const std::string &name, const work &done, std::function<void()> round);

/* Runs all of a file's add_benchmark calls before main. */
struct benchmarks {
    explicit benchmarks(void (*add)()) {
        add();
    }
};

#endif
