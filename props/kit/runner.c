/* SPDX-License-Identifier: Apache-2.0 */
#include "runner.h"
#include "isolate.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_ATTEMPTS = 20000,
    TIMEOUT_S = 2, /* of one attempt at shrinking what hangs */
    HANG_S = 20,   /* one case for so long hangs */
    PROGRESS_MS = 500,
    CASES_PER_CLOCK = 16, /* reading the clock costs as much as a small case */
};

static const char REASON_END[] = "the process that ran the cases ended badly: see standard error";

/* What the process that judges tells the one that watches. The case at hand is in `log` before it is judged. */
typedef struct board {
    choice_log log;
    atomic_uint_least64_t cases, not_applicable;
    atomic_bool stop, finished, failed;
    verdict v;
    uint8_t bytes[CHOICE_LOG_BYTES];
    size_t length;
    shrink_report shrunk;
    atomic_bool is_shrunk;
} board;

typedef struct run {
    const law *l;
    const run_options *options;
    board *board;
    void *subject;
    odometer odometer;
    double begun, told;
    pid_t watcher; /* 0: this process watches itself */
} run;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/*==============================================================================
 * MARK: - Judging
 *============================================================================*/

static uint64_t seed_of_case(uint64_t seed, uint64_t number) {
    uint64_t state = seed;
    state = random_next(&state) + number;
    return random_next(&state);
}

static void draw_next(run *r, uint64_t number) {
    choice_log *log = &r->board->log;
    choices from;
    log->length = log->record_count = 0;
    log->full = false;
    if (r->options->exhaustive) {
        from = choices_from_odometer(&r->odometer, log);
        route_case_draw(&from, r->options->exhaustive, r->subject);
    } else {
        from = choices_from_seed(seed_of_case(r->options->seed, number), log);
        r->l->family->draw(&from, r->subject);
    }
}

/* False once the case has failed the law. */
static bool judge_next(run *r, uint64_t number) {
    verdict *v = &r->board->v;
    draw_next(r, number);
    law_judge(r->l, r->subject, v);
    if (v->outcome == LAW_FAILED) {
        atomic_store(&r->board->failed, true);
        return false;
    }
    atomic_fetch_add_explicit(&r->board->cases, 1, memory_order_relaxed);
    if (v->outcome == LAW_NOT_APPLICABLE)
        atomic_fetch_add_explicit(&r->board->not_applicable, 1, memory_order_relaxed);
    return true;
}

static bool tell(run *r) {
    const uint64_t cases = atomic_load(&r->board->cases),
                   not_applicable = atomic_load(&r->board->not_applicable);
    const run_options *o = r->options;
    r->told = now();
    return !o->progress || o->progress(o->context, r->l, cases, cases - not_applicable, r->told - r->begun);
}

static bool time_is_left(run *r) {
    const double at = now();
    if (r->options->seconds > 0 && at - r->begun >= r->options->seconds)
        return false;
    if (r->watcher)
        return !atomic_load(&r->board->stop) && getppid() == r->watcher;
    return (at - r->told) * 1e3 < (double)PROGRESS_MS || tell(r);
}

static void judge_all(run *r) {
    odometer_start(&r->odometer);
    for (uint64_t number = 0; r->options->cases == 0 || number < r->options->cases; number++) {
        if (number % CASES_PER_CLOCK == 0 && !time_is_left(r))
            return;
        if (!judge_next(r, number) || (r->options->exhaustive && !odometer_next(&r->odometer)))
            return;
    }
}

/*==============================================================================
 * MARK: - Watching
 *============================================================================*/

/* Ends by exit and not _exit: leak checkers and coverage do their work there. */
static void judge_all_and_exit(run *r) {
    restore_signals();
    signal(SIGINT, SIG_IGN); /* the watcher decides */
    judge_all(r);
    atomic_store(&r->board->finished, true);
    exit(0);
}

/* Until the process closes its end of the pipe, by ending. */
static const char *watch(run *r, pid_t process, int pipe_end) {
    struct pollfd end = {.fd = pipe_end, .events = POLLIN};
    uint64_t seen = UINT64_MAX;
    double seen_at = now();
    while (poll(&end, 1, PROGRESS_MS) <= 0) {
        const uint64_t cases = atomic_load(&r->board->cases);
        if (cases != seen) {
            seen = cases;
            seen_at = now();
        } else if (now() - seen_at > (double)HANG_S && !atomic_load(&r->board->finished)) {
            kill(process, SIGKILL);
            wait_for(process);
            return REASON_HANG;
        }
        if (!tell(r))
            atomic_store(&r->board->stop, true);
    }
    const char *reason = failure_of_exit(wait_for(process));
    return reason && atomic_load(&r->board->finished) ? REASON_END : reason;
}

/* The reason if the process did not end well, NULL if all verdicts are in. */
static const char *judge_all_apart(run *r) {
    int ends[2];
    if (pipe(ends) != 0) {
        judge_all(r);
        return NULL;
    }
    fflush(NULL);
    const pid_t self = getpid(), process = fork();
    if (process == 0) {
        close(ends[0]);
        r->watcher = self;
        judge_all_and_exit(r);
    }
    close(ends[1]);
    const char *reason = NULL;
    if (process > 0)
        reason = watch(r, process, ends[0]);
    else
        judge_all(r);
    close(ends[0]);
    return reason;
}

/*==============================================================================
 * MARK: - Shrinking
 *============================================================================*/

/* The failing case as bytes that the family draws it from: an exhaustive run draws within other bounds. */
static void keep_failing_bytes(run *r) {
    board *b = r->board;
    b->length = b->log.length;
    memcpy(b->bytes, b->log.bytes, b->log.length);
    if (!r->options->exhaustive)
        return;
    choices from = choices_from_bytes(b->log.bytes, b->log.length, NULL);
    route_case_draw(&from, r->options->exhaustive, r->subject);
    if (!route_case_encode(r->subject, b->bytes, sizeof b->bytes, &b->length))
        b->length = 0;
}

/* In one process, which is fast; a simpler case may yet crash, and then takes that process with it. */
static void shrink_apart(run *r) {
    board *b = r->board;
    fflush(NULL);
    const pid_t process = fork();
    if (process == 0) {
        uint8_t bytes[CHOICE_LOG_BYTES];
        size_t length = b->length;
        restore_signals();
        alarm(HANG_S);
        memcpy(bytes, b->bytes, length);
        b->shrunk = shrink_law(r->l, bytes, &length, false, TIMEOUT_S, MAX_ATTEMPTS);
        memcpy(b->bytes, bytes, length);
        b->length = length;
        atomic_store(&b->is_shrunk, true);
        _exit(0);
    }
    if (process > 0)
        wait_for(process);
}

static void shrink_failure(run *r, bool crashed) {
    board *b = r->board;
    keep_failing_bytes(r);
    if (b->length == 0)
        return;
    if (r->options->in_process) {
        b->shrunk = shrink_law(r->l, b->bytes, &b->length, false, TIMEOUT_S, MAX_ATTEMPTS);
        return;
    }
    if (!crashed)
        shrink_apart(r);
    if (!atomic_load(&b->is_shrunk))
        b->shrunk = shrink_law(r->l, b->bytes, &b->length, true, TIMEOUT_S, MAX_ATTEMPTS);
}

static void draw_shrunk(run *r, void *subject) {
    choices from = choices_from_bytes(r->board->bytes, r->board->length, NULL);
    r->l->family->draw(&from, subject);
}

/* The verdict on the shrunk case, if it is still a failure: a law of moods keeps the verdict that it gave. */
static void judge_shrunk(run *r) {
    board *b = r->board;
    workshop w;
    verdict v = {.outcome = LAW_PASSED};
    if (b->length == 0)
        return;
    if (r->options->in_process) {
        draw_shrunk(r, r->subject);
        law_judge(r->l, r->subject, &v);
    } else if (workshop_open(&w, r->l, TIMEOUT_S)) {
        draw_shrunk(r, w.subject);
        v = *workshop_judge(&w);
        workshop_close(&w);
    }
    if (v.outcome == LAW_FAILED)
        b->v = v;
}

/*==============================================================================
 * MARK: - Running
 *============================================================================*/

static void run_on_board(run *r, run_report *report) {
    board *b = r->board;
    const char *reason = NULL;
    if (r->options->in_process)
        judge_all(r);
    else
        reason = judge_all_apart(r);
    report->seconds = now() - r->begun;
    report->cases = atomic_load(&b->cases);
    report->not_applicable = atomic_load(&b->not_applicable);
    const bool law_failed = atomic_load(&b->failed);
    if (reason && !law_failed)
        verdict_of_lost_law(&b->v, reason);
    report->failed = law_failed || reason;
    report->failed_case = report->cases;
    if (report->failed && (law_failed || reason != REASON_END)) {
        shrink_failure(r, !law_failed);
        judge_shrunk(r);
    }
    tell(r);
    report->verdict = b->v;
    report->length = b->length;
    report->shrunk = b->shrunk;
    memcpy(report->bytes, b->bytes, b->length);
}

run_report run_law(const law *l, const run_options *options) {
    run_report report = {.verdict = {.outcome = LAW_PASSED, .reason = ""}};
    run r = {.l = l, .options = options, .begun = now()};
    r.told = r.begun;
    r.board = shared_memory(sizeof *r.board);
    r.subject = calloc(1, l->family->size);
    if (r.board && r.subject) {
        run_on_board(&r, &report);
    } else {
        report.failed = true;
        report.verdict = (verdict){.outcome = LAW_FAILED, .reason = "no memory to run in"};
    }
    if (r.board)
        shared_memory_free(r.board, sizeof *r.board);
    free(r.subject);
    return report;
}

void run_report_show(FILE *out, const law *l, const run_report *report, bool colour) {
    const verdict *v = &report->verdict;
    fprintf(out, "law %s, broken by case %" PRIu64 ": %s\n  %s\n  %s\n", l->id, report->failed_case,
            l->meaning, v->reason, v->details);
    void *subject = report->length > 0 ? calloc(1, l->family->size) : NULL;
    if (!subject)
        return;
    choices from = choices_from_bytes(report->bytes, report->length, NULL);
    l->family->draw(&from, subject);
    l->family->show(out, subject, colour);
    l->family->write_text(out, subject, l->id, v->reason);
    free(subject);
}
