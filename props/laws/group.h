/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of all ranks. */
#ifndef CPROUTE_PROPS_GROUP_H
#define CPROUTE_PROPS_GROUP_H

#include "engine_under_test.h"
#include "kit/law.h"
#include "scratch.h"

typedef struct group {
    cpr_route **routes;
    int64_t size;
} group;

/* Builds the route of every rank of the request's group with the interval builder. On false, the verdict
 * says why and nothing is to be freed. */
bool group_build(group *g, const engine_under_test *engine, const cpr_route_request *request, verdict *v);
void group_free(group *g);

/* As the exchange takes them. */
const cpr_route *const *group_routes(const group *g);

/* A row of P split sizes for each rank, and its rows on each side: rank r's begin at r * P and r * T/P. */
typedef struct group_tables {
    int64_t *splits[2]; /* [CPR_SEND] and [CPR_RECV] */
    int64_t *rows[2];
} group_tables;

/* Expands every route as a caller would. On false, the verdict says why. */
bool group_expand(const group *g, const engine_under_test *engine, scratch *s, group_tables *tables,
                  verdict *v);

#endif
