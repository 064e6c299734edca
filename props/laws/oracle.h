/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reading of the layouts' definitions for the laws alone. It shares nothing with the engine but the names
 * of the layouts, and comes in two forms: whole lists, chunk by chunk, and single places by formula for
 * streams too long to list.
 */
#ifndef CPROUTE_PROPS_ORACLE_H
#define CPROUTE_PROPS_ORACLE_H

#include "kit/route_case.h"

/* Legal boundaries, empty sequences and all, and the size of the group. */
typedef struct oracle_pack {
    const int64_t *cu;
    int64_t entries;
    int64_t cp_size;
} oracle_pack;

typedef struct oracle_place {
    int64_t rank;
    int64_t row;
} oracle_place;

oracle_pack oracle_pack_of(const route_case *c);
int64_t oracle_total(const oracle_pack *pack);
int64_t oracle_rows(const oracle_pack *pack); /* of each rank */

/* The tokens of a rank in local order: oracle_rows() of them. */
void oracle_tokens(const oracle_pack *pack, cpr_layout layout, int64_t rank, int64_t *tokens);

/* By formula, in O(entries). */
oracle_place oracle_place_of(const oracle_pack *pack, cpr_layout layout, int64_t token);
int64_t oracle_token_at(const oracle_pack *pack, cpr_layout layout, oracle_place place);

/* Do the local rows of every rank ascend in the stream? */
bool oracle_ascends(cpr_layout layout, int64_t cp_size);

#endif
