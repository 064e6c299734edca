/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about shapes of a route and about outcomes are put as text cases, as corpus/README.md describes them. */
#ifndef CPROUTE_TOOLS_CONFORM_SHAPE_H
#define CPROUTE_TOOLS_CONFORM_SHAPE_H

#include "conform_hello.h"
#include "text/text_shape_line.h"

/* A text case, and the drawn one that it was made of. In one block of memory. */
typedef struct shape_case {
    int64_t rank; /* that is asked: a logical one of the TP x CP group for fused and chunks */
    bool drawn;   /* from `from`, so it shrinks as that does */
    route_case from;
    size_t length;
    char text[]; /* a line without its end */
} shape_case;

/* What the case is as a question about that shape: lengths of any size for pad, one sequence for chunks, a group of TP ranks for both
 * fused and chunks, real lengths, all by the salt. NULL where it has none, or without memory. The caller frees it. */
shape_case *shape_case_of_route(question_op op, const route_case *c);

/* A case that somebody wrote. NULL without memory. */
shape_case *shape_case_of_text(const text_case *c, int64_t rank);

shape_case *shape_case_copy(const shape_case *c);
bool shape_case_is_simpler(const shape_case *a, const shape_case *b);

/* As a line of the corpus, with the outcome that it must have. */
void shape_case_write(FILE *out, const shape_case *c, const char *note);

/* Both lines of the question. False if hello does not allow it, or without memory. */
bool shape_case_ask(FILE *request, FILE *want, question_op op, const hello *h, const shape_case *c);

/* The right answer to a text case. */
void shape_answer_write(FILE *out, question_op op, text_case *c, int64_t rank);

/* Does it say something that an outcome is about, beside its route? */
bool text_case_has_outcome(const text_case *c);

#endif
