/* SPDX-License-Identifier: Apache-2.0 */
/* Routes with a count of those who use them; cpr_route_release gives one back. */
#ifndef CPROUTE_SHARED_ROUTE_H
#define CPROUTE_SHARED_ROUTE_H

#include "cproute/cproute.h"

/* Takes over a built route, with one user. NULL without memory, and the route is as it was. */
const cpr_route *cpr_route_share(cpr_route *route);

void cpr_route_retain(const cpr_route *shared);

/* Bytes that a shared route takes. */
int64_t cpr_route_shared_bytes(const cpr_route *shared);

#endif
