/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host code of the GPU part against a stand-in for CUDA and NCCL, ranks in threads: what it enqueues delivers every row, whatever
 * call fails ends in an error on every rank, nothing is leaked, and a run neither waits nor allocates.
 */
#include "there_and_back.h"

#include "cproute/cproute_cuda.h"
#include "cuda_double.h"
#include <pthread.h>
#include <stdio.h>

enum { PATIENT_MS = 60000, SHORT_MS = 100 };

/* What a rank was told to do, and what came of it. */
typedef struct rank {
    int64_t number, ranks;
    ncclComm_t comm;
    cudaStream_t stream;
    const struct play *play;
    cpr_error group, exchange, run, waited, held;
    bool aborted, failed_call, failed_captured;
    int64_t calls_held;
    size_t host_held;
    bool rows_right;
    there_and_back rows;
    int64_t enqueued; /* runs that were accepted, if it goes on and on */
    char ranges[1024];
} rank;

/* One play for all ranks, in which one of them may be the odd one. */
typedef struct play {
    int64_t ranks;
    int64_t timeout_ms;
    cpr_layout source, target;
    int64_t odd;             /* rank; -1: none */
    int64_t fail_allocation; /* of the odd one's host allocations while it creates; -1: none */
    int64_t fail_call;       /* of its CUDA calls; -1: none */
    cudaError_t fail_with;
    bool absent_from_run; /* the odd one leaves before */
    bool does_not_wait;   /* nobody waits before the exchange is freed */
    ncclResult_t meets;   /* what its communicator meets before it runs */
    bool kernel_fails;    /* on the odd one's device, while it runs */
    bool no_route;        /* it was refused one */
    int slow;             /* askings */
    bool captured;
    bool held;             /* the exchange is in a capture, and asked for beside that */
    int64_t fail_captured; /* call of a captured run of the odd one, which ends the capture; -1: none */
    int64_t goes_on;       /* so many runs are enqueued without a wait, unless one is an error */
} play;

static cpr_route *route_in(const play *p, int64_t number) {
    return route_of(BOUNDARIES, LENGTH_OF(BOUNDARIES), (cpr_geometry){p->ranks, number}, p->source,
                    p->target);
}

static cpr_error convert(rank *r, cpr_cuda_exchange *exchange, cpr_cuda_group *group, cpr_direction direction,
                         const void *source, void *target, cudaStream_t stream, cpr_error *waited) {
    cpr_error error;
    if (r->play->captured) {
        cudaGraph_t graph;
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
        if (r->number == r->play->odd && r->play->fail_captured >= 0)
            double_fail_call(r->play->fail_captured, cudaErrorStreamCaptureInvalidated);
        (void)cpr_cuda_exchange_run(exchange, direction, source, target, stream, &error);
        cudaStreamEndCapture(stream, &graph);
        if (r->number == r->play->odd && r->play->fail_captured >= 0) {
            r->failed_captured |= double_failed_call();
            double_fail_call(-1, cudaSuccess);
        }
        for (int replay = 0; replay < 2 && error.status == CPR_OK; replay++)
            cudaGraphLaunch((cudaGraphExec_t)(void *)graph, stream);
        (void)cpr_cuda_group_wait(group, stream, waited);
        cudaGraphDestroy(graph);
        return error;
    }
    const int64_t allocations = double_allocations(), synchronisations = double_synchronisations();
    (void)cpr_cuda_exchange_run(exchange, direction, source, target, stream, &error);
    assert_int_equal(double_allocations(), allocations);
    assert_int_equal(double_synchronisations(), synchronisations);
    if (!r->play->does_not_wait)
        (void)cpr_cuda_group_wait(group, stream, waited);
    return error;
}

/* While one capture has the exchange, no other stream gets it. */
static void hold(rank *r, cpr_cuda_exchange *exchange) {
    cudaStream_t other;
    cudaGraph_t graph;
    const there_and_back *rows = &r->rows;
    (void)cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal);
    (void)cpr_cuda_exchange_run(exchange, CPR_FORWARD, rows->start, rows->away, r->stream, &r->run);
    (void)cpr_cuda_exchange_run(exchange, CPR_FORWARD, rows->start, rows->away, other, &r->held);
    cudaStreamEndCapture(r->stream, &graph);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(other);
}

/* There and back. */
static void run(rank *r, cpr_cuda_exchange *exchange, cpr_cuda_group *group) {
    const play *p = r->play;
    there_and_back *rows = &r->rows;
    *rows = there_and_back_make((cpr_geometry){p->ranks, r->number}, p->source, p->target);
    if (p->held)
        hold(r, exchange);
    for (; r->enqueued < p->goes_on; r->enqueued++)
        if (cpr_cuda_exchange_run(exchange, CPR_FORWARD, rows->start, rows->away, r->stream, &r->run) !=
            CPR_OK)
            return;
    r->run = convert(r, exchange, group, CPR_FORWARD, rows->start, rows->away, r->stream, &r->waited);
    if (r->run.status == CPR_OK && r->waited.status == CPR_OK && !p->does_not_wait)
        r->run = convert(r, exchange, group, CPR_BACKWARD, rows->away, rows->home, r->stream, &r->waited);
    r->rows_right = there_and_back_right(rows);
    /* Whoever waited may free them. */
    if (!p->does_not_wait)
        there_and_back_free(rows);
}

static void *rank_plays(void *context) {
    rank *r = context;
    const play *p = r->play;
    const bool odd = r->number == p->odd;
    const cpr_cuda_group_options options = {.timeout_ms = p->timeout_ms};
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    cpr_cuda_group *group = NULL;
    cpr_cuda_exchange *exchange = NULL;
    cpr_route *route = route_in(p, r->number);
    (void)cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking);
    if (p->slow > 0)
        double_comm_slow(r->comm, p->slow);
    book.fail_at = odd ? p->fail_allocation : -1;
    double_fail_call(odd ? p->fail_call : -1, p->fail_with);
    if (cpr_cuda_group_create(r->comm, &options, &allocator, &group, &r->group) == CPR_OK) {
        (void)cpr_cuda_exchange_create(group, odd && p->no_route ? NULL : route, ROW_BYTES, &allocator,
                                       &exchange, &r->exchange);
        if (exchange != NULL && odd && p->meets != ncclSuccess)
            double_comm_meets(r->comm, p->meets);
        if (odd && p->kernel_fails)
            double_fail_queries(cudaErrorIllegalAddress);
        if (exchange != NULL && !(odd && p->absent_from_run))
            run(r, exchange, group);
        r->failed_call = double_failed_call();
        double_fail_call(-1, cudaSuccess);
        cpr_cuda_exchange_free(exchange);
        r->aborted = cpr_cuda_group_aborted(group);
        cpr_cuda_group_free(group);
        snprintf(r->ranges, sizeof r->ranges, "%s", double_ranges());
    } else {
        assert_null(group);
        r->failed_call = double_failed_call();
        double_fail_call(-1, cudaSuccess);
        r->aborted = double_comm_aborted(r->comm);
    }
    there_and_back_free(&r->rows);
    cpr_route_free(route);
    cudaStreamDestroy(r->stream);
    r->calls_held = double_held();
    r->host_held = book.held;
    return NULL;
}

static void perform(const play *p, rank *ranks) {
    pthread_t threads[MOST_RANKS];
    double_world *world = double_world_make((int)p->ranks);
    for (int64_t r = 0; r < p->ranks; r++) {
        ranks[r] = (rank){.number = r, .ranks = p->ranks, .play = p, .comm = double_comm_make(world, (int)r)};
        assert_int_equal(pthread_create(&threads[r], NULL, rank_plays, &ranks[r]), 0);
    }
    for (int64_t r = 0; r < p->ranks; r++) {
        assert_int_equal(pthread_join(threads[r], NULL), 0);
        double_comm_free(ranks[r].comm);
        assert_int_equal(ranks[r].calls_held, 0);
        assert_int_equal(ranks[r].host_held, 0);
    }
    double_world_free(world);
}

static play plain_play(int64_t ranks) {
    return (play){.ranks = ranks,
                  .timeout_ms = PATIENT_MS,
                  .source = CPR_ZIGZAG,
                  .target = CPR_CONTIGUOUS,
                  .odd = -1,
                  .fail_allocation = -1,
                  .fail_call = -1,
                  .fail_captured = -1};
}

/* One rank leaves, and the others do not wait for it for long. */
static play play_with_an_absent_rank(int64_t ranks) {
    play p = plain_play(ranks);
    p.odd = 1;
    p.absent_from_run = true;
    p.timeout_ms = SHORT_MS;
    return p;
}

static void expect_all_right(const play *p) {
    rank ranks[MOST_RANKS];
    perform(p, ranks);
    for (int64_t r = 0; r < p->ranks; r++) {
        expect_error(&ranks[r].group, CPR_OK, -1, 0, 0);
        expect_error(&ranks[r].exchange, CPR_OK, -1, 0, 0);
        expect_error(&ranks[r].run, CPR_OK, -1, 0, 0);
        expect_error(&ranks[r].waited, CPR_OK, -1, 0, 0);
        assert_true(ranks[r].rows_right);
        assert_false(ranks[r].aborted);
    }
}

static void rows_arrive(void **state) {
    (void)state;
    for (int64_t ranks = 1; ranks <= MOST_RANKS; ranks++) {
        if (TOKENS % (2 * ranks) != 0 || 72 % (2 * ranks) != 0 || 24 % (2 * ranks) != 0)
            continue;
        for (int source = 0; source < CPR_LAYOUT_COUNT; source++)
            for (int target = 0; target < CPR_LAYOUT_COUNT; target++) {
                play p = plain_play(ranks);
                p.source = (cpr_layout)source;
                p.target = (cpr_layout)target;
                p.slow = (source + target) % 3;
                expect_all_right(&p);
                p.captured = true;
                expect_all_right(&p);
            }
    }
}

static const cpr_error *first_error(const rank *r) {
    const cpr_error *errors[] = {&r->group, &r->exchange, &r->run, &r->waited};
    for (int i = 0; i < LENGTH_OF(errors); i++)
        if (errors[i]->status != CPR_OK)
            return errors[i];
    return NULL;
}

/* Of the group's object, of the exchange's, of its lists. */
static void lack_of_host_memory_is_told_to_all(void **state) {
    (void)state;
    for (int64_t fail_at = 0; fail_at < 4; fail_at++) {
        play p = plain_play(3);
        rank ranks[MOST_RANKS];
        p.odd = fail_at % 3;
        p.fail_allocation = fail_at;
        perform(&p, ranks);
        for (int64_t r = 0; r < p.ranks; r++) {
            const cpr_error *error = first_error(&ranks[r]);
            assert_non_null(error);
            if (r == p.odd)
                expect_error(error, CPR_NO_MEMORY, -1, 0, 0);
            else
                expect_error(error, CPR_PEER_FAILED, p.odd, CPR_NO_MEMORY, 0);
            assert_false(ranks[r].aborted);
        }
    }
}

static void a_refused_route_is_told_to_all(void **state) {
    (void)state;
    play p = plain_play(2);
    rank ranks[MOST_RANKS];
    p.odd = 1;
    p.no_route = true;
    perform(&p, ranks);
    expect_error(&ranks[0].exchange, CPR_PEER_FAILED, 1, CPR_INTERNAL, 0);
    expect_error(&ranks[1].exchange, CPR_INTERNAL, -1, 0, 0);
    assert_false(ranks[0].aborted || ranks[1].aborted);
}

/* Whichever CUDA call of a rank fails, all ranks end with an error, and nothing is leaked. */
static void whichever_call_fails(void **state, cudaError_t result, cpr_status status) {
    (void)state;
    int64_t failed = 0;
    for (;; failed++) {
        play p = plain_play(2);
        rank ranks[MOST_RANKS];
        p.odd = failed % 2;
        p.fail_call = failed;
        p.fail_with = result;
        p.timeout_ms = SHORT_MS;
        perform(&p, ranks);
        if (!ranks[p.odd].failed_call)
            break;
        const cpr_error *own = first_error(&ranks[p.odd]);
        assert_non_null(own);
        if (own->status != status && own->status != CPR_CUDA_ERROR)
            fail_msg("call %d: %s", (int)failed, cpr_status_name(own->status));
        const cpr_error *other = first_error(&ranks[1 - p.odd]);
        /* Without the last calls everything has arrived already. */
        if (other != NULL && other->status != CPR_PEER_FAILED && other->status != CPR_TIMEOUT)
            fail_msg("call %d: the other rank has %s", (int)failed, cpr_status_name(other->status));
    }
    assert_true(failed > 20);
    printf("# %d calls\n", (int)failed);
}

static void whichever_call_is_refused(void **state) {
    whichever_call_fails(state, cudaErrorIllegalAddress, CPR_CUDA_ERROR);
}

static void whichever_allocation_is_refused(void **state) {
    whichever_call_fails(state, cudaErrorMemoryAllocation, CPR_NO_MEMORY);
}

static void a_rank_that_does_not_come_is_waited_for_no_longer_than_said(void **state) {
    (void)state;
    play p = play_with_an_absent_rank(3);
    rank ranks[MOST_RANKS];
    perform(&p, ranks);
    for (int64_t r = 0; r < p.ranks; r++) {
        if (r == p.odd)
            continue;
        expect_error(&ranks[r].run, CPR_OK, -1, 0, 0);
        assert_int_equal(ranks[r].waited.status, CPR_TIMEOUT);
        assert_int_equal(ranks[r].waited.index, -1);
        assert_in_range(ranks[r].waited.got, SHORT_MS, PATIENT_MS);
        assert_int_equal(ranks[r].waited.wanted, SHORT_MS);
        assert_true(ranks[r].aborted);
    }
    assert_false(ranks[p.odd].aborted);
}

/* NCCL's abort waits for graphs, which only who waits for the abort could destroy. */
static void a_graph_holds_up_no_wait(void **state) {
    (void)state;
    play p = play_with_an_absent_rank(3);
    rank ranks[MOST_RANKS];
    p.captured = true;
    perform(&p, ranks);
    for (int64_t r = 0; r < p.ranks; r++) {
        if (r == p.odd)
            continue;
        expect_error(&ranks[r].run, CPR_OK, -1, 0, 0);
        assert_int_equal(ranks[r].waited.status, CPR_TIMEOUT);
        assert_true(ranks[r].aborted);
    }
}

/* Nobody waits, so only a run itself can find out. CUDA would block after some thousand launches. */
static void who_enqueues_notices_a_silent_rank(void **state) {
    enum { RUNS = 5000, MOST_ACCEPTED = 200 };
    (void)state;
    play p = play_with_an_absent_rank(3);
    rank ranks[MOST_RANKS];
    p.goes_on = RUNS;
    perform(&p, ranks);
    for (int64_t r = 0; r < p.ranks; r++) {
        if (r == p.odd)
            continue;
        assert_int_equal(ranks[r].run.status, CPR_TIMEOUT);
        assert_int_equal(ranks[r].run.wanted, SHORT_MS);
        assert_in_range(ranks[r].enqueued, 1, MOST_ACCEPTED);
        assert_true(ranks[r].aborted);
    }
}

static void many_runs_without_a_wait_go_well(void **state) {
    (void)state;
    play p = plain_play(3);
    p.goes_on = 1000;
    expect_all_right(&p);
}

static void ranges_have_upstreams_names(void **state) {
    (void)state;
    static const char there[] = "zigzag_to_contiguous", back[] = "contiguous_to_zigzag";
    play p = plain_play(2);
    rank ranks[MOST_RANKS];
    char wanted[1024], run[2][400];
    for (int way = 0; way < 2; way++) {
        const char *name = way == 0 ? there : back;
        snprintf(run[way], sizeof run[way],
                 ">cp_layout/thd/swap/%s>cp_layout/thd/pack/%s<>cp_layout/thd/all_to_all/%s<"
                 ">cp_layout/thd/scatter/%s<<",
                 name, name, name, name);
    }
    snprintf(wanted, sizeof wanted, ">cp_layout/thd/route/%s<%s%s", there, run[0], run[1]);
    perform(&p, ranks);
    for (int64_t r = 0; r < p.ranks; r++)
        assert_string_equal(ranks[r].ranges, wanted);
}

/* A rank by itself, to call functions wrongly. */
typedef struct hermit {
    double_world *world;
    ncclComm_t comm;
    cudaStream_t stream;
    cpr_cuda_group *group;
    cpr_cuda_exchange *exchange;
    cpr_route *route;
    int64_t rows;
    unsigned char *source, *target;
} hermit;

static hermit make_hermit(void) {
    const play p = plain_play(1);
    hermit h = {.world = double_world_make(1), .rows = TOKENS};
    double_fail_call(-1, cudaSuccess);
    h.comm = double_comm_make(h.world, 0);
    h.route = route_in(&p, 0);
    h.source = calloc((size_t)TOKENS, ROW_BYTES);
    h.target = calloc((size_t)TOKENS, ROW_BYTES);
    assert_int_equal(cudaStreamCreateWithFlags(&h.stream, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cpr_cuda_group_create(h.comm, NULL, NULL, &h.group, NULL), CPR_OK);
    assert_int_equal(cpr_cuda_exchange_create(h.group, h.route, ROW_BYTES, NULL, &h.exchange, NULL), CPR_OK);
    return h;
}

/* Whatever was refused, the group lives on. */
static void bury(hermit *h) {
    cpr_error error;
    (void)cpr_cuda_exchange_run(h->exchange, CPR_FORWARD, h->source, h->target, h->stream, &error);
    expect_error(&error, CPR_OK, -1, 0, 0);
    (void)cpr_cuda_group_wait(h->group, h->stream, &error);
    expect_error(&error, CPR_OK, -1, 0, 0);
    assert_false(cpr_cuda_group_aborted(h->group));
    cpr_cuda_exchange_free(h->exchange);
    cpr_cuda_group_free(h->group);
    cpr_route_free(h->route);
    cudaStreamDestroy(h->stream);
    free(h->source);
    free(h->target);
    double_comm_free(h->comm);
    double_world_free(h->world);
    assert_int_equal(double_held(), 0);
}

typedef cpr_status call(hermit *h, cpr_direction direction, const void *source, void *target,
                        cpr_error *error);

static cpr_status run_call(hermit *h, cpr_direction direction, const void *source, void *target,
                           cpr_error *error) {
    return cpr_cuda_exchange_run(h->exchange, direction, source, target, h->stream, error);
}

static cpr_status pack_call(hermit *h, cpr_direction direction, const void *source, void *target,
                            cpr_error *error) {
    return cpr_cuda_pack(h->exchange, direction, source, target, h->stream, error);
}

static cpr_status scatter_call(hermit *h, cpr_direction direction, const void *source, void *target,
                               cpr_error *error) {
    return cpr_cuda_scatter(h->exchange, direction, source, target, h->stream, error);
}

static void calls_that_are_wrong_are_refused(void **state) {
    (void)state;
    static call *const calls[] = {run_call, pack_call, scatter_call};
    hermit h = make_hermit();
    for (int i = 0; i < LENGTH_OF(calls); i++) {
        cpr_error error;
        (void)calls[i](&h, (cpr_direction)2, h.source, h.target, &error);
        expect_error(&error, CPR_BAD_DIRECTION, -1, 2, 2);
        (void)calls[i](&h, (cpr_direction)-1, h.source, h.target, &error);
        expect_error(&error, CPR_BAD_DIRECTION, -1, (int)(cpr_direction)-1, 2);
        (void)calls[i](&h, CPR_FORWARD, NULL, h.target, &error);
        expect_error(&error, CPR_BAD_ROW, 0, -1, h.rows);
        (void)calls[i](&h, CPR_BACKWARD, h.source, NULL, &error);
        expect_error(&error, CPR_BAD_ROW, 1, -1, h.rows);
        (void)calls[i](&h, CPR_FORWARD, h.source, h.source + ROW_BYTES, &error);
        expect_error(&error, CPR_BAD_ROW, -1, 0, 0);
    }
    bury(&h);
}

/* As in a thread that has not chosen one. What creates takes part, so that the others learn of it. */
static void another_device_is_refused(void **state) {
    (void)state;
    static call *const calls[] = {run_call, pack_call, scatter_call};
    hermit h = make_hermit();
    cpr_cuda_exchange *exchange = NULL;
    cpr_cuda_window *window = NULL;
    cpr_error error;
    (void)cudaSetDevice(3);
    for (int i = 0; i < LENGTH_OF(calls); i++) {
        (void)calls[i](&h, CPR_FORWARD, h.source, h.target, &error);
        expect_error(&error, CPR_DEVICE, -1, 3, 0);
    }
    (void)cpr_cuda_exchange_create(h.group, h.route, ROW_BYTES, NULL, &exchange, &error);
    expect_error(&error, CPR_DEVICE, -1, 3, 0);
    (void)cpr_cuda_window_create(h.group, NULL, 4096, NULL, &window, &error);
    expect_error(&error, CPR_DEVICE, -1, 3, 0);
    assert_true(exchange == NULL && window == NULL);
    (void)cudaSetDevice(0);
    bury(&h);
}

/* Nobody may wait for what is captured; but that is no reason to give a communicator up. Creating is no part of a capture. */
static void a_capture_can_be_under_way(void **state) {
    (void)state;
    hermit h = make_hermit();
    cpr_cuda_exchange *another = NULL;
    cpr_error error;
    cudaGraph_t graph;
    (void)run_call(&h, CPR_FORWARD, h.source, h.target, &error);
    cudaStreamBeginCapture(h.stream, cudaStreamCaptureModeGlobal);
    (void)run_call(&h, CPR_FORWARD, h.source, h.target, &error);
    expect_error(&error, CPR_OK, -1, 0, 0);
    (void)cpr_cuda_group_wait(h.group, h.stream, &error);
    expect_error(&error, CPR_CUDA_ERROR, -1, cudaErrorStreamCaptureUnsupported, 0);
    (void)cpr_cuda_exchange_create(h.group, h.route, ROW_BYTES, NULL, &another, &error);
    expect_error(&error, CPR_OK, -1, 0, 0);
    cpr_cuda_exchange_free(another);
    assert_false(cpr_cuda_group_aborted(h.group));
    cudaStreamEndCapture(h.stream, &graph);
    cudaGraphDestroy(graph);
    bury(&h);
}

static void what_a_capture_holds_is_refused_elsewhere(void **state) {
    (void)state;
    play p = plain_play(2);
    rank ranks[MOST_RANKS];
    p.held = true;
    perform(&p, ranks);
    for (int64_t r = 0; r < p.ranks; r++) {
        expect_error(&ranks[r].held, CPR_CUDA_ERROR, -1, cudaErrorStreamCaptureIsolation, 0);
        expect_error(&ranks[r].run, CPR_OK, -1, 0, 0);
        assert_true(ranks[r].rows_right);
        assert_false(ranks[r].aborted);
    }
}

/* Another thread can end a capture at any time. */
static void a_capture_that_ends_early_costs_no_communicator(void **state) {
    (void)state;
    int64_t failed = 0;
    for (;; failed++) {
        play p = plain_play(2);
        rank ranks[MOST_RANKS];
        p.odd = 1;
        p.captured = true;
        p.timeout_ms = SHORT_MS;
        p.fail_captured = failed;
        perform(&p, ranks);
        if (!ranks[1].failed_captured)
            break;
        expect_error(&ranks[1].run, CPR_CUDA_ERROR, -1, cudaErrorStreamCaptureInvalidated, 0);
        assert_false(ranks[1].aborted);
    }
    assert_true(failed > 5);
}

static void freeing_waits_no_longer_than_said_either(void **state) {
    (void)state;
    play p = play_with_an_absent_rank(2);
    rank ranks[MOST_RANKS];
    p.does_not_wait = true;
    perform(&p, ranks);
    expect_error(&ranks[0].run, CPR_OK, -1, 0, 0);
    assert_true(ranks[0].aborted);
}

static void what_nccl_meets_is_an_error(void **state) {
    (void)state;
    play p = plain_play(2);
    rank ranks[MOST_RANKS];
    p.odd = 0;
    p.meets = ncclRemoteError;
    p.timeout_ms = SHORT_MS;
    perform(&p, ranks);
    expect_error(&ranks[0].run, CPR_NCCL_ERROR, -1, ncclRemoteError, 0);
    assert_true(ranks[0].aborted);
    assert_int_equal(first_error(&ranks[1])->status, CPR_TIMEOUT);
}

static void a_kernel_that_failed_is_an_error(void **state) {
    (void)state;
    play p = plain_play(2);
    rank ranks[MOST_RANKS];
    p.odd = 1;
    p.kernel_fails = true;
    p.timeout_ms = SHORT_MS;
    perform(&p, ranks);
    expect_error(&ranks[1].waited, CPR_CUDA_ERROR, -1, cudaErrorIllegalAddress, 0);
    assert_true(ranks[1].aborted);
}

static void simulated_ranks_convert_there_and_back(void **state) {
    (void)state;
    enum { RANKS = 3 };
    play p = plain_play(RANKS);
    cpr_route *routes[RANKS];
    there_and_back rows[RANKS];
    const void *start[RANKS];
    void *away[RANKS], *home[RANKS];
    for (int64_t r = 0; r < RANKS; r++) {
        routes[r] = route_in(&p, r);
        rows[r] = there_and_back_make((cpr_geometry){RANKS, r}, p.source, p.target);
        start[r] = rows[r].start, away[r] = rows[r].away, home[r] = rows[r].home;
    }
    cudaStream_t stream;
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    cpr_cuda_simulation *simulation = NULL;
    cpr_error error;
    const cpr_route *const *all = (const cpr_route *const *)routes;
    assert_int_equal(cpr_cuda_simulation_create(all, RANKS, ROW_BYTES, &allocator, &simulation, &error),
                     CPR_OK);
    assert_int_equal(cpr_cuda_simulation_run(simulation, CPR_FORWARD, start, away, stream, &error), CPR_OK);
    assert_int_equal(
        cpr_cuda_simulation_run(simulation, CPR_BACKWARD, (const void *const *)away, home, stream, &error),
        CPR_OK);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    for (int64_t r = 0; r < RANKS; r++)
        assert_true(there_and_back_right(&rows[r]));
    (void)cpr_cuda_simulation_run(simulation, CPR_FORWARD, start, (void *const *)start, stream, &error);
    expect_error(&error, CPR_BAD_ROW, -1, 0, 0);
    void *const crossed[RANKS] = {rows[1].start, away[1], away[2]}, *const doubled[RANKS] = {away[0], away[1],
                                                                                             away[0]};
    (void)cpr_cuda_simulation_run(simulation, CPR_FORWARD, start, crossed, stream, &error);
    expect_error(&error, CPR_BAD_ROW, 0, 1, 0);
    (void)cpr_cuda_simulation_run(simulation, CPR_FORWARD, start, doubled, stream, &error);
    expect_error(&error, CPR_BAD_ROW, 0, 2, 0);
    (void)cpr_cuda_simulation_run(simulation, (cpr_direction)2, start, away, stream, &error);
    expect_error(&error, CPR_BAD_DIRECTION, -1, 2, 2);
    cpr_cuda_simulation_free(simulation);
    cpr_cuda_simulation_free(NULL);

    /* Refusals. */
    simulation = NULL;
    (void)cpr_cuda_simulation_create(all, 0, ROW_BYTES, &allocator, &simulation, &error);
    expect_error(&error, CPR_BAD_CP_SIZE, -1, 0, 1);
    (void)cpr_cuda_simulation_create(all, INT64_MAX / 2 + 2, ROW_BYTES, &allocator, &simulation, &error);
    expect_error(&error, CPR_BAD_CP_SIZE, -1, INT64_MAX / 2 + 2, CPR_CP_SIZE_MAX);
    const cpr_route *const gap[] = {routes[0], NULL, routes[2]};
    (void)cpr_cuda_simulation_create(gap, RANKS, ROW_BYTES, &allocator, &simulation, &error);
    expect_error(&error, CPR_INTERNAL, 1, 0, 0);
    (void)cpr_cuda_simulation_create(all + 1, 2, ROW_BYTES, &allocator, &simulation, &error);
    expect_error(&error, CPR_BAD_RANK, 0, 1, 0);
    (void)cpr_cuda_simulation_create(all, RANKS, 0, &allocator, &simulation, &error);
    expect_error(&error, CPR_OVERFLOW, -1, 0, 1);
    (void)cpr_cuda_simulation_create(all, RANKS, SIZE_MAX, &allocator, &simulation, &error);
    expect_error(&error, CPR_OVERFLOW, -1, TOKENS / RANKS, 0);
    for (int64_t fail_at = 0;; fail_at++) {
        book = (ledger){.fail_at = fail_at};
        if (cpr_cuda_simulation_create(all, RANKS, ROW_BYTES, &allocator, &simulation, &error) == CPR_OK)
            break;
        expect_error(&error, CPR_NO_MEMORY, -1, 0, 0);
        assert_null(simulation);
        assert_int_equal(book.held, 0);
    }
    cpr_cuda_simulation_free(simulation);
    assert_int_equal(book.held, 0);
    cudaStreamDestroy(stream);
    assert_int_equal(double_held(), 0);
    for (int64_t r = 0; r < RANKS; r++) {
        cpr_route_free(routes[r]);
        there_and_back_free(&rows[r]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_arrive),
        cmocka_unit_test(lack_of_host_memory_is_told_to_all),
        cmocka_unit_test(a_refused_route_is_told_to_all),
        cmocka_unit_test(whichever_call_is_refused),
        cmocka_unit_test(whichever_allocation_is_refused),
        cmocka_unit_test(a_rank_that_does_not_come_is_waited_for_no_longer_than_said),
        cmocka_unit_test(a_graph_holds_up_no_wait),
        cmocka_unit_test(who_enqueues_notices_a_silent_rank),
        cmocka_unit_test(many_runs_without_a_wait_go_well),
        cmocka_unit_test(ranges_have_upstreams_names),
        cmocka_unit_test(calls_that_are_wrong_are_refused),
        cmocka_unit_test(another_device_is_refused),
        cmocka_unit_test(a_capture_can_be_under_way),
        cmocka_unit_test(what_a_capture_holds_is_refused_elsewhere),
        cmocka_unit_test(a_capture_that_ends_early_costs_no_communicator),
        cmocka_unit_test(freeing_waits_no_longer_than_said_either),
        cmocka_unit_test(what_nccl_meets_is_an_error),
        cmocka_unit_test(a_kernel_that_failed_is_an_error),
        cmocka_unit_test(simulated_ranks_convert_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
