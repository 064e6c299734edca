/* SPDX-License-Identifier: Apache-2.0 */
/* Boundaries without padding for a case whose own are taken as padded. */
#ifndef CPROUTE_PROPS_REAL_LENGTHS_H
#define CPROUTE_PROPS_REAL_LENGTHS_H

#include "scratch.h"
#include "subject.h"

/* As many entries as the case has; every sequence keeps none, all or some of its tokens, by the salt. NULL without memory. */
int64_t *real_boundaries(const route_case *c, scratch *s);

#endif
