/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LINE_WIDTH = 79 };
static const double LIVE_S = 0.2, LINE_S = 10;

double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double interval(const progress_line *p) {
    return p->live ? LIVE_S : LINE_S;
}

void progress_begin(progress_line *p) {
    *p = (progress_line){.live = isatty(STDERR_FILENO), .begun = seconds_now()};
    p->next = p->begun + interval(p);
}

bool progress_due(const progress_line *p) {
    return seconds_now() >= p->next;
}

void progress_tell(progress_line *p, const char *format, ...) {
    char line[LINE_WIDTH + 1];
    va_list details;
    const int head = snprintf(line, sizeof line, "%.0f s: ", seconds_now() - p->begun);
    va_start(details, format);
    vsnprintf(line + head, sizeof line - (size_t)head, format, details);
    va_end(details);
    if (p->live)
        fprintf(stderr, "\r%-*s", LINE_WIDTH, line);
    else
        fprintf(stderr, "%s\n", line);
    p->shown = p->live;
    p->next = seconds_now() + interval(p);
}

void progress_end(progress_line *p) {
    if (p->shown)
        fprintf(stderr, "\r%*s\r", LINE_WIDTH, "");
    p->shown = false;
}
