/* SPDX-License-Identifier: Apache-2.0 */
/* What laws ask of a case before and while they judge it. */
#ifndef CPROUTE_PROPS_SUBJECT_H
#define CPROUTE_PROPS_SUBJECT_H

#include "kit/law.h"

/* Laws that look at every rank do not apply to larger groups. */
enum { GROUP_MAX = 256 };

/* False, with the verdict "not applicable", unless the case is legal. */
bool subject_legal(const route_case *c, verdict *v);

/* False, with the verdict "not applicable", unless it is legal and small enough to list all tokens of all
 * ranks. */
bool subject_listable(const route_case *c, verdict *v);

/* A legal case as dense int64 boundaries that lie in the case itself. */
cpr_route_request subject_request(const route_case *c);

/* The same request for another rank. */
cpr_route_request request_of_rank(const cpr_route_request *request, int64_t rank);

/* The same request with the two layouts exchanged. */
cpr_route_request request_reversed(const cpr_route_request *request);

/* An independent number in [0, below) out of the salt; `draw` numbers them. */
uint64_t salt_below(uint64_t salt, unsigned draw, uint64_t below);

/* The law itself has no memory: nothing is judged. Returns false. */
bool subject_no_memory(verdict *v);

#endif
