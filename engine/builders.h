/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the three builders look like to the front in route.c; the only thing that they share besides the public
 * types. Each validates the request itself, and on success sets *route to a route whose memory cpr_route_free
 * can release: the cpr_route, send.runs and recv.runs each allocated on its own with exactly its size (no block and
 * NULL where count is 0), every field set but boundaries_digest, which the front adds. On failure it writes *error,
 * leaves *route as it was and holds no memory. No pointer may be NULL.
 */
#ifndef CPROUTE_BUILDERS_H
#define CPROUTE_BUILDERS_H

#include "cproute/cproute.h"

typedef cpr_status cpr_builder(const cpr_route_request *request, const cpr_allocator *allocator,
                               cpr_route **route, cpr_error *error);

cpr_builder cpr_build_by_definition;
cpr_builder cpr_build_per_token;
cpr_builder cpr_build_by_intervals;

#endif
