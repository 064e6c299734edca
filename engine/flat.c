/* SPDX-License-Identifier: Apache-2.0 */
/* Routes written as flat tensors. */
#include "flat.h"

#include "error.h"
#include "runs.h"

/* Rows that are written of a side. */
static int64_t written_rows(const cpr_run_list *list) {
    return list->identity ? 0 : list->rows;
}

void cpr_flat_write_header(const cpr_route *route, int64_t *header) {
    header[CPR_FLAT_CP_SIZE] = route->geometry.cp_size;
    header[CPR_FLAT_CP_RANK] = route->geometry.cp_rank;
    header[CPR_FLAT_SOURCE_ROWS] = route->send.rows;
    header[CPR_FLAT_TARGET_ROWS] = route->recv.rows;
    header[CPR_FLAT_SENT] = written_rows(&route->send);
    header[CPR_FLAT_RECEIVED] = written_rows(&route->recv);
}

cpr_status cpr_flat_size(const cpr_route *route, int64_t *count, cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    const int64_t splits = 2 * route->geometry.cp_size;
    const int64_t sent = written_rows(&route->send);
    const int64_t received = written_rows(&route->recv);
    if (sent > INT64_MAX - CPR_FLAT_HEADER - splits ||
        received > INT64_MAX - CPR_FLAT_HEADER - splits - sent) {
        return cpr_fail(outcome, CPR_OVERFLOW, -1, INT64_MAX, INT64_MAX);
    }
    *count = CPR_FLAT_HEADER + splits + sent + received;
    return cpr_succeed(outcome);
}

cpr_status cpr_flat_encode(const cpr_route *route, int64_t *flat, int64_t count, cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    int64_t size;
    if (cpr_flat_size(route, &size, outcome) != CPR_OK) {
        return outcome->status;
    }
    if (count != size) {
        return cpr_fail(outcome, CPR_TOTAL_MISMATCH, -1, count, size);
    }
    const int64_t ranks = route->geometry.cp_size;
    cpr_flat_write_header(route, flat);
    int64_t *splits = flat + CPR_FLAT_HEADER;
    int64_t *rows = splits + 2 * ranks;
    for (int side = CPR_SEND; side <= CPR_RECV; side++) {
        const cpr_run_list *list = cpr_route_side(route, (cpr_side)side);
        cpr_route_splits(route, (cpr_side)side, splits, ranks, NULL);
        splits += ranks;
        if (!list->identity) {
            cpr_route_rows(route, (cpr_side)side, CPR_INT64, rows, list->rows, NULL);
            rows += list->rows;
        }
    }
    return cpr_succeed(outcome);
}
