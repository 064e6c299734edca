/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exchange over NCCL. On the caller's stream: pack, grouped sends and receives with all other ranks, scatter. The rows that a
 * rank keeps go from source to target in one pass on a stream beside it while messages travel, with blocks on part of the
 * multiprocessors only, so that NCCL finds room for its own:
 *
 *     stream   pack > fork > all_to_all > scatter > join
 *     beside            \--- own rows ----------------/
 *
 * The two write different rows of the target. Fork and join are events, so a capture of the caller's stream takes in both.
 */
#include "allocator.h"
#include "capture.h"
#include "error.h"
#include "group.h"
#include "move_rows.h"
#include "plan.h"

struct cpr_cuda_exchange {
    cpr_cuda_group *group;
    cpr_cuda_plan plan;
    cpr_range_names names[2]; /* [CPR_FORWARD] and [CPR_BACKWARD] */
    cpr_allocator allocator;
};

/*==============================================================================
 * MARK: - Creating and freeing
 *============================================================================*/

/* That a route is for another place is no failure of its own: all ranks see it. But no plan is made of it. */
static bool is_for(const cpr_route *route, const cpr_cuda_group *group) {
    return route->geometry.cp_rank == group->rank && route->geometry.cp_size == group->size;
}

/* What this rank needs by itself. *made stays NULL if it fails. */
static cpr_status prepare(cpr_cuda_group *group, const cpr_route *route, size_t row_bytes,
                          const cpr_allocator *allocator, cpr_cuda_exchange **made, cpr_error *error) {
    if (route == NULL) {
        return cpr_fail(error, CPR_INTERNAL, -1, 0, 0);
    }
    if (!is_for(route, group)) {
        return cpr_succeed(error);
    }
    if (cpr_cuda_group_is_here(group, error) != CPR_OK) {
        return error->status;
    }
    cpr_cuda_exchange *exchange = cpr_allocate(allocator, 1, sizeof *exchange);
    if (exchange == NULL) {
        return cpr_fail_no_memory(error);
    }
    if (cpr_cuda_plan_make(route, row_bytes, allocator, &exchange->plan, error) != CPR_OK) {
        cpr_release(allocator, exchange, 1, sizeof *exchange);
        return error->status;
    }
    exchange->names[CPR_FORWARD] = cpr_range_names_of(route->source, route->target);
    exchange->names[CPR_BACKWARD] = cpr_range_names_of(route->target, route->source);
    exchange->group = group;
    exchange->allocator = *allocator;
    *made = exchange;
    return cpr_succeed(error);
}

static void release(cpr_cuda_exchange *exchange) {
    if (exchange == NULL) {
        return;
    }
    const cpr_allocator allocator = exchange->allocator;
    cpr_cuda_plan_free(&exchange->plan);
    cpr_release(&allocator, exchange, 1, sizeof *exchange);
}

static cpr_status create(cpr_cuda_group *group, const cpr_route *route, size_t row_bytes,
                         const cpr_allocator *allocator, cpr_cuda_exchange **exchange, cpr_error *error) {
    cpr_error own;
    cpr_cuda_exchange *made = NULL;
    (void)prepare(group, route, row_bytes, allocator, &made, &own);
    if (cpr_cuda_group_agree(group, &own, route, row_bytes, error) != CPR_OK) {
        release(made);
        return error->status;
    }
    *exchange = made;
    return CPR_OK;
}

cpr_status cpr_cuda_exchange_create(cpr_cuda_group *group, const cpr_route *route, size_t row_bytes,
                                    const cpr_allocator *allocator, cpr_cuda_exchange **exchange,
                                    cpr_error *error) {
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (cpr_cuda_group_usable(group, outcome) != CPR_OK) {
        return outcome->status;
    }
    const cpr_layout source = route != NULL ? route->source : CPR_ZIGZAG;
    const cpr_layout target = route != NULL ? route->target : CPR_ZIGZAG;
    const cpr_range_names names = cpr_range_names_of(source, target);
    const cpr_capture_mode before = cpr_capture_set_aside();
    cpr_cuda_range_begin(group, names.text[CPR_RANGE_ROUTE]);
    (void)create(group, route, row_bytes, &chosen, exchange, outcome);
    cpr_cuda_range_end(group);
    cpr_capture_resume(before);
    return outcome->status;
}

static cudaError_t is_event_done(void *event) {
    return cudaEventQuery(*(cudaEvent_t *)event);
}

void cpr_cuda_exchange_free(cpr_cuda_exchange *exchange) {
    if (exchange == NULL) {
        return;
    }
    cpr_error unwanted;
    const cpr_capture_mode before = cpr_capture_set_aside();
    (void)cpr_cuda_group_await(exchange->group, is_event_done, &exchange->plan.ended, &unwanted);
    release(exchange);
    cpr_capture_resume(before);
}

size_t cpr_cuda_exchange_bytes(const cpr_cuda_exchange *exchange) {
    return exchange->plan.memory_bytes;
}

/*==============================================================================
 * MARK: - Running
 *============================================================================*/

/* One run. */
typedef struct conversion {
    cpr_cuda_group *group;
    const cpr_cuda_plan *plan;
    const cpr_range_names *names;
    cpr_direction direction;
    const void *source;
    void *target;
    cudaStream_t stream;
    bool captured;
} conversion;

static cpr_status checked(const conversion *c, cudaError_t result, cpr_error *error) {
    return result == cudaSuccess ? CPR_OK
                                 : cpr_cuda_group_enqueue_failed(c->group, c->captured, result, error);
}

static void range_begin(const conversion *c, cpr_range range) {
    cpr_cuda_range_begin(c->group, c->names->text[range]);
}

static cpr_status pack(const conversion *c, cpr_error *error) {
    range_begin(c, CPR_RANGE_PACK);
    const cudaError_t result = cpr_cuda_plan_pack(c->plan, c->direction, c->source, c->stream);
    cpr_cuda_range_end(c->group);
    return checked(c, result, error);
}

static ncclResult_t send_all(const conversion *c) {
    const cpr_side side = cpr_cuda_way_of(c->direction).out;
    const cpr_row_side *lists = &c->plan->lists.sides[side];
    ncclResult_t result = ncclSuccess;
    for (int64_t i = 0; i < lists->message_count && result == ncclSuccess; i++) {
        const cpr_row_message *message = &lists->messages[i];
        result = ncclSend(cpr_cuda_plan_message(c->plan, side, c->source, message),
                          (size_t)message->rows * c->plan->row_bytes, ncclInt8, (int)message->peer,
                          c->group->comm, c->stream);
    }
    return result;
}

static ncclResult_t receive_all(const conversion *c) {
    const cpr_side side = cpr_cuda_way_of(c->direction).in;
    const cpr_row_side *lists = &c->plan->lists.sides[side];
    ncclResult_t result = ncclSuccess;
    for (int64_t i = 0; i < lists->message_count && result == ncclSuccess; i++) {
        const cpr_row_message *message = &lists->messages[i];
        result = ncclRecv(cpr_cuda_plan_message(c->plan, side, c->target, message),
                          (size_t)message->rows * c->plan->row_bytes, ncclInt8, (int)message->peer,
                          c->group->comm, c->stream);
    }
    return result;
}

/* Also with nothing to send or to receive. */
static cpr_status exchange_messages(const conversion *c, cpr_error *error) {
    ncclResult_t result = ncclGroupStart();
    if (result == ncclSuccess) {
        result = send_all(c);
        if (result == ncclSuccess) {
            result = receive_all(c);
        }
        const ncclResult_t end = ncclGroupEnd();
        result = result == ncclSuccess ? end : result;
    }
    return cpr_cuda_group_settle(c->group, result, error);
}

static bool has_messages(const cpr_cuda_plan *plan) {
    return plan->lists.sides[CPR_SEND].message_count + plan->lists.sides[CPR_RECV].message_count > 0;
}

/* Nothing is there to run beside a group of one, or beside rows that all go elsewhere. */
static bool forks(const conversion *c) {
    return has_messages(c->plan) && c->plan->own.rows > 0;
}

static int blocks_beside(const cpr_cuda_plan *plan) {
    const int most = plan->multiprocessors * 3 / 4;
    return most > 0 ? most : 1;
}

static cudaError_t move_own_beside(const conversion *c) {
    const cpr_cuda_plan *plan = c->plan;
    cudaError_t result = cudaStreamWaitEvent(plan->beside, plan->forked, 0);
    if (result == cudaSuccess) {
        result = cpr_cuda_plan_move_own(plan, c->direction, c->source, c->target, blocks_beside(plan),
                                        plan->beside);
    }
    return result == cudaSuccess ? cudaEventRecord(plan->joined, plan->beside) : result;
}

static cudaError_t move_own_in_line(const conversion *c) {
    return cpr_cuda_plan_move_own(c->plan, c->direction, c->source, c->target,
                                  cpr_cuda_plan_all_blocks(c->plan), c->stream);
}

/* Messages are enqueued first, so that they are under way when own rows begin to move. */
static cpr_status all_to_all_in_range(const conversion *c, cpr_error *error) {
    const bool fork = forks(c);
    if (fork && checked(c, cudaEventRecord(c->plan->forked, c->stream), error) != CPR_OK) {
        return error->status;
    }
    if (exchange_messages(c, error) != CPR_OK) {
        return error->status;
    }
    return checked(c, fork ? move_own_beside(c) : move_own_in_line(c), error);
}

static cpr_status all_to_all(const conversion *c, cpr_error *error) {
    range_begin(c, CPR_RANGE_ALL_TO_ALL);
    const cpr_status status = all_to_all_in_range(c, error);
    cpr_cuda_range_end(c->group);
    return status;
}

static cpr_status scatter(const conversion *c, cpr_error *error) {
    range_begin(c, CPR_RANGE_SCATTER);
    cudaError_t result = cpr_cuda_plan_scatter(c->plan, c->direction, c->target, c->stream);
    if (result == cudaSuccess && forks(c)) {
        result = cudaStreamWaitEvent(c->stream, c->plan->joined, 0);
    }
    cpr_cuda_range_end(c->group);
    return checked(c, result, error);
}

/* For cpr_cuda_exchange_free, and for later runs. What a graph replays is its owner's to wait for. */
static cpr_status note_end(const conversion *c, cpr_error *error) {
    if (c->captured) {
        return CPR_OK;
    }
    const cudaError_t result = cudaEventRecord(c->plan->ended, c->stream);
    return checked(c, result == cudaSuccess ? cpr_cuda_group_count_run(c->group, c->stream) : result, error);
}

/* If it fails between fork and join, own rows still move, which no wait for the caller's stream would notice. */
static cpr_status enqueue_in_range(const conversion *c, cpr_error *error) {
    if (pack(c, error) != CPR_OK || all_to_all(c, error) != CPR_OK || scatter(c, error) != CPR_OK ||
        note_end(c, error) != CPR_OK) {
        if (!c->captured) {
            cpr_cuda_group_drain(c->group, c->plan->beside);
        }
        return error->status;
    }
    return CPR_OK;
}

static cpr_status enqueue(const conversion *c, cpr_error *error) {
    if (!c->captured && cpr_cuda_group_admit(c->group, error) != CPR_OK) {
        return error->status;
    }
    range_begin(c, CPR_RANGE_SWAP);
    const cpr_status status = enqueue_in_range(c, error);
    cpr_cuda_range_end(c->group);
    return status;
}

/* A capture of an earlier run that has not ended holds the stream beside, which can then take no other run. */
static cpr_status check_beside(const conversion *c, cpr_error *error) {
    bool held = false;
    if (!c->captured && cpr_cuda_group_ask_captured(c->group, c->plan->beside, &held, error) != CPR_OK) {
        return error->status;
    }
    return held ? cpr_cuda_failed(cudaErrorStreamCaptureIsolation, error) : CPR_OK;
}

cpr_status cpr_cuda_exchange_run(cpr_cuda_exchange *exchange, cpr_direction direction, const void *source,
                                 void *target, cudaStream_t stream, cpr_error *error) {
    conversion c = {.group = exchange->group,
                    .plan = &exchange->plan,
                    .direction = direction,
                    .source = source,
                    .target = target,
                    .stream = stream};
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (cpr_cuda_group_usable(c.group, outcome) != CPR_OK ||
        cpr_cuda_plan_check_call(c.plan, direction, source, target, outcome) != CPR_OK ||
        cpr_cuda_group_is_here(c.group, outcome) != CPR_OK ||
        cpr_cuda_group_ask_captured(c.group, stream, &c.captured, outcome) != CPR_OK ||
        check_beside(&c, outcome) != CPR_OK) {
        return outcome->status;
    }
    c.names = &exchange->names[direction];
    return enqueue(&c, outcome) == CPR_OK ? cpr_succeed(outcome) : outcome->status;
}

/*==============================================================================
 * MARK: - Kernels alone
 *============================================================================*/

/* `moves` of a side, which is an identity copied as it lies. */
static cpr_status move_side(cpr_cuda_exchange *exchange, cpr_side side, cpr_moves moves, const void *from,
                            void *to, cudaStream_t stream, cpr_error *outcome) {
    const cpr_cuda_plan *plan = &exchange->plan;
    const cpr_row_side *lists = &plan->lists.sides[side];
    const cpr_rows source = {from, lists->rows}, target = {to, lists->rows};
    if (cpr_cuda_group_usable(exchange->group, outcome) != CPR_OK ||
        cpr_rows_check(&source, &target, plan->row_bytes, outcome) != CPR_OK ||
        cpr_cuda_group_is_here(exchange->group, outcome) != CPR_OK) {
        return outcome->status;
    }
    const cudaError_t result =
        lists->identity
            ? cudaMemcpyAsync(to, from, (size_t)lists->rows * plan->row_bytes, cudaMemcpyDeviceToDevice,
                              stream)
            : cpr_move_rows(&moves, plan->row_bytes, from, to, cpr_cuda_plan_all_blocks(plan), stream);
    return result == cudaSuccess ? cpr_succeed(outcome)
                                 : cpr_cuda_group_enqueue_failed(exchange->group, true, result, outcome);
}

cpr_status cpr_cuda_pack(cpr_cuda_exchange *exchange, cpr_direction direction, const void *source,
                         void *message, cudaStream_t stream, cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (cpr_direction_check(direction, outcome) != CPR_OK) {
        return outcome->status;
    }
    const cpr_side side = cpr_cuda_way_of(direction).out;
    return move_side(exchange, side, cpr_row_list_pack(&exchange->plan.all[side]), source, message, stream,
                     outcome);
}

cpr_status cpr_cuda_scatter(cpr_cuda_exchange *exchange, cpr_direction direction, const void *message,
                            void *target, cudaStream_t stream, cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (cpr_direction_check(direction, outcome) != CPR_OK) {
        return outcome->status;
    }
    const cpr_side side = cpr_cuda_way_of(direction).in;
    return move_side(exchange, side, cpr_row_list_scatter(&exchange->plan.all[side]), message, target, stream,
                     outcome);
}
