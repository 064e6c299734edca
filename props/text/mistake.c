/* SPDX-License-Identifier: Apache-2.0 */
#include "mistake.h"

#include <stdarg.h>
#include <stdio.h>

bool mistaken(const mistake_place *m, const char *format, ...) {
    va_list details;
    va_start(details, format);
    vsnprintf(m->text, m->size, format, details);
    va_end(details);
    return false;
}
