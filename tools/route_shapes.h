/* SPDX-License-Identifier: Apache-2.0 */
/* cproute route --shape: the shapes that others hand a route around in. */
#ifndef CPROUTE_TOOLS_ROUTE_SHAPES_H
#define CPROUTE_TOOLS_ROUTE_SHAPES_H

#include "arguments.h"

extern const option_spec option_shape, option_order, option_real;

/* Prints the shape of the ranks that are asked for; returns how to end. */
int shapes_run(const command *c, arguments *a);

#endif
