/* SPDX-License-Identifier: Apache-2.0 */
/* A rank is lost: dead before an exchange, dead during one, or alive and somewhere else. The others must not hang. */
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

/* A trip that has gone well once, on all ranks. */
static bool open_good_trip(stage *s, pack **p, trip *t, int64_t tokens, size_t row_bytes) {
    *p = malloc(sizeof **p);
    if (!*p)
        return stage_fail(s, "no memory for a pack");
    if (!fault_pack(s, tokens, *p))
        return false;
    const trip_plan plan = {*p, CPR_ZIGZAG, CPR_CONTIGUOUS, row_bytes, 0};
    return trip_open(t, s, &plan) && trip_paint(t, 1) && trip_forward(t) && trip_backward(t) &&
           trip_judge(t, 1);
}

static void die(int unused) {
    (void)unused;
    kill(getpid(), SIGKILL);
}

bool test_killed_before(stage *s) {
    pack *p = NULL;
    trip t = {0};
    bool good = open_good_trip(s, &p, &t, SMALL_TOKENS, FAULT_ROW_BYTES);
    if (good && is_culprit(s)) {
        stage_step(s, "dies before the exchange");
        s->report->may_die = true;
        die(0);
    }
    usleep(DEAD_FOR_US);
    stage_step(s, "exchange with a dead rank");
    good = good && fault_ends_in_error(s, &t, 1);
    trip_close(&t);
    free(p);
    return good;
}

bool test_killed_during(stage *s) {
    pack *p = NULL;
    trip t = {0};
    bool good = open_good_trip(s, &p, &t, LARGE_TOKENS, LARGE_ROW_BYTES);
    if (good && is_culprit(s)) {
        s->report->may_die = true;
        signal(SIGALRM, die);
        const struct itimerval soon = {.it_value = {.tv_usec = DIES_AFTER_US}};
        setitimer(ITIMER_REAL, &soon, NULL);
    }
    stage_step(s, "exchanges until a rank dies among them");
    good = good && fault_ends_in_error(s, &t, RUNS_IN_FLIGHT);
    trip_close(&t);
    free(p);
    return good;
}

bool test_stuck(stage *s) {
    pack *p = NULL;
    trip t = {0};
    bool good = open_good_trip(s, &p, &t, SMALL_TOKENS, FAULT_ROW_BYTES);
    if (good && is_culprit(s)) {
        stage_step(s, "sleeps instead of an exchange");
        sleep(STUCK_FOR_S);
    }
    stage_step(s, "exchange with a rank that does not come");
    good = good && fault_ends_in_error(s, &t, 1);
    trip_close(&t);
    free(p);
    return good;
}

/* The error must come from a run: in the wait that never comes it would be too late. */
static bool flood_ends_in_error(stage *s, trip *t) {
    cpr_error error = {0};
    int64_t accepted = 0;
    while (accepted < FLOOD && cpr_cuda_exchange_run(t->conversion.exchange, CPR_FORWARD, t->start.rows[0],
                                                     t->away.rows[0], s->stream, &error) == CPR_OK)
        accepted++;
    return (accepted < FLOOD ||
            stage_fail(s, "%d runs with a rank that does not come were accepted", (int)FLOOD)) &&
           report_figure(s->report, "runs until the error", (double)accepted) && fault_ends_in_error(s, t, 1);
}

bool test_stuck_flood(stage *s) {
    pack *p = NULL;
    trip t = {0};
    bool good = open_good_trip(s, &p, &t, SMALL_TOKENS, FAULT_ROW_BYTES);
    if (good && is_culprit(s)) {
        stage_step(s, "sleeps instead of an exchange");
        sleep(STUCK_FOR_S);
    }
    stage_step(s, "a flood of exchanges with a rank that does not come");
    good = good && (is_culprit(s) ? fault_ends_in_error(s, &t, 1) : flood_ends_in_error(s, &t));
    trip_close(&t);
    free(p);
    return good;
}

/* NCCL clears no communicator away that a graph has captured; whoever waits must get the error all the same. */
bool test_killed_graph(stage *s) {
    pack *p = NULL;
    trip t = {0};
    cudaGraph_t graph = NULL;
    cudaGraphExec_t instance = NULL;
    bool good = open_good_trip(s, &p, &t, SMALL_TOKENS, FAULT_ROW_BYTES) &&
                CUDA_TRY(s, cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal));
    if (good) {
        const bool enqueued = trip_forward(&t);
        good = CUDA_TRY(s, cudaStreamEndCapture(s->stream, &graph)) && enqueued &&
               CUDA_TRY(s, cudaGraphInstantiate(&instance, graph, 0));
    }
    if (good && is_culprit(s)) {
        stage_step(s, "dies before the graph");
        s->report->may_die = true;
        die(0);
    }
    usleep(DEAD_FOR_US);
    stage_step(s, "a graph with a dead rank");
    good = good && CUDA_TRY(s, cudaGraphLaunch(instance, s->stream)) && fault_ends_in_error(s, &t, 0);
    if (instance)
        cudaGraphExecDestroy(instance);
    if (graph)
        cudaGraphDestroy(graph);
    trip_close(&t);
    free(p);
    return good;
}
