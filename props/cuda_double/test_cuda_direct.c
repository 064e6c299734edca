/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions with or without a route, and windows, against the stand-in: ranks in threads that write to each other's windows.
 * What a rank finds is noted and judged when all have ended.
 */
#include "there_and_back.h"

#include "cproute/cproute_cuda.h"
#include "cuda/direct_member.h"
#include "cuda_double.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum {
    NOTES = 24,
    PATIENT_MS = 60000,
    SHORT_MS = 200,
    FLOOD = 5000, /* many more launches than CUDA takes before it blocks */
    MOST_CHANNELS = 16
};

static const int64_t OTHERS[] = {0, 48, 48, 96, 168};
static const int64_t WRONG[] = {0, 24, 12, 96, 168};

typedef struct rank rank;
typedef void script(rank *r);

struct rank {
    int64_t number, ranks, rows;
    ncclComm_t comm;
    cudaStream_t stream;
    cpr_cuda_group *group;
    cpr_cuda_window *window;
    unsigned char *source, *wanted, *target; /* the target is the window's */
    size_t bytes;
    int64_t device_offsets[LENGTH_OF(BOUNDARIES)], host_offsets[LENGTH_OF(BOUNDARIES)];
    cpr_cuda_conversion_request request;
    script *play;
    int64_t odd, timeout_ms, fail_call, fail_allocation;
    cudaError_t fail_with;
    int slow; /* askings; 0: calls of the communicator block */
    cpr_error notes[NOTES];
    int noted;
    bool broken; /* something that must hold did not */
    const char *what;
    bool failed_call, aborted;
    int64_t held;
    size_t host_held;
    ledger book;
    cpr_allocator allocator;
};

static void must(rank *r, bool holds, const char *what) {
    if (!holds && !r->broken) {
        r->broken = true;
        r->what = what;
    }
}

static void note(rank *r, cpr_error error) {
    must(r, r->noted < NOTES, "too many notes");
    if (r->noted < NOTES)
        r->notes[r->noted++] = error;
}

static void paint_rank(const rank *r, cpr_layout layout, unsigned char *rows) {
    paint(r->device_offsets, (cpr_geometry){r->ranks, r->number}, layout, rows);
}

static bool open_rank(rank *r) {
    const cpr_cuda_group_options options = {.timeout_ms = r->timeout_ms};
    cpr_error error = {CPR_OK, -1, 0, 0};
    const bool odd = r->number == r->odd;
    r->allocator = ledger_allocator(&r->book);
    (void)cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking);
    r->bytes = (size_t)r->rows * ROW_BYTES;
    r->source = malloc(r->bytes);
    r->wanted = malloc(r->bytes);
    memcpy(r->device_offsets, BOUNDARIES, sizeof BOUNDARIES);
    memcpy(r->host_offsets, BOUNDARIES, sizeof BOUNDARIES);
    r->book.fail_at = odd ? r->fail_allocation : -1;
    double_fail_call(odd ? r->fail_call : -1, r->fail_with);
    if (cpr_cuda_group_create(r->comm, &options, &r->allocator, &r->group, &error) == CPR_OK &&
        cpr_cuda_window_create(r->group, NULL, 2 * r->bytes, &r->allocator, &r->window, &error) == CPR_OK) {
        r->target = cpr_cuda_window_memory(r->window);
        return true;
    }
    note(r, error);
    return false;
}

static void close_rank(rank *r) {
    r->failed_call = double_failed_call();
    double_fail_call(-1, cudaSuccess);
    r->aborted = r->group ? cpr_cuda_group_aborted(r->group) : double_comm_aborted(r->comm);
    cpr_cuda_window_release(r->window);
    cpr_cuda_group_free(r->group);
    cudaStreamDestroy(r->stream);
    free(r->source);
    free(r->wanted);
    r->held = double_held();
    r->host_held = r->book.held;
}

static void *rank_plays(void *context) {
    rank *r = context;
    r->request.on_device = cpr_cu_seqlens_int64(r->device_offsets, LENGTH_OF(BOUNDARIES));
    r->request.on_device.device = CPR_CUDA;
    r->request.on_host = cpr_cu_seqlens_int64(r->host_offsets, LENGTH_OF(BOUNDARIES));
    r->request.rows = r->rows;
    r->request.row_bytes = ROW_BYTES;
    if (open_rank(r))
        r->play(r);
    close_rank(r);
    return NULL;
}

static rank plain_rank(script *play) {
    return (rank){.play = play,
                  .odd = -1,
                  .timeout_ms = PATIENT_MS,
                  .fail_call = -1,
                  .fail_with = cudaErrorMemoryAllocation,
                  .fail_allocation = -1,
                  .request = {.source = CPR_ZIGZAG, .target = CPR_CONTIGUOUS}};
}

static void perform(const rank *like, int64_t count, bool reachable, rank *ranks) {
    pthread_t threads[MOST_RANKS];
    double_world *world = double_world_make((int)count);
    if (reachable)
        double_world_reachable(world);
    for (int64_t r = 0; r < count; r++) {
        ranks[r] = *like;
        ranks[r].number = r;
        ranks[r].ranks = count;
        ranks[r].rows = TOKENS / count;
        ranks[r].comm = double_comm_make(world, (int)r);
        double_comm_slow(ranks[r].comm, like->slow);
        assert_int_equal(pthread_create(&threads[r], NULL, rank_plays, &ranks[r]), 0);
    }
    for (int64_t r = 0; r < count; r++)
        assert_int_equal(pthread_join(threads[r], NULL), 0);
    for (int64_t r = 0; r < count; r++) {
        double_comm_free(ranks[r].comm);
        if (ranks[r].broken)
            fail_msg("rank %d: %s", (int)r, ranks[r].what);
        assert_int_equal(ranks[r].held, 0);
        assert_int_equal(ranks[r].host_held, 0);
    }
    double_world_free(world);
}

/*==============================================================================
 * MARK: - There and back
 *============================================================================*/

static cpr_error convert(rank *r, cpr_cuda_conversion *conversion, cpr_direction direction, const void *from,
                         void *to) {
    cpr_error error, waited;
    const int64_t allocations = double_allocations(), synchronisations = double_synchronisations();
    (void)cpr_cuda_conversion_run(conversion, direction, from, to, r->stream, &error);
    must(r, double_allocations() == allocations, "a run allocates");
    must(r, double_synchronisations() == synchronisations, "a run waits");
    (void)cpr_cuda_group_wait(r->group, r->stream, &waited);
    return error.status != CPR_OK ? error : waited;
}

static cpr_error told(cpr_cuda_conversion *conversion) {
    cpr_error error;
    (void)cpr_cuda_conversion_check(conversion, &error);
    return error;
}

static bool reaches(rank *r, const char *what, const unsigned char *rows, const unsigned char *wanted) {
    const bool same = memcmp(rows, wanted, r->bytes) == 0;
    must(r, same, what);
    return same;
}

static void converts(rank *r, cpr_cuda_conversion *conversion) {
    unsigned char *home = r->target + r->bytes;
    memset(r->target, 0xff, 2 * r->bytes);
    paint_rank(r, r->request.source, r->source);
    paint_rank(r, r->request.target, r->wanted);
    cpr_error error = convert(r, conversion, CPR_FORWARD, r->source, r->target);
    must(r, error.status == CPR_OK, "forward fails");
    reaches(r, "rows do not arrive", r->target, r->wanted);
    error = convert(r, conversion, CPR_BACKWARD, r->target, home);
    must(r, error.status == CPR_OK, "backward fails");
    reaches(r, "rows do not come back", home, r->source);
    must(r, told(conversion).status == CPR_OK, "an error out of nothing");
}

static cpr_cuda_conversion *make(rank *r, cpr_cuda_method wanted) {
    cpr_cuda_conversion *conversion = NULL;
    cpr_error error;
    (void)cpr_cuda_conversion_create(r->group, &r->request, &r->allocator, &conversion, &error);
    must(r, error.status == CPR_OK, "no conversion is made");
    must(r, conversion != NULL && cpr_cuda_conversion_method(conversion) == wanted,
         "another method is chosen");
    return conversion;
}

static void plays_directly(rank *r) {
    cpr_cuda_conversion *conversion = make(r, CPR_CUDA_DIRECT);
    must(r, cpr_cuda_window_is_shared(r->window), "a window that others cannot reach");
    if (conversion) {
        converts(r, conversion);
        memcpy(r->device_offsets, OTHERS, sizeof OTHERS);
        converts(r, conversion);
    }
    cpr_cuda_conversion_free(conversion);
}

static void captured(rank *r) {
    cpr_cuda_conversion *conversion = make(r, CPR_CUDA_DIRECT);
    cudaGraph_t graph;
    cpr_error error, waited;
    cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal);
    (void)cpr_cuda_conversion_run(conversion, CPR_FORWARD, r->source, r->target, r->stream, &error);
    cudaStreamEndCapture(r->stream, &graph);
    must(r, error.status == CPR_OK, "a captured run fails");
    static const int64_t *const refills[] = {BOUNDARIES, OTHERS, WRONG, BOUNDARIES};
    for (int i = 0; i < 4; i++) {
        memcpy(r->device_offsets, BOUNDARIES, sizeof BOUNDARIES);
        if (refills[i] == OTHERS)
            memcpy(r->device_offsets, OTHERS, sizeof OTHERS);
        paint_rank(r, CPR_ZIGZAG, r->source);
        paint_rank(r, CPR_CONTIGUOUS, r->wanted);
        memset(r->target, 0xff, r->bytes);
        memcpy(r->device_offsets, refills[i], sizeof BOUNDARIES);
        cudaGraphLaunch((cudaGraphExec_t)(void *)graph, r->stream);
        (void)cpr_cuda_group_wait(r->group, r->stream, &waited);
        const cpr_error found = told(conversion);
        if (refills[i] == WRONG) {
            memset(r->wanted, 0xff, r->bytes);
            must(r,
                 found.status == CPR_DECREASING && found.index == 2 && found.got == 12 && found.wanted == 24,
                 "wrong offsets are not told");
        } else
            must(r, found.status == CPR_OK, "right offsets are refused");
        reaches(r, "a replay moves other rows", r->target, r->wanted);
    }
    cudaGraphDestroy(graph);
    cpr_cuda_conversion_free(conversion);
}

static void rows_arrive(void **state) {
    (void)state;
    rank ranks[MOST_RANKS];
    for (int64_t count = 1; count <= MOST_RANKS; count++) {
        for (int source = 0; source < CPR_LAYOUT_COUNT; source++)
            for (int target = 0; target < CPR_LAYOUT_COUNT; target++) {
                rank like = plain_rank(plays_directly);
                like.request.source = (cpr_layout)source;
                like.request.target = (cpr_layout)target;
                like.request.method = (source + target) % 2 ? CPR_CUDA_DIRECT : CPR_CUDA_AUTO;
                perform(&like, count, true, ranks);
            }
        const rank replays = plain_rank(captured);
        perform(&replays, count, true, ranks);
        rank never_block = plain_rank(plays_directly);
        never_block.slow = 3;
        perform(&never_block, count, true, ranks);
    }
}

static void plays_by_route(rank *r) {
    cpr_error error;
    cpr_cuda_conversion *conversion = make(r, CPR_CUDA_ROUTE);
    if (conversion) {
        converts(r, conversion);
        memcpy(r->device_offsets, OTHERS, sizeof OTHERS);
        memcpy(r->host_offsets, OTHERS, sizeof OTHERS);
        (void)cpr_cuda_conversion_run(conversion, CPR_FORWARD, r->source, r->target, r->stream, &error);
        must(r, error.status == CPR_CAPTURE_LAYOUT_CHANGE, "a stale route is run");
        (void)cpr_cuda_conversion_refill(conversion, &error);
        must(r, error.status == CPR_OK, "a route is not built anew");
        converts(r, conversion);
    }
    cpr_cuda_conversion_free(conversion);
    conversion = NULL;
    r->request.method = CPR_CUDA_DIRECT;
    (void)cpr_cuda_conversion_create(r->group, &r->request, &r->allocator, &conversion, &error);
    note(r, error);
    must(r, conversion == NULL, "a conversion comes with an error");
}

static void by_route_where_ranks_are_out_of_reach(void **state) {
    (void)state;
    rank ranks[MOST_RANKS];
    const rank like = plain_rank(plays_by_route);
    perform(&like, 3, false, ranks);
    for (int r = 0; r < 3; r++)
        expect_error(&ranks[r].notes[0], CPR_UNREACHABLE, -1, 1, 3);
}

/*==============================================================================
 * MARK: - What is refused
 *============================================================================*/

/* One rank differs, is wrong, is in place, is out of its window, has no source, goes in no direction; each time nothing is written. */
static void odd_ones(rank *r) {
    cpr_cuda_conversion *conversion = make(r, CPR_CUDA_DIRECT);
    const bool odd = r->number == r->odd;
    unsigned char *outside = malloc(r->bytes);
    unsigned char *untouched = malloc(2 * r->bytes);
    memset(untouched, 0xff, 2 * r->bytes);
    memset(r->source, 1, r->bytes);
    for (int what = 0; what < 6; what++) {
        memset(r->target, 0xff, 2 * r->bytes);
        memcpy(r->device_offsets,
               !odd || what > 1 ? BOUNDARIES
               : what == 0      ? OTHERS
                                : WRONG,
               sizeof BOUNDARIES);
        const void *from = odd && what == 2 ? r->target + 1 : odd && what == 4 ? NULL : r->source;
        void *to = odd && what == 3 ? outside : r->target;
        const cpr_direction direction = odd && what == 5 ? (cpr_direction)2 : CPR_FORWARD;
        cpr_error error = convert(r, conversion, direction, from, to);
        must(r, (error.status != CPR_OK) == (odd && what >= 2), "a call is refused wrongly");
        note(r, told(conversion));
        must(r, memcmp(r->target, untouched, 2 * r->bytes) == 0, "something is written");
    }
    memcpy(r->device_offsets, BOUNDARIES, sizeof BOUNDARIES);
    converts(r, conversion);
    free(outside);
    free(untouched);
    cpr_cuda_conversion_free(conversion);
}

static void who_differs_is_told_to_all(void **state) {
    (void)state;
    rank ranks[MOST_RANKS];
    rank like = plain_rank(odd_ones);
    for (like.odd = 0; like.odd < 3; like.odd++) {
        perform(&like, 3, true, ranks);
        for (int64_t r = 0; r < 3; r++) {
            const cpr_error *notes = ranks[r].notes;
            assert_int_equal(notes[0].status, CPR_DIVERGENT_METADATA);
            assert_int_equal(notes[0].index, like.odd == 0 ? 1 : like.odd);
            if (r == like.odd) {
                expect_error(&notes[1], CPR_DECREASING, 2, 12, 24);
                expect_error(&notes[2], CPR_BAD_ROW, -1, 0, 0);
                expect_error(&notes[3], CPR_UNREACHABLE, -1, 0, 3);
                expect_error(&notes[4], CPR_BAD_ROW, 0, -1, ranks[r].rows);
                expect_error(&notes[5], CPR_BAD_DIRECTION, -1, 2, 2);
            } else {
                expect_error(&notes[1], CPR_PEER_FAILED, like.odd, CPR_DECREASING, 0);
                expect_error(&notes[2], CPR_PEER_FAILED, like.odd, CPR_BAD_ROW, 0);
                expect_error(&notes[3], CPR_PEER_FAILED, like.odd, CPR_UNREACHABLE, 0);
                expect_error(&notes[4], CPR_PEER_FAILED, like.odd, CPR_BAD_ROW, 0);
                expect_error(&notes[5], CPR_PEER_FAILED, like.odd, CPR_BAD_DIRECTION, 0);
            }
            assert_false(ranks[r].aborted);
        }
    }
}

/* What the device found is told by the next run, which is made all the same. */
static void told_late(rank *r) {
    cpr_cuda_conversion *conversion = make(r, CPR_CUDA_DIRECT);
    memcpy(r->device_offsets, WRONG, sizeof WRONG);
    must(r, convert(r, conversion, CPR_FORWARD, r->source, r->target).status == CPR_OK, "told at once");
    memcpy(r->device_offsets, BOUNDARIES, sizeof BOUNDARIES);
    paint_rank(r, CPR_ZIGZAG, r->source);
    paint_rank(r, CPR_CONTIGUOUS, r->wanted);
    note(r, convert(r, conversion, CPR_FORWARD, r->source, r->target));
    reaches(r, "the run that tells is not made", r->target, r->wanted);
    note(r, told(conversion));
    cpr_cuda_conversion_free(conversion);
}

static void errors_are_told_by_the_next_run(void **state) {
    (void)state;
    rank ranks[MOST_RANKS];
    const rank like = plain_rank(told_late);
    perform(&like, 2, true, ranks);
    for (int r = 0; r < 2; r++) {
        expect_error(&ranks[r].notes[0], CPR_DECREASING, 2, 12, 24);
        expect_error(&ranks[r].notes[1], CPR_OK, -1, 0, 0);
    }
}

static void a_report_that_stays_unfinished_holds_nobody_up(void **state) {
    (void)state;
    uint64_t told = 0;
    cpr_direct_report report = {2, {CPR_DECREASING, 2, 12, 24}, 1};
    cpr_error error = cpr_direct_report_read(&report, &told);
    expect_error(&error, CPR_OK, -1, 0, 0);
    report.raised = 2;
    error = cpr_direct_report_read(&report, &told);
    expect_error(&error, CPR_DECREASING, 2, 12, 24);
    error = cpr_direct_report_read(&report, &told);
    expect_error(&error, CPR_OK, -1, 0, 0);
}

static void does_not_come(rank *r) {
    cpr_cuda_conversion *conversion = make(r, CPR_CUDA_DIRECT);
    if (r->number != r->odd)
        note(r, convert(r, conversion, CPR_FORWARD, r->source, r->target));
    else
        nanosleep(&(struct timespec){.tv_nsec = 3 * SHORT_MS * 1000000}, NULL); /* its board is written to */
    cpr_cuda_conversion_free(conversion);
}

static void a_rank_that_does_not_come(void **state) {
    (void)state;
    rank ranks[MOST_RANKS];
    rank like = plain_rank(does_not_come);
    like.odd = 1;
    like.timeout_ms = SHORT_MS;
    perform(&like, 2, true, ranks);
    assert_int_equal(ranks[0].notes[0].status, CPR_TIMEOUT);
    assert_true(ranks[0].aborted);
}

static atomic_bool asked;

static void sleep_a_while(void) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* The device is the first that is tired of waiting: the stream is at its end when somebody asks. */
static void asks_late(rank *r, bool waits) {
    cpr_cuda_conversion *conversion = make(r, CPR_CUDA_DIRECT);
    cpr_error error;
    if (r->number == r->odd) {
        while (!atomic_load(&asked))
            sleep_a_while();
        cpr_cuda_conversion_free(conversion);
        return;
    }
    (void)cpr_cuda_conversion_run(conversion, CPR_FORWARD, r->source, r->target, r->stream, &error);
    note(r, error);
    while (cudaStreamQuery(r->stream) == cudaErrorNotReady)
        sleep_a_while();
    if (waits) {
        (void)cpr_cuda_group_wait(r->group, r->stream, &error);
        note(r, error);
    }
    cpr_cuda_conversion_free(conversion);
    must(r, cpr_cuda_group_aborted(r->group), "a rank is lost, and the group lives on");
    atomic_store(&asked, true);
}

static void waits_late(rank *r) {
    asks_late(r, true);
}

static void frees_late(rank *r) {
    asks_late(r, false);
}

static void what_the_device_waited_for_in_vain_is_an_error(void **state) {
    (void)state;
    rank ranks[MOST_RANKS];
    for (int waits = 0; waits < 2; waits++) {
        rank like = plain_rank(waits ? waits_late : frees_late);
        like.odd = 1;
        like.timeout_ms = SHORT_MS;
        atomic_store(&asked, false);
        perform(&like, 2, true, ranks);
        expect_error(&ranks[0].notes[0], CPR_OK, -1, 0, 0);
        if (waits) {
            assert_int_equal(ranks[0].notes[1].status, CPR_TIMEOUT);
            assert_int_equal(ranks[0].notes[1].wanted, SHORT_MS);
            assert_in_range(ranks[0].notes[1].got, SHORT_MS, PATIENT_MS);
        }
    }
}

/* A graph is replayed behind one that waited in vain, and the other rank comes to the first one meanwhile: they are no pair. */
static void replays_late(rank *r) {
    cpr_cuda_conversion *conversion = make(r, CPR_CUDA_DIRECT);
    cudaGraph_t graph;
    cpr_error error;
    memset(r->target, 0xff, r->bytes);
    paint_rank(r, r->request.source, r->source);
    cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal);
    (void)cpr_cuda_conversion_run(conversion, CPR_FORWARD, r->source, r->target, r->stream, &error);
    cudaStreamEndCapture(r->stream, &graph);
    if (r->number == r->odd)
        while (!atomic_load(&asked))
            sleep_a_while();
    cudaGraphLaunch((cudaGraphExec_t)(void *)graph, r->stream);
    while (cudaStreamQuery(r->stream) == cudaErrorNotReady)
        sleep_a_while();
    if (r->number != r->odd) {
        unsigned char *untouched = malloc(r->bytes);
        memset(untouched, 0xff, r->bytes);
        must(r, memcmp(r->target, untouched, r->bytes) == 0, "rows come from nowhere");
        atomic_store(&asked, true);
        for (int64_t waited_ms = 0; waited_ms < 3 * r->timeout_ms; waited_ms++) /* the other one's turn */
            sleep_a_while();
        memset(r->target, 0xff, r->bytes);
        cudaGraphLaunch((cudaGraphExec_t)(void *)graph, r->stream);
        while (cudaStreamQuery(r->stream) == cudaErrorNotReady)
            sleep_a_while();
        must(r, memcmp(r->target, untouched, r->bytes) == 0, "replays of two turns are paired");
        free(untouched);
    }
    (void)cpr_cuda_group_check(r->group, &error);
    note(r, error);
    cudaGraphDestroy(graph);
    cpr_cuda_conversion_free(conversion);
}

static void no_replay_follows_one_that_waited_in_vain(void **state) {
    (void)state;
    rank ranks[MOST_RANKS];
    rank like = plain_rank(replays_late);
    like.odd = 1;
    like.timeout_ms = SHORT_MS;
    atomic_store(&asked, false);
    perform(&like, 2, true, ranks);
    for (int r = 0; r < 2; r++)
        assert_int_equal(ranks[r].notes[0].status, CPR_TIMEOUT);
}

/* Empty tensors have no address. */
static void converts_nothing(rank *r) {
    cpr_error error;
    memset(r->device_offsets, 0, sizeof r->device_offsets);
    r->request.rows = 0;
    cpr_cuda_conversion *conversion = make(r, CPR_CUDA_DIRECT);
    error = convert(r, conversion, CPR_FORWARD, NULL, NULL);
    note(r, error);
    note(r, told(conversion));
    cpr_cuda_conversion_free(conversion);
}

/* A rank's thread has another device: others learn of it when something is made, and nothing is done. */
static void has_another_device(rank *r) {
    cpr_cuda_conversion *conversion = make(r, CPR_CUDA_DIRECT), *another = NULL;
    const bool odd = r->number == r->odd;
    cpr_error error;
    (void)cudaSetDevice(odd ? 3 : 0);
    (void)cpr_cuda_conversion_create(r->group, &r->request, &r->allocator, &another, &error);
    note(r, error);
    if (odd) {
        (void)cpr_cuda_conversion_run(conversion, CPR_FORWARD, r->source, r->target, r->stream, &error);
        note(r, error);
    }
    (void)cudaSetDevice(0);
    converts(r, conversion);
    cpr_cuda_conversion_free(conversion);
}

static void another_device_is_told_to_all(void **state) {
    (void)state;
    rank ranks[MOST_RANKS];
    rank like = plain_rank(has_another_device);
    like.odd = 1;
    perform(&like, 2, true, ranks);
    expect_error(&ranks[0].notes[0], CPR_PEER_FAILED, 1, CPR_DEVICE, 0);
    for (int i = 0; i < 2; i++)
        expect_error(&ranks[1].notes[i], CPR_DEVICE, -1, 3, 0);
    assert_false(ranks[0].aborted || ranks[1].aborted);
}

static void no_rows_need_no_window(void **state) {
    (void)state;
    rank ranks[MOST_RANKS];
    const rank like = plain_rank(converts_nothing);
    perform(&like, 2, true, ranks);
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < 2; i++)
            expect_error(&ranks[r].notes[i], CPR_OK, -1, 0, 0);
}

/* In a capture, which CUDA gives up in the middle of a run, or on which it says nothing; what an earlier run has found is told later. */
static void is_captured_in_vain(rank *r) {
    static const cudaError_t in_the_way[] = {cudaErrorStreamCaptureInvalidated,
                                             cudaErrorStreamCaptureImplicit};
    cpr_cuda_conversion *conversion = make(r, CPR_CUDA_DIRECT);
    for (int call = 0; call < LENGTH_OF(in_the_way); call++) {
        cudaGraph_t graph;
        cpr_error error;
        memcpy(r->device_offsets, WRONG, sizeof WRONG);
        (void)convert(r, conversion, CPR_FORWARD, r->source, r->target);
        cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal);
        double_fail_call(call, in_the_way[call]);
        (void)cpr_cuda_conversion_run(conversion, CPR_FORWARD, r->source, r->target, r->stream, &error);
        must(r, double_failed_call(), "no call failed");
        double_fail_call(-1, cudaSuccess);
        cudaStreamEndCapture(r->stream, &graph);
        cudaGraphDestroy(graph);
        note(r, error);
        note(r, told(conversion));
        must(r, !cpr_cuda_group_aborted(r->group), "a capture costs a communicator");
    }
    memcpy(r->device_offsets, BOUNDARIES, sizeof BOUNDARIES);
    converts(r, conversion);
    cpr_cuda_conversion_free(conversion);
}

static void a_capture_in_the_way_costs_nothing(void **state) {
    (void)state;
    rank ranks[MOST_RANKS];
    const rank like = plain_rank(is_captured_in_vain);
    perform(&like, 2, true, ranks);
    for (int r = 0; r < 2; r++) {
        expect_error(&ranks[r].notes[0], CPR_CUDA_ERROR, -1, cudaErrorStreamCaptureInvalidated, 0);
        expect_error(&ranks[r].notes[1], CPR_DECREASING, 2, 12, 24);
        expect_error(&ranks[r].notes[2], CPR_CUDA_ERROR, -1, cudaErrorStreamCaptureImplicit, 0);
        expect_error(&ranks[r].notes[3], CPR_DECREASING, 2, 12, 24);
    }
}

static atomic_bool flooded;

/* Runs until one is refused, and one more; the board of who does not come is written to meanwhile. */
static void floods(rank *r) {
    cpr_cuda_conversion *conversion = make(r, CPR_CUDA_DIRECT);
    cpr_error error = {CPR_OK, -1, 0, 0};
    if (r->number == r->odd) {
        while (!atomic_load(&flooded))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        cpr_cuda_conversion_free(conversion);
        return;
    }
    for (int64_t run = 0; run < FLOOD && error.status == CPR_OK; run++)
        (void)cpr_cuda_conversion_run(conversion, CPR_FORWARD, r->source, r->target, r->stream, &error);
    note(r, error);
    (void)cpr_cuda_conversion_run(conversion, CPR_FORWARD, r->source, r->target, r->stream, &error);
    note(r, error);
    cpr_cuda_conversion_free(conversion);
    atomic_store(&flooded, true);
}

static void a_flood_to_a_rank_that_does_not_come(void **state) {
    (void)state;
    rank ranks[MOST_RANKS];
    rank like = plain_rank(floods);
    like.odd = 1;
    like.timeout_ms = SHORT_MS;
    perform(&like, 2, true, ranks);
    assert_int_equal(ranks[0].notes[0].status, CPR_TIMEOUT);
    assert_int_equal(ranks[0].notes[1].status, CPR_TIMEOUT);
    assert_true(ranks[0].aborted);
}

/* Requests that are wrong, or not the same on all ranks. */
static void wrong_requests(rank *r) {
    const cpr_cuda_conversion_request right = r->request;
    cpr_cuda_conversion *conversion = NULL;
    cpr_error error;
    for (int what = 0; what < 6; what++) {
        cpr_cuda_conversion_request request = right;
        const bool odd = r->number == 1;
        request.target = what == 0 ? CPR_LAYOUT_COUNT : right.target;
        request.row_bytes = what == 1 ? 0 : what == 4 && odd ? 2 * ROW_BYTES : ROW_BYTES;
        request.rows = what == 2 ? -1 : what == 3 ? INT64_MAX / 8 : right.rows;
        request.source = what == 5 && odd ? CPR_FLAT_ZIGZAG : right.source;
        (void)cpr_cuda_conversion_create(r->group, &request, &r->allocator, &conversion, &error);
        must(r, conversion == NULL, "a conversion comes with an error");
        note(r, error);
    }
    cpr_cuda_window *window = NULL;
    (void)cpr_cuda_window_create(r->group, NULL, r->number == 1 ? 4096 : 8192, &r->allocator, &window,
                                 &error);
    note(r, error);
    (void)cpr_cuda_window_create(r->group, NULL, 0, &r->allocator, &window, &error);
    note(r, error);
    must(r, window == NULL, "a window comes with an error");
}

static void requests_are_checked(void **state) {
    (void)state;
    rank ranks[MOST_RANKS];
    const rank like = plain_rank(wrong_requests);
    perform(&like, 2, true, ranks);
    for (int r = 0; r < 2; r++) {
        const cpr_error *notes = ranks[r].notes;
        expect_error(&notes[0], CPR_BAD_LAYOUT, 1, CPR_LAYOUT_COUNT, CPR_LAYOUT_COUNT);
        expect_error(&notes[1], CPR_OVERFLOW, -1, 0, 1);
        expect_error(&notes[2], CPR_TOTAL_MISMATCH, -1, -1, 0);
        expect_error(&notes[3], CPR_OVERFLOW, -1, INT64_MAX / 8, INT64_MAX / 4 / ROW_BYTES);
        expect_error(&notes[4], CPR_DIVERGENT_METADATA, 1, 2 * ROW_BYTES, ROW_BYTES);
        assert_int_equal(notes[5].status, CPR_DIVERGENT_METADATA);
        assert_int_equal(notes[6].status, CPR_DIVERGENT_METADATA);
        expect_error(&notes[7], CPR_OVERFLOW, -1, 0, 1);
    }
}

static void many(rank *r) {
    cpr_cuda_conversion *conversions[MOST_CHANNELS], *another = NULL;
    cpr_error error;
    for (int i = 0; i < MOST_CHANNELS; i++)
        conversions[i] = make(r, CPR_CUDA_DIRECT);
    (void)cpr_cuda_conversion_create(r->group, &r->request, &r->allocator, &another, &error);
    note(r, error);
    cpr_cuda_conversion_free(conversions[5]);
    conversions[5] = make(r, CPR_CUDA_DIRECT);
    converts(r, conversions[5]);
    for (int i = 0; i < MOST_CHANNELS; i++)
        cpr_cuda_conversion_free(conversions[i]);
}

static void conversions_are_counted(void **state) {
    (void)state;
    rank ranks[MOST_RANKS];
    const rank like = plain_rank(many);
    perform(&like, 2, true, ranks);
    expect_error(&ranks[0].notes[0], CPR_OVERFLOW, -1, MOST_CHANNELS + 1, MOST_CHANNELS);
    expect_error(&ranks[1].notes[0], CPR_OVERFLOW, -1, MOST_CHANNELS + 1, MOST_CHANNELS);
}

static void keeps_windows(rank *r) {
    cpr_cuda_window *first = NULL, *again = NULL;
    cpr_error error;
    void *memory;
    must(r, ncclMemAlloc(&memory, 8192) == ncclSuccess, "no memory");
    (void)cpr_cuda_window_create(r->group, memory, 8192, &r->allocator, &first, &error);
    must(r, error.status == CPR_OK, "a window is not made");
    (void)cpr_cuda_window_create(r->group, memory, 8192, &r->allocator, &again, &error);
    must(r, error.status == CPR_OK && first == again, "a window is made twice");
    cpr_cuda_window_release(first);
    must(r, cpr_cuda_window_is_shared(again), "a window in use is gone");
    cpr_cuda_window_release(again);
    ncclMemFree(memory);
    cpr_cuda_window_release(NULL);
    cpr_cuda_conversion_free(NULL);
}

/* Somebody's garbage is collected while a capture is under way. */
static void releases_in_a_capture(rank *r) {
    cpr_cuda_window *window = NULL;
    cpr_cuda_conversion *conversion = make(r, CPR_CUDA_DIRECT);
    cudaGraph_t graph;
    cpr_error error;
    (void)cpr_cuda_window_create(r->group, NULL, 4096, &r->allocator, &window, &error);
    must(r, error.status == CPR_OK, "a window is not made");
    cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal);
    cpr_cuda_window_release(window);
    cpr_cuda_conversion_free(conversion);
    cudaStreamEndCapture(r->stream, &graph);
    cudaGraphDestroy(graph);
}

static void windows_are_released_in_a_capture(void **state) {
    (void)state;
    rank ranks[MOST_RANKS];
    const rank like = plain_rank(releases_in_a_capture);
    perform(&like, 2, true, ranks);
}

/* NCCL would fail on that rank alone, and leave the others where no timeout ends. */
static void shares_what_is_not_aligned(rank *r) {
    cpr_cuda_window *window = NULL;
    cpr_error error;
    char *memory;
    must(r, ncclMemAlloc((void **)&memory, 16384) == ncclSuccess, "no memory");
    (void)cpr_cuda_window_create(r->group, memory + (r->number == r->odd ? 512 : 0), 8192, &r->allocator,
                                 &window, &error);
    note(r, error);
    must(r, window == NULL, "a window comes with an error");
    ncclMemFree(memory);
}

static void windows_are_aligned(void **state) {
    (void)state;
    rank ranks[MOST_RANKS];
    rank like = plain_rank(shares_what_is_not_aligned);
    for (int64_t count = 1; count <= 2; count++) {
        like.odd = count - 1;
        perform(&like, count, true, ranks);
        for (int64_t r = 0; r < count; r++) {
            if (r == like.odd)
                expect_error(&ranks[r].notes[0], CPR_UNREACHABLE, -1, 0, count);
            else
                expect_error(&ranks[r].notes[0], CPR_PEER_FAILED, like.odd, CPR_UNREACHABLE, 0);
            assert_false(ranks[r].aborted);
        }
    }
}

static void windows_are_kept(void **state) {
    (void)state;
    rank ranks[MOST_RANKS];
    const rank like = plain_rank(keeps_windows);
    perform(&like, 2, true, ranks);
}

/* Whichever allocation of one rank fails, all ranks end with an error and nothing is leaked. */
static void only_makes(rank *r) {
    cpr_cuda_conversion *conversion = NULL;
    cpr_error error;
    (void)cpr_cuda_conversion_create(r->group, &r->request, &r->allocator, &conversion, &error);
    note(r, error);
    cpr_cuda_conversion_free(conversion);
}

static int64_t fail_each(bool reachable, bool on_host, cudaError_t with) {
    for (int64_t at = 0;; at++) {
        rank ranks[MOST_RANKS];
        rank like = plain_rank(only_makes);
        like.odd = at % 2;
        like.timeout_ms = SHORT_MS;
        like.fail_with = with;
        if (on_host)
            like.fail_allocation = at;
        else
            like.fail_call = at;
        perform(&like, 2, reachable, ranks);
        const rank *odd = &ranks[like.odd], *other = &ranks[1 - like.odd];
        if (on_host ? odd->notes[0].status == CPR_OK : !odd->failed_call)
            return at;
        if (odd->notes[0].status != CPR_NO_MEMORY && odd->notes[0].status != CPR_CUDA_ERROR)
            fail_msg("number %d: %s", (int)at, cpr_status_name(odd->notes[0].status));
        if (odd->aborted != (odd->notes[0].status == CPR_CUDA_ERROR))
            fail_msg("number %d: a communicator is given up for memory, or kept after an error", (int)at);
        if (other->notes[0].status != CPR_PEER_FAILED && other->notes[0].status != CPR_TIMEOUT)
            fail_msg("number %d: the other rank has %s", (int)at, cpr_status_name(other->notes[0].status));
    }
}

static void whichever_allocation_fails(void **state) {
    (void)state;
    assert_true(fail_each(true, true, cudaSuccess) >= 3);
    assert_true(fail_each(false, true, cudaSuccess) >= 3);
    assert_true(fail_each(true, false, cudaErrorMemoryAllocation) >= 8);
    assert_true(fail_each(false, false, cudaErrorMemoryAllocation) >= 8);
}

static void whichever_call_fails(void **state) {
    (void)state;
    assert_true(fail_each(true, false, cudaErrorIllegalAddress) >= 8);
}

/*==============================================================================
 * MARK: - Simulated
 *============================================================================*/

static void simulated(void **state) {
    (void)state;
    enum { RANKS = 3 };
    int64_t offsets[RANKS][LENGTH_OF(BOUNDARIES)];
    cpr_cu_seqlens views[RANKS];
    there_and_back rows[RANKS];
    const void *start[RANKS];
    void *away[RANKS], *home[RANKS];
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    for (int64_t r = 0; r < RANKS; r++) {
        memcpy(offsets[r], BOUNDARIES, sizeof BOUNDARIES);
        views[r] = cpr_cu_seqlens_int64(offsets[r], LENGTH_OF(BOUNDARIES));
        views[r].device = CPR_CUDA;
        rows[r] = there_and_back_make((cpr_geometry){RANKS, r}, CPR_HEADS_THEN_TAILS, CPR_CONTIGUOUS);
        start[r] = rows[r].start, away[r] = rows[r].away, home[r] = rows[r].home;
    }
    cudaStream_t stream;
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    cpr_cuda_conversion_request request = {.rows = TOKENS / RANKS,
                                           .row_bytes = ROW_BYTES,
                                           .source = CPR_HEADS_THEN_TAILS,
                                           .target = CPR_CONTIGUOUS};
    cpr_cuda_direct_simulation *simulation = NULL;
    cpr_error error;
    assert_int_equal(
        cpr_cuda_direct_simulation_create(&request, views, RANKS, &allocator, &simulation, &error), CPR_OK);
    assert_int_equal(cpr_cuda_direct_simulation_run(simulation, CPR_FORWARD, start, away, stream, &error),
                     CPR_OK);
    assert_int_equal(cpr_cuda_direct_simulation_run(simulation, CPR_BACKWARD, (const void *const *)away, home,
                                                    stream, &error),
                     CPR_OK);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    for (int64_t r = 0; r < RANKS; r++)
        assert_true(there_and_back_right(&rows[r]));
    memcpy(offsets[1], WRONG, sizeof WRONG);
    (void)cpr_cuda_direct_simulation_run(simulation, CPR_FORWARD, start, home, stream, &error);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    (void)cpr_cuda_direct_simulation_check(simulation, 0, &error);
    expect_error(&error, CPR_PEER_FAILED, 1, CPR_DECREASING, 0);
    (void)cpr_cuda_direct_simulation_check(simulation, 1, &error);
    expect_error(&error, CPR_DECREASING, 2, 12, 24);
    (void)cpr_cuda_direct_simulation_check(simulation, 1, &error);
    expect_error(&error, CPR_OK, -1, 0, 0);
    assert_memory_equal(home[2], start[2], rows[2].bytes);
    cpr_cuda_direct_simulation_free(simulation);
    cpr_cuda_direct_simulation_free(NULL);

    (void)cpr_cuda_direct_simulation_create(&request, views, 0, &allocator, &simulation, &error);
    expect_error(&error, CPR_BAD_CP_SIZE, -1, 0, 1);
    (void)cpr_cuda_direct_simulation_create(&request, views, 17, &allocator, &simulation, &error);
    expect_error(&error, CPR_OVERFLOW, -1, 17, 16);
    for (int64_t at = 0;; at++) {
        double_fail_call(at, cudaErrorMemoryAllocation);
        const cpr_status status =
            cpr_cuda_direct_simulation_create(&request, views, RANKS, &allocator, &simulation, &error);
        if (!double_failed_call())
            break;
        assert_int_equal(status, CPR_NO_MEMORY);
    }
    double_fail_call(-1, cudaSuccess);
    cpr_cuda_direct_simulation_free(simulation);
    assert_int_equal(book.held, 0);
    cudaStreamDestroy(stream);
    assert_int_equal(double_held(), 0);
    for (int64_t r = 0; r < RANKS; r++)
        there_and_back_free(&rows[r]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_arrive),
        cmocka_unit_test(by_route_where_ranks_are_out_of_reach),
        cmocka_unit_test(who_differs_is_told_to_all),
        cmocka_unit_test(errors_are_told_by_the_next_run),
        cmocka_unit_test(a_report_that_stays_unfinished_holds_nobody_up),
        cmocka_unit_test(a_rank_that_does_not_come),
        cmocka_unit_test(a_flood_to_a_rank_that_does_not_come),
        cmocka_unit_test(what_the_device_waited_for_in_vain_is_an_error),
        cmocka_unit_test(no_replay_follows_one_that_waited_in_vain),
        cmocka_unit_test(another_device_is_told_to_all),
        cmocka_unit_test(no_rows_need_no_window),
        cmocka_unit_test(a_capture_in_the_way_costs_nothing),
        cmocka_unit_test(requests_are_checked),
        cmocka_unit_test(conversions_are_counted),
        cmocka_unit_test(windows_are_kept),
        cmocka_unit_test(windows_are_released_in_a_capture),
        cmocka_unit_test(windows_are_aligned),
        cmocka_unit_test(whichever_allocation_fails),
        cmocka_unit_test(whichever_call_fails),
        cmocka_unit_test(simulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
