/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Laws of props that move rows, judged with the simulated ranks of one device in the place of the exchange on the host: the corpus
 * as it stands, at each case's own P, and drawn cases.
 */
#include "pack.h"
#include "tests.h"

#include "laws/laws.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SLOW_LAW = 20 }; /* one of so many cases goes to the law that builds everything again and again */

static cpr_status refuse(cpr_error *error, cpr_status status, int64_t index, int64_t got, int64_t wanted) {
    *error = (cpr_error){status, index, got, wanted};
    return status;
}

/* What is checked of shards, as cpr_exchange_host checks it; the simulation has no shards. */
static cpr_status check_shards(const cpr_route *const *routes, int64_t ranks, const cpr_shard *sources,
                               const cpr_shard *targets, cpr_error *error) {
    for (int64_t r = 0; r < ranks; r++)
        if (sources[r].layout != routes[r]->source)
            return refuse(error, CPR_LAYOUT_MISMATCH, r, sources[r].layout, routes[r]->source);
    for (int64_t r = 0; r < ranks; r++) {
        if (sources[r].rows != routes[r]->send.rows)
            return refuse(error, CPR_TOTAL_MISMATCH, r, sources[r].rows, routes[r]->send.rows);
        if (targets[r].rows != routes[r]->recv.rows)
            return refuse(error, CPR_TOTAL_MISMATCH, r, targets[r].rows, routes[r]->recv.rows);
    }
    return CPR_OK;
}

typedef struct device_shards {
    void *memory;
    void **rows; /* of rank r at r */
} device_shards;

static size_t shard_stride(const cpr_shard *shard, size_t row_bytes) {
    return ((size_t)shard->rows * row_bytes + 255) / 256 * 256;
}

static cudaError_t take_device_memory(device_shards *on_device, const cpr_shard *shards, int64_t ranks,
                                      size_t row_bytes) {
    size_t total = 1;
    for (int64_t r = 0; r < ranks; r++)
        total += shard_stride(&shards[r], row_bytes);
    on_device->rows = calloc((size_t)ranks, sizeof *on_device->rows);
    if (!on_device->rows)
        return cudaErrorMemoryAllocation;
    const cudaError_t result = cudaMalloc(&on_device->memory, total);
    char *at = on_device->memory;
    for (int64_t r = 0; r < ranks && result == cudaSuccess; r++) {
        on_device->rows[r] = at;
        at += shard_stride(&shards[r], row_bytes);
    }
    return result;
}

static void give_device_memory(device_shards *on_device) {
    cudaFree(on_device->memory);
    free(on_device->rows);
}

static cudaError_t copy_shards(const device_shards *on_device, const cpr_shard *shards, int64_t ranks,
                               size_t row_bytes, enum cudaMemcpyKind kind) {
    for (int64_t r = 0; r < ranks; r++) {
        const size_t bytes = (size_t)shards[r].rows * row_bytes;
        const bool up = kind == cudaMemcpyHostToDevice;
        const cudaError_t result = bytes == 0 ? cudaSuccess
                                   : up       ? cudaMemcpy(on_device->rows[r], shards[r].data, bytes, kind)
                                              : cudaMemcpy(shards[r].data, on_device->rows[r], bytes, kind);
        if (result != cudaSuccess)
            return result;
    }
    return cudaDeviceSynchronize();
}

static cpr_status move_shards(cpr_cuda_simulation *simulation, int64_t ranks, size_t row_bytes,
                              const cpr_shard *sources, cpr_shard *targets, cpr_error *error) {
    device_shards from = {0}, to = {0};
    cudaError_t result = take_device_memory(&from, sources, ranks, row_bytes);
    if (result == cudaSuccess)
        result = take_device_memory(&to, targets, ranks, row_bytes);
    if (result == cudaSuccess)
        result = copy_shards(&from, sources, ranks, row_bytes, cudaMemcpyHostToDevice);
    cpr_status status = CPR_OK;
    if (result == cudaSuccess)
        status = cpr_cuda_simulation_run(simulation, CPR_FORWARD, (const void *const *)from.rows, to.rows,
                                         NULL, error);
    if (result == cudaSuccess)
        result = cudaDeviceSynchronize();
    if (result == cudaSuccess && status == CPR_OK)
        result = copy_shards(&to, targets, ranks, row_bytes, cudaMemcpyDeviceToHost);
    give_device_memory(&from);
    give_device_memory(&to);
    return result == cudaSuccess ? status : refuse(error, CPR_INTERNAL, -1, result, 0);
}

static cpr_status exchange_on_gpu(const cpr_route *const *routes, int64_t ranks, size_t row_bytes,
                                  const cpr_shard *sources, cpr_shard *targets,
                                  const cpr_allocator *allocator, cpr_error *error) {
    cpr_error unused;
    if (!error)
        error = &unused;
    cpr_cuda_simulation *simulation = NULL;
    if (cpr_cuda_simulation_create(routes, ranks, row_bytes, allocator, &simulation, error) != CPR_OK)
        return error->status;
    if (check_shards(routes, ranks, sources, targets, error) == CPR_OK &&
        move_shards(simulation, ranks, row_bytes, sources, targets, error) == CPR_OK)
        for (int64_t r = 0; r < ranks; r++)
            targets[r].layout = routes[r]->target;
    cpr_cuda_simulation_free(simulation);
    return error->status;
}

static bool judge_case(const stage *s, const char *law_id,
                       void (*judge)(const route_case *, const route_engine *, verdict *),
                       const route_case *c, const engine_under_test *engine, const char *name) {
    verdict v = {.outcome = LAW_PASSED};
    stage_step(s, "law %s, case %s, P = %" PRId64, law_id, name, c->geometry.cp_size);
    judge(c, engine, &v);
    if (v.outcome == LAW_NOT_APPLICABLE)
        return true;
    s->report->cases++;
    return v.outcome == LAW_PASSED || stage_fail(s, "law %s, case %s, P = %" PRId64 ": %s: %s", law_id, name,
                                                 c->geometry.cp_size, v.reason, v.details);
}

static bool judge_laws(const stage *s, const route_case *c, const engine_under_test *engine, int64_t number,
                       const char *name) {
    return judge_case(s, "round_trip", judge_round_trip, c, engine, name) &&
           (number % SLOW_LAW != 0 || judge_case(s, "no_memory", judge_no_memory, c, engine, name));
}

bool test_laws(stage *s) {
    engine_under_test engine = the_engine;
    engine.exchange_host = exchange_on_gpu;
    route_case *c = calloc(1, sizeof *c);
    bool good = c || stage_fail(s, "no memory for a case");
    const int64_t step = s->options->quick ? 20 : 1, most_ranks = 16;
    for (int64_t i = 0; good && i < corpus_count(); i += step)
        if (corpus_case(i, c) && c->geometry.cp_size <= most_ranks)
            good = judge_laws(s, c, &engine, i, corpus_id(i));
    uint64_t state = s->options->seed;
    for (int64_t i = 0; good && i < s->options->cases; i += step) {
        choices from = choices_from_seed(random_next(&state), NULL);
        route_case_draw(&from, &CASE_BOUNDS_DRAWN, c);
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "drawn %" PRId64, i);
        good = judge_laws(s, c, &engine, i, name);
    }
    if (good && s->report->cases == 0)
        good = stage_fail(s, "no law applied to any case");
    free(c);
    return good;
}
