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
    STUCK_FOR_S = 6 /* more than the timeout of tests of faults */
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
