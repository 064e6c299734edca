/* SPDX-License-Identifier: Apache-2.0 */
/* What questions are about: a route_case; a shape_case where asks_with_text; a cache_case for ASK_CACHE. */
#ifndef CPROUTE_TOOLS_CONFORM_SUBJECT_H
#define CPROUTE_TOOLS_CONFORM_SUBJECT_H

#include "conform_shape.h"

#include <stdio.h>

/* The caller frees it. NULL without memory. */
void *subject_copy(question_op op, const void *subject);

bool subject_is_simpler(question_op op, const void *a, const void *b);

/* Fills in what the rules say about the route; a case of the corpus may be about something else. */
void subject_expect(route_case *c);

/* One line of text, as in the corpus. */
void subject_write(FILE *out, question_op op, const void *subject, const char *note);

#endif
