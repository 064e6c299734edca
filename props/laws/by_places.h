/* SPDX-License-Identifier: Apache-2.0 */
/* The fourth builder: a route put together from what the conversion without a route knows, so that every law of builders
 * holds for that too. It judges offsets as many threads do. */
#ifndef CPROUTE_PROPS_BY_PLACES_H
#define CPROUTE_PROPS_BY_PLACES_H

#include "cuda/places.h"

/* As the builders of cproute.h; takes any number of tokens, in O(entries + runs log runs). */
cpr_status route_by_places(const cpr_route_request *request, const cpr_allocator *allocator,
                           cpr_route **route, cpr_error *error);

cpr_conversion_facts facts_of_request(const cpr_route_request *request);

#endif
