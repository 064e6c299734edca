/* SPDX-License-Identifier: Apache-2.0 */
/* What this library answers to a script of operations on tensors and a cache. */
#ifndef CPROUTE_TOOLS_SCRIPT_ANSWERS_H
#define CPROUTE_TOOLS_SCRIPT_ANSWERS_H

#include "kit/cache_case.h"
#include <stdio.h>

/* {"answers":[..]} and a newline: for every operation that asks something hit, miss, ok, error:KIND, or nothing where
 * what it asks about is not there. False without memory. */
bool script_answers_write(FILE *out, const cache_case *c);

/* Is there an answer to such an operation? */
bool script_asks(cache_op_kind kind);

#endif
