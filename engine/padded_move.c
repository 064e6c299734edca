/* SPDX-License-Identifier: Apache-2.0 */
/* Moving rows by a plan that pads. */
#include <string.h>

#include "error.h"
#include "runs.h"

/* A rank's shard in one of the two layouts. */
typedef struct shard_side {
    const cpr_run_list *list;
    cpr_side side; /* which row of a run is the local one */
    int64_t rows;
} shard_side;

static shard_side side_of(const cpr_padded_plan *plan, cpr_layout layout) {
    return layout == CPR_ZIGZAG ? (shard_side){&plan->zigzag, CPR_RECV, plan->zigzag_rows}
                                : (shard_side){&plan->contiguous, CPR_SEND, plan->contiguous_rows};
}

static cpr_status check_layout(cpr_layout layout, cpr_error *error) {
    const bool known = layout == CPR_ZIGZAG || layout == CPR_CONTIGUOUS;
    return known ? CPR_OK : cpr_fail(error, CPR_BAD_LAYOUT, 0, (int)layout, CPR_CONTIGUOUS);
}

cpr_status cpr_padded_splits(const cpr_padded_plan *plan, cpr_layout layout, int64_t *splits, int64_t count,
                             cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (check_layout(layout, outcome) != CPR_OK) {
        return outcome->status;
    }
    if (count != plan->geometry.cp_size) {
        return cpr_fail(outcome, CPR_SPLIT_MISMATCH, -1, count, plan->geometry.cp_size);
    }
    int64_t run = 0;
    for (int64_t peer = 0; peer < count; peer++) {
        splits[peer] = cpr_message_next(side_of(plan, layout).list, peer, &run).rows;
    }
    return cpr_succeed(outcome);
}

cpr_status cpr_padded_send_rows(const cpr_padded_plan *plan, cpr_layout layout, int64_t *rows, int64_t count,
                                cpr_error *error) {
    const shard_side own = side_of(plan, layout);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (check_layout(layout, outcome) != CPR_OK) {
        return outcome->status;
    }
    if (count != own.list->rows) {
        return cpr_fail(outcome, CPR_TOTAL_MISMATCH, -1, count, own.list->rows);
    }
    for (int64_t i = 0; i < own.list->count; i++) {
        const cpr_run *run = &own.list->runs[i];
        for (int64_t k = 0; k < run->length; k++) {
            *rows++ = cpr_run_local_row(run, own.side) + k;
        }
    }
    return cpr_succeed(outcome);
}

cpr_status cpr_padded_gather_index(const cpr_padded_plan *plan, cpr_layout layout, int64_t *index,
                                   int64_t count, cpr_error *error) {
    const shard_side own = side_of(plan, layout);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (check_layout(layout, outcome) != CPR_OK) {
        return outcome->status;
    }
    if (count != own.rows) {
        return cpr_fail(outcome, CPR_TOTAL_MISMATCH, -1, count, own.rows);
    }
    for (int64_t row = 0; row < count; row++) {
        index[row] = -1;
    }
    int64_t arrived = 0;
    for (int64_t i = 0; i < own.list->count; i++) {
        const cpr_run *run = &own.list->runs[i];
        for (int64_t k = 0; k < run->length; k++) {
            index[cpr_run_local_row(run, own.side) + k] = arrived++;
        }
    }
    return cpr_succeed(outcome);
}

static char *row_at(void *rows, int64_t row, size_t row_bytes) {
    return (char *)rows + (size_t)row * row_bytes;
}

static const char *const_row_at(const void *rows, int64_t row, size_t row_bytes) {
    return (const char *)rows + (size_t)row * row_bytes;
}

void cpr_padded_pack(const cpr_padded_plan *plan, cpr_layout layout, size_t row_bytes, const void *source,
                     void *message) {
    const shard_side own = side_of(plan, layout);
    int64_t packed = 0;
    for (int64_t i = 0; i < own.list->count && row_bytes > 0; i++) {
        const cpr_run *run = &own.list->runs[i];
        memcpy(row_at(message, packed, row_bytes),
               const_row_at(source, cpr_run_local_row(run, own.side), row_bytes),
               (size_t)run->length * row_bytes);
        packed += run->length;
    }
}

void cpr_padded_receive(const cpr_padded_plan *plan, cpr_layout layout, size_t row_bytes, const void *message,
                        void *target) {
    const shard_side own = side_of(plan, layout);
    if (own.rows == 0 || row_bytes == 0) {
        return;
    }
    if (own.list->rows < own.rows) {
        memset(target, 0, (size_t)own.rows * row_bytes);
    }
    int64_t arrived = 0;
    for (int64_t i = 0; i < own.list->count; i++) {
        const cpr_run *run = &own.list->runs[i];
        memcpy(row_at(target, cpr_run_local_row(run, own.side), row_bytes),
               const_row_at(message, arrived, row_bytes), (size_t)run->length * row_bytes);
        arrived += run->length;
    }
}
