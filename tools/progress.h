/* SPDX-License-Identifier: Apache-2.0 */
/* Where long work stands, on standard error: one line that changes on a terminal, a line every ten seconds elsewhere. */
#ifndef CPROUTE_TOOLS_PROGRESS_H
#define CPROUTE_TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct progress_line {
    bool live, shown;
    double begun, next; /* as seconds_now */
} progress_line;

double seconds_now(void);

void progress_begin(progress_line *p);

/* Is it time to tell? */
bool progress_due(const progress_line *p);

/* Tells it, after the seconds since the beginning. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void progress_tell(progress_line *p, const char *format, ...);

/* Leaves no line behind that would change. */
void progress_end(progress_line *p);

#endif
