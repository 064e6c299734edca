/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine makes of a text case: its routes, and how everything that the case asks for ends. */
#ifndef CPROUTE_PROPS_TEXT_OUTCOME_H
#define CPROUTE_PROPS_TEXT_OUTCOME_H

#include "kit/law.h"
#include "text_case.h"

typedef cpr_status text_builder_fn(const cpr_route_request *request, const cpr_allocator *allocator,
                                   cpr_route **route, cpr_error *error);

/* The ranks that a case is judged on: the one that it names, or all; a spread of them where there are too
 * many. */
enum { JUDGED_RANKS_MAX = 256 };
typedef struct judged_ranks {
    int64_t items[JUDGED_RANKS_MAX];
    size_t count;
} judged_ranks;
judged_ranks text_case_ranks(const text_case *c);

/* Tokens by the last boundary; 0 if there is none or it is negative. */
int64_t text_case_tokens(const text_case *c);

/* May all tokens be listed, for all ranks? */
bool text_case_is_enumerable(const text_case *c);

/* The case's request for a rank. False with the error if its numbers do not fit its dtype. */
bool text_case_request(text_case *c, int64_t rank, cpr_route_request *request, cpr_error *error);

/* A route of the case's boundaries. Not const: the boundaries may be converted. */
cpr_status text_case_route(text_case *c, text_builder_fn *build, int64_t rank, cpr_layout from, cpr_layout to,
                           cpr_route **route, cpr_error *error);

/* The layouts that the case is about. */
cpr_layout text_case_from(const text_case *c);
cpr_layout text_case_to(const text_case *c);

/* The tokens that a layout gives to a rank, appended. */
cpr_status text_case_share(text_case *c, cpr_layout layout, int64_t rank, int64_list *tokens,
                           cpr_error *error);

/* How all operations of the case end, its route being legal: the first error, or CPR_OK. What an error
 * cannot say, such as a wrong row that arrived, goes into the verdict. */
cpr_error text_case_outcome(text_case *c, verdict *v);

bool errors_equal(const cpr_error *a, const cpr_error *b);

#endif
