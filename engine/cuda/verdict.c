/* SPDX-License-Identifier: Apache-2.0 */
#include "verdict.h"

#include "error.h"
#include "runs.h"
#include "xxh64.h"

static uint64_t runs_digest(cpr_message message) {
    cpr_xxh64 state = cpr_xxh64_begin(0);
    for (int64_t i = 0; i < message.count; i++) {
        cpr_xxh64_add(&state, (uint64_t)message.runs[i].source_row);
        cpr_xxh64_add(&state, (uint64_t)message.runs[i].target_row);
        cpr_xxh64_add(&state, (uint64_t)message.runs[i].length);
    }
    return cpr_xxh64_end(&state);
}

cpr_rank_record cpr_rank_record_failed(cpr_status status) {
    return (cpr_rank_record){.status = status};
}

cpr_rank_record cpr_rank_record_of(const cpr_route *route, uint64_t digest, size_t row_bytes, int64_t peer) {
    const cpr_message message = cpr_message_of(&route->send, peer);
    return (cpr_rank_record){
        .status = CPR_OK,
        .cp_rank = route->geometry.cp_rank,
        .cp_size = route->geometry.cp_size,
        .digest = digest,
        .row_bytes = row_bytes,
        .rows = message.rows,
        .runs_digest = runs_digest(message),
    };
}

static cpr_status check_statuses(const cpr_rank_record *records, int64_t ranks, cpr_error *error) {
    for (int64_t r = 0; r < ranks; r++) {
        if (records[r].status != CPR_OK) {
            return cpr_fail(error, CPR_PEER_FAILED, r, records[r].status, 0);
        }
    }
    return CPR_OK;
}

static cpr_status check_places(const cpr_rank_record *records, int64_t ranks, cpr_error *error) {
    for (int64_t r = 0; r < ranks; r++) {
        if (records[r].cp_rank != r || records[r].cp_size != ranks) {
            return cpr_fail(error, CPR_BAD_RANK, r, records[r].cp_rank, r);
        }
    }
    return CPR_OK;
}

static cpr_status check_digests(const cpr_rank_record *records, int64_t ranks, cpr_error *error) {
    for (int64_t r = 1; r < ranks; r++) {
        if (records[r].digest != records[0].digest) {
            return cpr_fail(error, CPR_DIVERGENT_METADATA, r, (int64_t)records[r].digest,
                            (int64_t)records[0].digest);
        }
    }
    return CPR_OK;
}

static cpr_status check_row_bytes(const cpr_rank_record *records, int64_t ranks, cpr_error *error) {
    for (int64_t r = 1; r < ranks; r++) {
        if (records[r].row_bytes != records[0].row_bytes) {
            return cpr_fail(error, CPR_DIVERGENT_METADATA, r, (int64_t)records[r].row_bytes,
                            (int64_t)records[0].row_bytes);
        }
    }
    return CPR_OK;
}

cpr_status cpr_verdict_on_ranks(const cpr_rank_record *records, int64_t ranks, cpr_error *error) {
    if (check_statuses(records, ranks, error) != CPR_OK || check_places(records, ranks, error) != CPR_OK ||
        check_digests(records, ranks, error) != CPR_OK || check_row_bytes(records, ranks, error) != CPR_OK) {
        return error->status;
    }
    return cpr_succeed(error);
}

static cpr_status check_rows(const cpr_rank_record *records, const cpr_route *route, cpr_error *error) {
    const cpr_geometry geometry = route->geometry;
    for (int64_t sender = 0; sender < geometry.cp_size; sender++) {
        const int64_t rows = cpr_message_of(&route->recv, sender).rows;
        if (records[sender].rows != rows) {
            return cpr_fail(error, CPR_SPLIT_MISMATCH, sender * geometry.cp_size + geometry.cp_rank,
                            records[sender].rows, rows);
        }
    }
    return CPR_OK;
}

static cpr_status check_runs(const cpr_rank_record *records, const cpr_route *route, cpr_error *error) {
    for (int64_t sender = 0; sender < route->geometry.cp_size; sender++) {
        const uint64_t digest = runs_digest(cpr_message_of(&route->recv, sender));
        if (records[sender].runs_digest != digest) {
            return cpr_fail(error, CPR_DIVERGENT_METADATA, route->geometry.cp_rank, (int64_t)digest,
                            (int64_t)records[sender].runs_digest);
        }
    }
    return CPR_OK;
}

cpr_status cpr_verdict_on_messages(const cpr_rank_record *records, const cpr_route *route, cpr_error *error) {
    if (check_rows(records, route, error) != CPR_OK || check_runs(records, route, error) != CPR_OK) {
        return error->status;
    }
    return cpr_succeed(error);
}

/* Split sizes before runs, then by index, as one process that sees all ranks would find them. */
static bool comes_before(const cpr_error *a, const cpr_error *b) {
    if (a->status != b->status) {
        return a->status == CPR_SPLIT_MISMATCH;
    }
    return a->index < b->index;
}

cpr_status cpr_verdict_chosen(const cpr_error *findings, int64_t ranks, cpr_error *error) {
    const cpr_error *chosen = NULL;
    for (int64_t r = 0; r < ranks; r++) {
        if (findings[r].status != CPR_OK && (chosen == NULL || comes_before(&findings[r], chosen))) {
            chosen = &findings[r];
        }
    }
    if (chosen == NULL) {
        return cpr_succeed(error);
    }
    *error = *chosen;
    return error->status;
}
