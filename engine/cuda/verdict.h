/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks agree on whether an exchange may begin. Every rank sends every other one a record; from what all have sent, all
 * come to the same verdict about statuses, places in the group, digests and row sizes. What a sends to b only the two know, so
 * each receiver then tells all others what it found, and all choose the same finding.
 */
#ifndef CPROUTE_VERDICT_H
#define CPROUTE_VERDICT_H

#include "cproute/cproute.h"

/* From one rank to another. */
typedef struct cpr_rank_record {
    int64_t status; /* if it is not CPR_OK, the rest says nothing */
    int64_t cp_rank, cp_size;
    uint64_t digest; /* of the route */
    uint64_t row_bytes;
    int64_t rows;         /* that it sends to the other */
    uint64_t runs_digest; /* of their runs */
} cpr_rank_record;

/* Of a rank that could not do its part. */
cpr_rank_record cpr_rank_record_failed(cpr_status status);

/* What `route`, of that digest, sends to `peer`, a rank of its group. */
cpr_rank_record cpr_rank_record_of(const cpr_route *route, uint64_t digest, size_t row_bytes, int64_t peer);

/* By what every rank knows; records[r] is from rank r. The same on all ranks. */
cpr_status cpr_verdict_on_ranks(const cpr_rank_record *records, int64_t ranks, cpr_error *error);

/* Does what the others send fit what `route` receives? Known to its rank alone. */
cpr_status cpr_verdict_on_messages(const cpr_rank_record *records, const cpr_route *route, cpr_error *error);

/* Of the findings of all ranks: the same on all. */
cpr_status cpr_verdict_chosen(const cpr_error *findings, int64_t ranks, cpr_error *error);

#endif
