/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of faults share: a small conversion in which every rank has rows for every other, and how an error must look. */
#ifndef CPROUTE_GPU_TESTS_FAULT_H
#define CPROUTE_GPU_TESTS_FAULT_H

#include "tests.h"
#include "trip.h"

enum { FAULT_ROW_BYTES = 64, ANYTHING = INT64_MIN };

/* A pack of so many tokens, or a little less, in which no split size is zero. */
bool fault_pack(const stage *s, int64_t tokens, pack *p);

/* Is the error of that name, with these details? ANYTHING fits all. */
bool fault_is(const stage *s, const char *what, const cpr_error *error, const char *name, int64_t index,
              int64_t got, int64_t wanted);

/* A run forward, with or without a route, whose error is expected. */
cpr_status fault_run(const stage *s, const trip *t, cpr_error *error);

/* Enqueues and waits until an error comes; it must come within the timeout of the stage and some seconds, be one of those that a lost
 * rank may end in, and stay. `runs` of the exchange are enqueued between waits. */
bool fault_ends_in_error(const stage *s, trip *t, int64_t runs);

#endif
