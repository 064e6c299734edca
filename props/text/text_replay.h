/* SPDX-License-Identifier: Apache-2.0 */
/* Judges text cases: all builders against what the case expects, then every law that fits. */
#ifndef CPROUTE_PROPS_TEXT_REPLAY_H
#define CPROUTE_PROPS_TEXT_REPLAY_H

#include "kit/law.h"
#include "text_case.h"

/*
 * By one law or, if `only` is NULL, by all that fit.
 *
 * LAW_NOT_APPLICABLE: it needs what is not here, or that law is not about such cases; the reason says what. If a law is broken, *broken is
 * that law and *subject the case as the law saw it; otherwise *broken is NULL. Without a subject to work
 * in, laws are not asked.
 */
void text_case_judge(text_case *c, const law *only, verdict *v, const law **broken, route_case *subject);

/* What a law that text_case_judge found broken had judged. */
const void *text_case_subject(const text_case *c, const law *broken, const route_case *subject);

/* The case for laws, at the rank that it names or rank 0. False if laws cannot take it. */
bool text_case_for_laws(text_case *c, route_case *to);

#endif
