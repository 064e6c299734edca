/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void report_step(report *r, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->step, sizeof r->step, format, arguments);
    va_end(arguments);
}

bool report_fail(report *r, const char *format, ...) {
    if (r->state == RANK_FAILED)
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->reason, sizeof r->reason, format, arguments);
    va_end(arguments);
    r->state = RANK_FAILED;
    return false;
}

bool report_line(report *r, const line *l) {
    if (r->line_count == REPORT_LINES)
        return report_fail(r, "more than %d lines in the table", REPORT_LINES);
    r->lines[r->line_count++] = *l;
    return true;
}

bool report_figure(report *r, const char *name, double value) {
    if (r->figure_count == REPORT_FIGURES)
        return report_fail(r, "more than %d figures", REPORT_FIGURES);
    figure *f = &r->figures[r->figure_count++];
    snprintf(f->name, sizeof f->name, "%s", name);
    f->value = value;
    return true;
}
