/* SPDX-License-Identifier: Apache-2.0 */
/* A rank is lost: dead before an exchange, dead during one, or alive and somewhere else. The others must not hang, with a route or
 * without. */
#include "fault.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    SMALL_TOKENS = 4096,
    LARGE_TOKENS = 1 << 16,
    LARGE_ROW_BYTES = 256,
    DIES_AFTER_US = 300000,
    DEAD_FOR_US = 500000,
    RUNS_IN_FLIGHT = 16,
    STUCK_FOR_S = 6, /* more than the timeout of tests of faults */
    FLOOD = 5000     /* many more launches than CUDA takes before it blocks */
};

static bool is_culprit(const stage *s) {
    return s->first == stage_culprit(s);
}

/* What happens to a trip that has gone well once, on all ranks. */
typedef bool fault(stage *s, trip *t);

static bool opens(stage *s, trip *t, pack *p, int64_t tokens, size_t row_bytes) {
    const trip_plan plan = {p, CPR_ZIGZAG, CPR_CONTIGUOUS, row_bytes, 0};
    return (p || stage_fail(s, "no memory for a pack")) && fault_pack(s, tokens, p) && trip_open(t, s, &plan);
}

static bool play(stage *s, int64_t tokens, size_t row_bytes, fault *happens) {
    pack *p = malloc(sizeof *p);
    trip t = {0};
    bool good = opens(s, &t, p, tokens, row_bytes);
    if (good && s->direct && !conversion_is_direct(&t.conversion))
        test_skip(s, "these ranks cannot write to each other's memory");
    else
        good = good && trip_there_and_back(&t, 1) && happens(s, &t);
    trip_close(&t);
    free(p);
    return good;
}

static bool play_small(stage *s, fault *happens) {
    return play(s, SMALL_TOKENS, FAULT_ROW_BYTES, happens);
}

static bool play_large(stage *s, fault *happens) {
    return play(s, LARGE_TOKENS, LARGE_ROW_BYTES, happens);
}

static bool play_direct(stage *s, bool (*play_size)(stage *, fault *), fault *happens) {
    s->direct = true;
    return play_size(s, happens);
}

/*==============================================================================
 * MARK: - Faults
 *============================================================================*/

static void die(int unused) {
    (void)unused;
    kill(getpid(), SIGKILL);
}

static void culprit_dies(const stage *s) {
    if (is_culprit(s)) {
        stage_step(s, "dies");
        s->report->may_die = true;
        die(0);
    }
    usleep(DEAD_FOR_US);
}

static void culprit_sleeps(const stage *s) {
    if (is_culprit(s)) {
        stage_step(s, "sleeps instead of an exchange");
        sleep(STUCK_FOR_S);
    }
}

static bool killed_before(stage *s, trip *t) {
    culprit_dies(s);
    stage_step(s, "exchange with a dead rank");
    return fault_ends_in_error(s, t, 1);
}

static bool killed_during(stage *s, trip *t) {
    if (is_culprit(s)) {
        s->report->may_die = true;
        signal(SIGALRM, die);
        const struct itimerval soon = {.it_value = {.tv_usec = DIES_AFTER_US}};
        setitimer(ITIMER_REAL, &soon, NULL);
    }
    stage_step(s, "exchanges until a rank dies among them");
    return fault_ends_in_error(s, t, RUNS_IN_FLIGHT);
}

static bool stuck(stage *s, trip *t) {
    culprit_sleeps(s);
    stage_step(s, "exchange with a rank that does not come");
    return fault_ends_in_error(s, t, 1);
}

/* The error must come from a run: in the wait that never comes it would be too late. */
static bool flood_ends_in_error(stage *s, trip *t) {
    cpr_error error = {0};
    int64_t accepted = 0;
    while (accepted < FLOOD && fault_run(s, t, &error) == CPR_OK)
        accepted++;
    return (accepted < FLOOD ||
            stage_fail(s, "%d runs with a rank that does not come were accepted", (int)FLOOD)) &&
           report_figure(s->report, "runs until the error", (double)accepted) && fault_ends_in_error(s, t, 1);
}

static bool stuck_flood(stage *s, trip *t) {
    culprit_sleeps(s);
    stage_step(s, "a flood of exchanges with a rank that does not come");
    return is_culprit(s) ? fault_ends_in_error(s, t, 1) : flood_ends_in_error(s, t);
}

/* NCCL clears no communicator away that a graph has captured; whoever waits must get the error all the same. */
static bool killed_graph(stage *s, trip *t) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t instance = NULL;
    bool good = CUDA_TRY(s, cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal));
    if (good) {
        const bool enqueued = trip_forward(t);
        good = CUDA_TRY(s, cudaStreamEndCapture(s->stream, &graph)) && enqueued &&
               CUDA_TRY(s, cudaGraphInstantiate(&instance, graph, 0));
    }
    if (good) {
        culprit_dies(s);
        stage_step(s, "a graph with a dead rank");
        good = CUDA_TRY(s, cudaGraphLaunch(instance, s->stream)) && fault_ends_in_error(s, t, 0);
    }
    if (instance)
        cudaGraphExecDestroy(instance);
    if (graph)
        cudaGraphDestroy(graph);
    return good;
}

/*==============================================================================
 * MARK: - Tests
 *============================================================================*/

bool test_killed_before(stage *s) {
    return play_small(s, killed_before);
}

bool test_killed_during(stage *s) {
    return play_large(s, killed_during);
}

bool test_stuck(stage *s) {
    return play_small(s, stuck);
}

bool test_stuck_flood(stage *s) {
    return play_small(s, stuck_flood);
}

bool test_killed_graph(stage *s) {
    return play_small(s, killed_graph);
}

bool test_direct_killed_before(stage *s) {
    return play_direct(s, play_small, killed_before);
}

bool test_direct_killed_during(stage *s) {
    return play_direct(s, play_large, killed_during);
}

bool test_direct_stuck(stage *s) {
    return play_direct(s, play_small, stuck);
}

bool test_direct_stuck_flood(stage *s) {
    return play_direct(s, play_small, stuck_flood);
}

bool test_direct_killed_graph(stage *s) {
    return play_direct(s, play_small, killed_graph);
}
