/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes that a route is handed around in, by name, each as one line of JSON. */
#ifndef CPROUTE_PROPS_TEXT_SHAPE_LINE_H
#define CPROUTE_PROPS_TEXT_SHAPE_LINE_H

#include "text_case.h"
#include <stdio.h>

typedef enum route_shape {
    ROUTE_FLAT,     /* one tensor */
    ROUTE_TWO_VIEW, /* between zigzag and contiguous, whatever the case asks for */
    ROUTE_FUSED,    /* of a logical rank of the TP x CP group */
    ROUTE_CHUNKS,   /* of a logical rank; the whole pack is taken as one sequence */
    ROUTE_PAD,      /* the plan that pads */
    ROUTE_REAL,     /* what is real of the source rows */
    ROUTE_DIGEST,   /* what ranks compare */
    ROUTE_SHAPES
} route_shape;

const char *route_shape_name(route_shape shape);
bool route_shape_from_name(const char *name, route_shape *shape);

/* Ranks that have one: of the TP x CP group, or of the CP group. */
int64_t route_shape_ranks(const text_case *c, route_shape shape);

/*
 * {"rank":R,"status":"ok",NAME:[..],..} and a newline, the answers that belong to the shape under the names that corpus/README.md
 * gives them; null stands for rows 0, 1, 2, ... in the indices of a two-view route. False with the error, and nothing written, where
 * the shape is refused.
 */
bool route_shape_write(FILE *out, text_case *c, route_shape shape, int64_t rank, cpr_error *error);

#endif
