/* SPDX-License-Identifier: Apache-2.0 */
/* Is a request one that a route can be built from? */
#ifndef CPROUTE_REQUEST_H
#define CPROUTE_REQUEST_H

#include "cproute/cproute.h"

/* Of the geometry alone; writes *error on failure only. */
cpr_status cpr_geometry_validate(cpr_geometry geometry, cpr_error *error);

/* Of the layouts alone; likewise. */
cpr_status cpr_layouts_validate(cpr_layout source, cpr_layout target, cpr_error *error);

/* Of boundaries alone, from dtype to decreasing; likewise. Writes *total_tokens on success. */
cpr_status cpr_boundaries_validate(const cpr_cu_seqlens *cu_seqlens, int64_t *total_tokens, cpr_error *error);

/* Writes *total_tokens on success, else *error. */
cpr_status cpr_request_validate(const cpr_route_request *request, int64_t *total_tokens, cpr_error *error);

#endif
