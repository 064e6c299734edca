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

bool take_fields(const mistake_place *m, const char *where, json_t *object, const char *format, ...) {
    json_error_t error;
    va_list fields;
    va_start(fields, format);
    const int failed = json_vunpack_ex(object, &error, JSON_STRICT, format, fields);
    va_end(fields);
    return !failed || mistaken(m, "%s: %s", where, error.text);
}
