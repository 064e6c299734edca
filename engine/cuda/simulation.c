/* SPDX-License-Identifier: Apache-2.0 */
/* All ranks on one device: the plans and kernels of exchanges, and copies from buffer to buffer in place of NCCL. */
#include "allocator.h"
#include "capture.h"
#include "error.h"
#include "plan.h"

struct cpr_cuda_simulation {
    int64_t cp_size;
    int64_t planned; /* plans that are made: all but while it is created */
    cpr_cuda_plan *plans;
    cpr_allocator allocator;
};

/* The exchange on the host checks what it is given before it moves rows of no bytes. */
static cpr_status check_routes(const cpr_route *const *routes, int64_t cp_size,
                               const cpr_allocator *allocator, cpr_error *error) {
    if (cp_size < 1 || cp_size > CPR_CP_SIZE_MAX) {
        return cpr_fail(error, CPR_BAD_CP_SIZE, -1, cp_size, cp_size < 1 ? 1 : CPR_CP_SIZE_MAX);
    }
    for (int64_t r = 0; r < cp_size; r++) {
        if (routes[r] == NULL) {
            return cpr_fail(error, CPR_INTERNAL, r, 0, 0);
        }
    }
    const int64_t count = 2 * cp_size;
    cpr_shard *shards = cpr_allocate(allocator, count, sizeof *shards);
    if (shards == NULL) {
        return cpr_fail_no_memory(error);
    }
    for (int64_t r = 0; r < cp_size; r++) {
        shards[r] = (cpr_shard){.rows = routes[r]->send.rows, .layout = routes[r]->source};
        shards[cp_size + r] = (cpr_shard){.rows = routes[r]->recv.rows};
    }
    const cpr_status status =
        cpr_exchange_host(routes, cp_size, 0, shards, shards + cp_size, allocator, error);
    cpr_release(allocator, shards, count, sizeof *shards);
    return status;
}

void cpr_cuda_simulation_free(cpr_cuda_simulation *simulation) {
    if (simulation == NULL) {
        return;
    }
    const cpr_allocator allocator = simulation->allocator;
    const cpr_capture_mode before = cpr_capture_set_aside();
    for (int64_t r = 0; r < simulation->planned; r++) {
        cpr_cuda_plan_free(&simulation->plans[r]);
    }
    cpr_capture_resume(before);
    cpr_release(&allocator, simulation->plans, simulation->cp_size, sizeof *simulation->plans);
    cpr_release(&allocator, simulation, 1, sizeof *simulation);
}

static cpr_status plan_all(cpr_cuda_simulation *simulation, const cpr_route *const *routes, size_t row_bytes,
                           cpr_error *error) {
    for (int64_t r = 0; r < simulation->cp_size; r++) {
        if (cpr_cuda_plan_make(routes[r], row_bytes, &simulation->allocator, &simulation->plans[r], error) !=
            CPR_OK) {
            return error->status;
        }
        simulation->planned++;
    }
    return CPR_OK;
}

static cpr_status plan_aside(cpr_cuda_simulation *simulation, const cpr_route *const *routes,
                             size_t row_bytes, cpr_error *error) {
    const cpr_capture_mode before = cpr_capture_set_aside();
    (void)plan_all(simulation, routes, row_bytes, error);
    cpr_capture_resume(before);
    return error->status;
}

static cpr_cuda_simulation *allocate(int64_t cp_size, const cpr_allocator *allocator) {
    cpr_cuda_simulation *simulation = cpr_allocate(allocator, 1, sizeof *simulation);
    cpr_cuda_plan *plans = cpr_allocate(allocator, cp_size, sizeof *plans);
    if (simulation == NULL || plans == NULL) {
        cpr_release(allocator, simulation, 1, sizeof *simulation);
        cpr_release(allocator, plans, cp_size, sizeof *plans);
        return NULL;
    }
    *simulation = (cpr_cuda_simulation){.cp_size = cp_size, .plans = plans, .allocator = *allocator};
    return simulation;
}

cpr_status cpr_cuda_simulation_create(const cpr_route *const *routes, int64_t cp_size, size_t row_bytes,
                                      const cpr_allocator *allocator, cpr_cuda_simulation **simulation,
                                      cpr_error *error) {
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (check_routes(routes, cp_size, &chosen, outcome) != CPR_OK) {
        return outcome->status;
    }
    cpr_cuda_simulation *made = allocate(cp_size, &chosen);
    if (made == NULL) {
        return cpr_fail_no_memory(outcome);
    }
    if (plan_aside(made, routes, row_bytes, outcome) != CPR_OK) {
        cpr_cuda_simulation_free(made);
        return outcome->status;
    }
    *simulation = made;
    return cpr_succeed(outcome);
}

/* One run. */
typedef struct conversion {
    const cpr_cuda_simulation *simulation;
    cpr_direction direction;
    const void *const *sources;
    void *const *targets;
    cudaStream_t stream;
} conversion;

/* There is one: the routes were checked to fit. */
static const cpr_row_message *message_from(const cpr_row_side *side, int64_t peer) {
    const cpr_row_message *message = side->messages;
    while (message->peer != peer) {
        message++;
    }
    return message;
}

static cudaError_t deliver_from(const conversion *c, int64_t sender) {
    const cpr_cuda_way way = cpr_cuda_way_of(c->direction);
    const cpr_cuda_plan *out = &c->simulation->plans[sender];
    const cpr_row_side *lists = &out->lists.sides[way.out];
    cudaError_t result = cudaSuccess;
    for (int64_t i = 0; i < lists->message_count && result == cudaSuccess; i++) {
        const cpr_row_message *sent = &lists->messages[i];
        const cpr_cuda_plan *in = &c->simulation->plans[sent->peer];
        const cpr_row_message *received = message_from(&in->lists.sides[way.in], sender);
        result = cudaMemcpyAsync(cpr_cuda_plan_message(in, way.in, c->targets[sent->peer], received),
                                 cpr_cuda_plan_message(out, way.out, c->sources[sender], sent),
                                 (size_t)sent->rows * out->row_bytes, cudaMemcpyDeviceToDevice, c->stream);
    }
    return result;
}

static cudaError_t pack_of(const conversion *c, int64_t rank) {
    return cpr_cuda_plan_pack(&c->simulation->plans[rank], c->direction, c->sources[rank], c->stream);
}

static cudaError_t own_of(const conversion *c, int64_t rank) {
    const cpr_cuda_plan *plan = &c->simulation->plans[rank];
    return cpr_cuda_plan_move_own(plan, c->direction, c->sources[rank], c->targets[rank],
                                  cpr_cuda_plan_all_blocks(plan), c->stream);
}

static cudaError_t scatter_of(const conversion *c, int64_t rank) {
    return cpr_cuda_plan_scatter(&c->simulation->plans[rank], c->direction, c->targets[rank], c->stream);
}

/* Each for all ranks before the next: as ranks that run at once would have done it. */
static cudaError_t convert(const conversion *c) {
    static cudaError_t (*const STEPS[])(const conversion *, int64_t) = {pack_of, deliver_from, own_of,
                                                                        scatter_of};
    for (size_t step = 0; step < sizeof STEPS / sizeof STEPS[0]; step++) {
        for (int64_t rank = 0; rank < c->simulation->cp_size; rank++) {
            const cudaError_t result = STEPS[step](c, rank);
            if (result != cudaSuccess) {
                return result;
            }
        }
    }
    return cudaSuccess;
}

static cpr_rows rows_of(const conversion *c, cpr_side side, int64_t rank, const void *at) {
    return (cpr_rows){at, c->simulation->plans[rank].lists.sides[side].rows};
}

/* Of a rank's target with what other ranks have. */
static cpr_status check_apart_from_others(const conversion *c, int64_t rank, cpr_error *error) {
    const cpr_cuda_way way = cpr_cuda_way_of(c->direction);
    const size_t row_bytes = c->simulation->plans[rank].row_bytes;
    const cpr_rows target = rows_of(c, way.in, rank, c->targets[rank]);
    for (int64_t other = 0; other < c->simulation->cp_size; other++) {
        const cpr_rows theirs[] = {rows_of(c, way.out, other, c->sources[other]),
                                   rows_of(c, way.in, other, c->targets[other])};
        if (other != rank && (cpr_rows_check(&theirs[0], &target, row_bytes, error) != CPR_OK ||
                              cpr_rows_check(&theirs[1], &target, row_bytes, error) != CPR_OK)) {
            return cpr_fail(error, CPR_BAD_ROW, rank, other, 0);
        }
    }
    return CPR_OK;
}

static cpr_status check_call(const conversion *c, cpr_error *error) {
    for (int64_t rank = 0; rank < c->simulation->cp_size; rank++) {
        if (cpr_cuda_plan_check_call(&c->simulation->plans[rank], c->direction, c->sources[rank],
                                     c->targets[rank], error) != CPR_OK) {
            return error->status;
        }
    }
    for (int64_t rank = 0; rank < c->simulation->cp_size; rank++) {
        if (check_apart_from_others(c, rank, error) != CPR_OK) {
            return error->status;
        }
    }
    return CPR_OK;
}

cpr_status cpr_cuda_simulation_run(cpr_cuda_simulation *simulation, cpr_direction direction,
                                   const void *const *sources, void *const *targets, cudaStream_t stream,
                                   cpr_error *error) {
    const conversion c = {simulation, direction, sources, targets, stream};
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (check_call(&c, outcome) != CPR_OK) {
        return outcome->status;
    }
    const cudaError_t result = convert(&c);
    return result == cudaSuccess ? cpr_succeed(outcome) : cpr_cuda_failed(result, outcome);
}
