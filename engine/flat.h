/* SPDX-License-Identifier: Apache-2.0 */
/* Where things lie in a flat tensor. */
#ifndef CPROUTE_FLAT_H
#define CPROUTE_FLAT_H

#include "cproute/cproute.h"

enum {
    CPR_FLAT_CP_SIZE,
    CPR_FLAT_CP_RANK,
    CPR_FLAT_SOURCE_ROWS,
    CPR_FLAT_TARGET_ROWS,
    CPR_FLAT_SENT,     /* n_send */
    CPR_FLAT_RECEIVED, /* n_recv */
    CPR_FLAT_HEADER
};

/* CPR_FLAT_HEADER entries. */
void cpr_flat_write_header(const cpr_route *route, int64_t *header);

#endif
