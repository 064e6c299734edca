/* SPDX-License-Identifier: Apache-2.0 */
/* A question to an implementation, with the right answer; and what is wrong about an answer. */
#ifndef CPROUTE_TOOLS_CONFORM_QUESTION_H
#define CPROUTE_TOOLS_CONFORM_QUESTION_H

#include "conform_subject.h"

enum { SIGNATURE_LENGTH = 120, DETAILS_LENGTH = 320 };

typedef struct question {
    question_op op;
    char *request, *want; /* lines, with their ends */
    size_t request_length, want_length;
} question;

/* False if it cannot be asked: hello does not allow it, an exchange is asked of what is refused, or without memory. */
bool question_make(question *q, const hello *h, question_op op, const void *subject);
void question_free(question *q);

typedef enum judgement {
    ANSWER_RIGHT,
    ANSWER_WRONG,
    ANSWER_UNSUPPORTED, /* the other side says that it has none */
    ANSWER_NONE,        /* not JSON: nobody knows what the next line answers */
    ANSWER_NOT_AWAITED  /* there was a reason to stop */
} judgement;

/* What is wrong: the class that differences are grouped by, and the first place. */
typedef struct difference {
    char signature[SIGNATURE_LENGTH];
    char details[DETAILS_LENGTH];
} difference;

judgement answer_judge(const question *q, const hello *h, const char *line, size_t length, difference *d);

#endif
