/* SPDX-License-Identifier: Apache-2.0 */
/* The right answers of a case against the engine's. */
#ifndef CPROUTE_PROPS_TEXT_ANSWERS_H
#define CPROUTE_PROPS_TEXT_ANSWERS_H

#include "text_outcome.h"
#include "text_shapes.h"

/* Fails the verdict at the first answer that is not the engine's, or that nobody knows the meaning of. */
void text_case_judge_answers(text_case *c, verdict *v);

/* The name that cases have for it. */
const char *text_answer_of_shape(shape_answer which);

#endif
