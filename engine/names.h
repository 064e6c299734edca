/* SPDX-License-Identifier: Apache-2.0 */
/* Enumerations that count from 0 and their names. */
#ifndef CPROUTE_NAMES_H
#define CPROUTE_NAMES_H

#include <stdint.h>

/* The name of `value`, or "unknown". */
const char *cpr_name_of(const char *const *names, int64_t count, int64_t value);

/* The value with that name, or -1. */
int cpr_named(const char *const *names, int count, const char *name);

#endif
