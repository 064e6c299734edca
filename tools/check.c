/* SPDX-License-Identifier: Apache-2.0 */
/* cproute check: random or exhaustive cases against every law. */
#include "arguments.h"
#include "findings.h"
#include "interruption.h"
#include "kit/runner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double DEFAULT_SECONDS = 10;

static bool take_cases(arguments *a, const char *value, char *mistake, size_t size) {
    if (parse_uint64(value, &a->cases) && a->cases > 0)
        return true;
    snprintf(mistake, size, "'%s' is not a number of cases above 0", value);
    return false;
}

static bool take_exhaustive(arguments *a, const char *value, char *mistake, size_t size) {
    (void)mistake;
    (void)size;
    return take_nothing(value, &a->exhaustive);
}

static bool take_list(arguments *a, const char *value, char *mistake, size_t size) {
    (void)mistake;
    (void)size;
    return take_nothing(value, &a->list);
}

static const option_spec option_seconds = {
    "seconds", "S", "time for all laws together (10; --exhaustive: no limit)", take_seconds};
static const option_spec option_cases = {"cases", "N", "cases for each law, whatever time they take",
                                         take_cases};
static const option_spec option_exhaustive = {"exhaustive", NULL, "every small case instead of random ones",
                                              take_exhaustive};
static const option_spec option_list = {"list", NULL, "name the laws and what they mean", take_list};
static const option_spec *const options[] = {
    &option_laws,       &option_seconds, &option_cases,    &option_seed,
    &option_exhaustive, &option_list,    &option_findings, NULL};

static bool progress(void *context, const law *l, uint64_t cases, uint64_t applicable, double seconds) {
    const bool *live = context;
    if (*live)
        fprintf(stderr, "\r%-14s %12" PRIu64 " cases %12" PRIu64 " applicable %10.0f cases/s ", l->id, cases,
                applicable, seconds > 0 ? (double)cases / seconds : 0.0);
    return !interrupted();
}

static void tell_result(const law *l, const char *source, const run_report *report, bool live) {
    if (live)
        fprintf(stderr, "\r%78s\r", "");
    fprintf(stderr, "%-14s %-10s %12" PRIu64 " cases %12" PRIu64 " applicable %10.0f cases/s  %s\n", l->id,
            source, report->cases, report->cases - report->not_applicable,
            report->seconds > 0 ? (double)report->cases / report->seconds : 0.0,
            report->failed ? "FAILED" : "ok");
}

static void tell_failure(const arguments *a, const law *l, const run_report *report) {
    printf("%s failed at case %" PRIu64 " of seed %" PRIu64 ", shrunk to %zu bytes\n", l->id,
           report->failed_case, a->seed, report->length);
    if (!report->length) { /* it failed, but for no case that could be drawn again */
        finding_show(stdout, l, &report->verdict, NULL);
        return;
    }
    void *subject = subject_from_bytes(l, report->bytes, report->length);
    finding_show(stdout, l, &report->verdict, subject);
    if (subject)
        finding_keep(a->program, a->out, l, &report->verdict, report->bytes, report->length, subject);
    free(subject);
}

/* One law against one source of cases; true if it holds. */
static bool check_law(const arguments *a, const law *l, const char *source, run_options *how,
                      uint64_t *cases) {
    bool live = isatty(STDERR_FILENO);
    how->progress = progress;
    how->context = &live;
    run_report report = run_law(l, how);
    *cases += report.cases;
    tell_result(l, source, &report, live);
    if (report.failed)
        tell_failure(a, l, &report);
    return !report.failed;
}

/* Both sources share the time, if there is a limit. */
static bool check_exhaustively(const arguments *a, const law *l, double seconds, uint64_t *cases) {
    run_options legal = {.seed = a->seed, .seconds = seconds / 2, .exhaustive = &CASE_BOUNDS_EXHAUSTIVE};
    run_options wrong = {.seed = a->seed, .seconds = seconds / 2, .exhaustive = &CASE_BOUNDS_CORRUPTED};
    if (l->family != &route_family)
        return true;
    return check_law(a, l, "legal", &legal, cases) &&
           (interrupted() || check_law(a, l, "wrong", &wrong, cases));
}

static bool is_chosen(const arguments *a, size_t number) {
    return !a->laws || a->laws[number];
}

static size_t laws_chosen(const arguments *a) {
    size_t count = 0;
    for (size_t i = 0; i < law_count; i++)
        count += is_chosen(a, i);
    return count;
}

static int check_laws(const arguments *a) {
    size_t chosen = laws_chosen(a), broken = 0;
    double seconds = a->seconds > 0 || a->cases || a->exhaustive ? a->seconds : DEFAULT_SECONDS;
    uint64_t cases = 0;
    fprintf(stderr, "seed %" PRIu64 "\n", a->seed);
    for (size_t i = 0; i < law_count && !interrupted(); i++) {
        run_options how = {.seed = a->seed, .cases = a->cases, .seconds = seconds / (double)chosen};
        if (!is_chosen(a, i))
            continue;
        bool holds = a->exhaustive ? check_exhaustively(a, &laws[i], how.seconds, &cases)
                                   : check_law(a, &laws[i], "random", &how, &cases);
        broken += !holds;
    }
    printf("%s%zu laws, %" PRIu64 " cases, %zu laws broken, seed %" PRIu64 "\n",
           interrupted() ? "interrupted: " : "", chosen, cases, broken, a->seed);
    return finish_output(broken ? EXIT_FINDINGS : (interrupted() ? EXIT_INTERRUPTED : EXIT_GOOD));
}

static int list_laws(void) {
    for (size_t i = 0; i < law_count; i++)
        printf("%-14s %s\n", laws[i].id, laws[i].meaning);
    return finish_output(EXIT_GOOD);
}

static int check_run(arguments *a) {
    if (a->operand_count)
        return wrong_use(&check_command, "unexpected '%s'", a->operands[0]);
    if (a->cases && a->seconds > 0)
        return wrong_use(&check_command, "--cases or --seconds, not both");
    if (a->exhaustive && (a->cases || a->seed_given))
        return wrong_use(&check_command, "--exhaustive draws nothing: it has no --cases and no --seed");
    if (a->list)
        return list_laws();
    if (!a->seed_given && !a->exhaustive)
        a->seed = fresh_seed();
    interruption_watch();
    return check_laws(a);
}

const command check_command = {
    .name = "check",
    .summary = "Tests every law on random cases, and shrinks what breaks one.",
    .operands = "[options]",
    .details = "What breaks a law is shrunk, drawn and written as a text case into --out, with\n"
               "the line that replays it. Ctrl-C ends early and tells what was found. The same\n"
               "seed draws the same cases.",
    .options = options,
    .run = check_run,
};
