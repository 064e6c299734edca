/* SPDX-License-Identifier: Apache-2.0 */
/* The interval builder, one rank at a time: for those who validate once and need the routes of many ranks. */
#ifndef CPROUTE_INTERVAL_H
#define CPROUTE_INTERVAL_H

#include "cproute/cproute.h"

/* The route of a rank, whichever the request names, of a request that was found valid. As a builder makes it; NULL without memory. */
cpr_route *cpr_route_of_rank(const cpr_route_request *request, int64_t rank, int64_t total_tokens,
                             const cpr_allocator *allocator);

#endif
