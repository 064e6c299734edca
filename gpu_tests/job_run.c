/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    POLL_US = 5000,
    GRACE_S = 15, /* for the others once a rank has failed: more than they need to notice by themselves */
    LAST_BREATH_S = 10 /* in which a killed process has to be gone */
};

#define TEST(name, where, least_ranks, seconds, meaning)                                                     \
    {#name, where, least_ranks, seconds, meaning, test_##name},
static const struct {
    const char *name;
    where where;
    int64_t least_ranks, seconds;
    const char *meaning;
    test_function *play;
} tests[] = {
#include "tests.def"
};
#undef TEST
enum { TESTS = sizeof tests / sizeof *tests };

static bool plays(where place, bool real) {
    const bool only_real = place == REAL || place == FAULT || place == LOST;
    return place == BOTH || place == BOTH_ONCE || only_real == real;
}

static job job_of(int test, bool real, bool blocks, int64_t number) {
    const where place = tests[test].where;
    job j = {.real = real,
             .fault = place == FAULT || place == LOST,
             .blocks = blocks,
             .where = place,
             .number = number,
             .least_ranks = real ? tests[test].least_ranks : 1,
             .seconds = tests[test].seconds,
             .meaning = tests[test].meaning,
             .play = tests[test].play};
    snprintf(j.name, sizeof j.name, "%s/%s%s", real ? "nccl" : "simulated", tests[test].name,
             blocks ? "_blocking" : "");
    return j;
}

int64_t job_list(const job **jobs) {
    static job list[2 * TESTS];
    int64_t count = 0;
    for (int real = 0; real <= 1; real++)
        for (int i = 0; i < TESTS; i++)
            for (int blocks = 0; blocks <= (tests[i].where == LOST) && plays(tests[i].where, real);
                 blocks++) {
                list[count] = job_of(i, real, blocks, count);
                count++;
            }
    *jobs = list;
    return count;
}

/*==============================================================================
 * MARK: - Watching
 *============================================================================*/

typedef struct watched {
    const job *job;
    board *board;
    job_result *result;
    int64_t ranks, first_rank;
    pid_t processes[MAX_RANKS]; /* 0: gone */
    int64_t alive;
    double begun;
} watched;

static void add_text(job_result *result, const char *format, ...) REPORT_PRINTF(2);
static void add_text(job_result *result, const char *format, ...) {
    const size_t length = strlen(result->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->text + length, sizeof result->text - length, format, arguments);
    va_end(arguments);
}

static void fail_rank(watched *w, int64_t local_rank, const char *how) {
    const report *r = &w->board->reports[local_rank];
    w->result->outcome = JOB_FAILED;
    add_text(w->result, "%srank %" PRId64 ": %s", *w->result->text ? "\n" : "", w->first_rank + local_rank,
             how);
    if (*r->reason)
        add_text(w->result, ": %s", r->reason);
    add_text(w->result, " [at: %s]", *r->step ? r->step : "the start");
}

/* A process that ended: was that right? */
static void judge_end(watched *w, int64_t local_rank, int status) {
    const report *r = &w->board->reports[local_rank];
    char how[80];
    if (WIFSIGNALED(status)) {
        if (r->may_die && WTERMSIG(status) == SIGKILL)
            return;
        snprintf(how, sizeof how, "died of signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
        fail_rank(w, local_rank, how);
    } else if (r->state == RANK_FAILED)
        fail_rank(w, local_rank, "failed");
    else if (r->may_die)
        fail_rank(w, local_rank, "was to be killed, and ended by itself");
    else if (WEXITSTATUS(status) != 0 || (r->state != RANK_PASSED && r->state != RANK_SKIPPED)) {
        snprintf(how, sizeof how, "ended with exit code %d and no verdict", WEXITSTATUS(status));
        fail_rank(w, local_rank, how);
    }
}

/* Takes note of every process that is gone. */
static void reap(watched *w, bool judge) {
    for (int64_t i = 0; i < w->ranks; i++) {
        int status;
        if (!w->processes[i] || waitpid(w->processes[i], &status, WNOHANG) != w->processes[i])
            continue;
        w->processes[i] = 0;
        w->alive--;
        if (judge)
            judge_end(w, i, status);
    }
}

static void kill_all(watched *w, const char *why) {
    for (int64_t i = 0; i < w->ranks; i++)
        if (w->processes[i]) {
            fail_rank(w, i, why);
            kill(w->processes[i], SIGKILL);
        }
    const double until = seconds_now() + LAST_BREATH_S;
    while (w->alive && seconds_now() < until) {
        reap(w, false);
        usleep(POLL_US);
    }
    if (w->alive)
        add_text(w->result, "\n%" PRId64 " processes cannot be killed: the driver holds them", w->alive);
}

static void watch(watched *w, double seconds) {
    double until = w->begun + seconds;
    bool failing = false;
    while (w->alive) {
        reap(w, true);
        if (w->result->outcome == JOB_FAILED && !failing) {
            failing = true;
            if (until > seconds_now() + GRACE_S)
                until = seconds_now() + GRACE_S;
        }
        if (w->alive && seconds_now() > until) {
            char why[80];
            snprintf(why, sizeof why,
                     failing ? "killed %.0f s after its test had failed" : "hangs, killed after %.0f s",
                     failing ? (double)GRACE_S : seconds);
            kill_all(w, why);
            return;
        }
        usleep(POLL_US);
    }
}

static void start(watched *w, const run_setup *setup, pid_t launcher) {
    for (int64_t i = 0; i < w->ranks; i++) {
        const pid_t process = fork();
        if (process == 0) {
            /* Nobody outlives the launcher, whatever it dies of. */
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != launcher)
                _exit(1);
            job_play(w->job, setup, w->board, i);
            fflush(NULL);
            _exit(0);
        }
        if (process < 0) {
            w->result->outcome = JOB_FAILED;
            add_text(w->result, "fork: %s", strerror(errno));
            kill_all(w, "killed: not all ranks could be started");
            return;
        }
        w->processes[i] = process;
        w->alive++;
    }
}

/* A job that all its ranks skip is skipped. */
static void sum_up(watched *w) {
    job_result *result = w->result;
    for (int64_t i = 0; i < w->ranks; i++) {
        const report *r = &w->board->reports[i];
        result->wrong += r->wrong;
        result->cases = r->cases > result->cases ? r->cases : result->cases;
        if (r->state == RANK_SKIPPED && result->outcome == JOB_PASSED) {
            result->outcome = JOB_SKIPPED;
            add_text(result, "%s", r->reason);
        }
    }
    if (result->wrong && result->outcome != JOB_FAILED) {
        result->outcome = JOB_FAILED;
        add_text(result, "%" PRId64 " bytes were wrong", result->wrong);
    }
    if (result->outcome == JOB_PASSED && result->cases == 0) {
        result->outcome = JOB_FAILED;
        add_text(result, "nothing was judged");
    }
    result->seconds = seconds_now() - w->begun;
}

void job_run(const job *j, const run_setup *setup, board *b, job_result *result) {
    memset(b, 0, sizeof *b);
    memset(result, 0, sizeof *result);
    watched w = {.job = j,
                 .board = b,
                 .result = result,
                 .ranks = j->real ? setup->local_ranks : 1,
                 .first_rank = j->real ? setup->first_rank : 0,
                 .begun = seconds_now()};
    fflush(NULL);
    const int64_t seconds = setup->options->timeout_s ? setup->options->timeout_s : j->seconds;
    if (setup->in_process) {
        alarm((unsigned)seconds); /* the default action is the end */
        job_play(j, setup, b, 0);
        alarm(0);
        if (b->reports[0].state == RANK_FAILED)
            fail_rank(&w, 0, "failed");
    } else {
        start(&w, setup, getpid());
        watch(&w, (double)seconds);
    }
    sum_up(&w);
}
