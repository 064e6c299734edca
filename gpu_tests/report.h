/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank tells the process that watches it, in memory that both see: what it is doing, what went wrong, what it
 * counted and measured. Whoever dies or hangs has left its last step here.
 */
#ifndef CPROUTE_GPU_TESTS_REPORT_H
#define CPROUTE_GPU_TESTS_REPORT_H

#include <stdbool.h>
#include <stdint.h>

enum { STEP_BYTES = 240, REASON_BYTES = 800, REPORT_LINES = 128, REPORT_FIGURES = 24, NAME_BYTES = 48 };

typedef enum rank_state { RANK_NOT_STARTED, RANK_RUNNING, RANK_PASSED, RANK_FAILED, RANK_SKIPPED } rank_state;

/* A line of the table, in the manner of nccl-tests. */
typedef struct line {
    char what[NAME_BYTES]; /* conversion, all-to-all, pack, ... or the name of a pack */
    char type[8];
    char from[28], to[28];
    int64_t bytes; /* of one rank */
    int64_t rows;  /* of one rank */
    int64_t width; /* elements of a row */
    int64_t cp;
    int64_t sequences;   /* 0: does not matter */
    double time_us;      /* 0: not measured */
    double algbw, busbw; /* GB/s */
    int64_t wrong;
} line;

typedef struct figure {
    char name[NAME_BYTES];
    double value;
} figure;

typedef struct report {
    volatile rank_state state;
    volatile bool may_die; /* this rank is about to be killed on purpose */
    char step[STEP_BYTES];
    char reason[REASON_BYTES]; /* why it failed or was skipped */
    int64_t cases, wrong;
    int64_t line_count, figure_count;
    line lines[REPORT_LINES];
    figure figures[REPORT_FIGURES];
} report;

#define REPORT_PRINTF(at) __attribute__((format(printf, at, at + 1)))

/* What the rank does now. */
void report_step(report *r, const char *format, ...) REPORT_PRINTF(2);

/* The first failure stays. Returns false, so that a check can `return report_fail(...)`. */
bool report_fail(report *r, const char *format, ...) REPORT_PRINTF(2);

/* Beyond REPORT_LINES and REPORT_FIGURES: a failure, because what is not shown is not seen. */
bool report_line(report *r, const line *l);
bool report_figure(report *r, const char *name, double value);

#endif
