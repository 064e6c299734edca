/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a law against many cases, from a random or an exhaustive source, and shrinks what fails. */
#ifndef CPROUTE_PROPS_RUNNER_H
#define CPROUTE_PROPS_RUNNER_H

#include "shrink.h"

typedef struct run_options {
    uint64_t seed;                 /* case i of a run is drawn from a seed made of this and i */
    uint64_t cases;                /* stop after so many; 0: no limit */
    double seconds;                /* stop after so long; 0: no limit */
    const case_bounds *exhaustive; /* route laws: every case within these bounds instead of random ones */
    /* Judge in this process, where a crash ends it: for threads, debuggers and profilers. By default cases run in a process
     * of their own, and a crash or a hang is a failure like another. */
    bool in_process;
    /* Called about twice a second and at the end; false interrupts the run, which then reports what it has. */
    bool (*progress)(void *context, const law *law, uint64_t cases, uint64_t applicable, double seconds);
    void *context;
} run_options;

typedef struct run_report {
    uint64_t cases, not_applicable;
    double seconds;
    bool failed;
    verdict verdict;      /* of the shrunk case if it failed */
    uint64_t failed_case; /* its number within the run */
    uint8_t bytes[CHOICE_LOG_BYTES];
    size_t length; /* of the shrunk case; 0 if a failure belongs to no case, as leaks found at the end */
    shrink_report shrunk;
} run_report;

run_report run_law(const law *law, const run_options *options);

/* For people: what failed, the verdict on the shrunk case, its picture, and its text, ready for corpus/cases. */
void run_report_show(FILE *out, const law *law, const run_report *report, bool colour);

#endif
