/* SPDX-License-Identifier: Apache-2.0 */
/* Is a request one that a route can be built from? */
#ifndef CPROUTE_REQUEST_H
#define CPROUTE_REQUEST_H

#include "cproute/cproute.h"

/* Writes *total_tokens on success, else *error. */
cpr_status cpr_request_validate(const cpr_route_request *request, int64_t *total_tokens, cpr_error *error);

#endif
