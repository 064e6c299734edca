/* SPDX-License-Identifier: Apache-2.0 */
/* Runs written out: rows and split sizes. */
#include "error.h"
#include "runs.h"

/* Rows are unsigned numbers counted up, which compilers make vector stores of.
 *
 * A run that is short is written as one stride or two, as long as the rows that are left have room for them: what lies beyond the
 * run's end is written again, by the runs that follow. So there is no loop whose end must be guessed. GCC would unroll a stride
 * before it thinks of vectors, and it is told not to.
 *
 * In the loop of long runs, with a single store each time round, what GCC makes of it runs at full speed or at half of it, as the code
 * happens to be aligned; Clang unrolls by itself, and if told to, before it thinks of vectors. */
#if defined(__GNUC__) && !defined(__clang__)
#define UNROLLED     _Pragma("GCC unroll 4")
#define NOT_UNROLLED _Pragma("GCC unroll 1")
#else
#define UNROLLED
#define NOT_UNROLLED
#endif

enum { STRIDE_BYTES = 32 };

/* As many rows as a stride has. */
static inline void write_stride32(int32_t *rows, uint32_t first) {
    NOT_UNROLLED
    for (uint32_t k = 0; k < STRIDE_BYTES / sizeof *rows; k++) {
        rows[k] = (int32_t)(first + k);
    }
}

static void write_rows32(const cpr_run_list *list, cpr_side side, int32_t *rows) {
    enum { STRIDE = STRIDE_BYTES / sizeof *rows };
    int64_t left = list->rows;
    for (int64_t i = 0; i < list->count; i++) {
        uint32_t row = (uint32_t)cpr_run_local_row(&list->runs[i], side);
        const int64_t length = list->runs[i].length;
        if (length <= 2 * STRIDE && left >= 2 * STRIDE) {
            write_stride32(rows, row);
            if (length > STRIDE) {
                write_stride32(rows + STRIDE, row + STRIDE);
            }
        } else {
            UNROLLED
            for (int64_t k = 0; k < length; k++) {
                rows[k] = (int32_t)row++;
            }
        }
        rows += length;
        left -= length;
    }
}

/* As many rows as a stride has. */
static inline void write_stride64(int64_t *rows, uint64_t first) {
    NOT_UNROLLED
    for (uint64_t k = 0; k < STRIDE_BYTES / sizeof *rows; k++) {
        rows[k] = (int64_t)(first + k);
    }
}

static void write_rows64(const cpr_run_list *list, cpr_side side, int64_t *rows) {
    enum { STRIDE = STRIDE_BYTES / sizeof *rows };
    int64_t left = list->rows;
    for (int64_t i = 0; i < list->count; i++) {
        uint64_t row = (uint64_t)cpr_run_local_row(&list->runs[i], side);
        const int64_t length = list->runs[i].length;
        if (length <= 2 * STRIDE && left >= 2 * STRIDE) {
            write_stride64(rows, row);
            if (length > STRIDE) {
                write_stride64(rows + STRIDE, row + STRIDE);
            }
        } else {
            UNROLLED
            for (int64_t k = 0; k < length; k++) {
                rows[k] = (int64_t)row++;
            }
        }
        rows += length;
        left -= length;
    }
}

cpr_status cpr_route_rows(const cpr_route *route, cpr_side side, cpr_dtype dtype, void *rows, int64_t count,
                          cpr_error *error) {
    const cpr_run_list *list = cpr_route_side(route, side);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (dtype != CPR_INT32 && dtype != CPR_INT64) {
        return cpr_fail(outcome, CPR_DTYPE, -1, (int)dtype, CPR_INT64);
    }
    if (count != list->rows) {
        return cpr_fail(outcome, CPR_TOTAL_MISMATCH, -1, count, list->rows);
    }
    if (dtype == CPR_INT64) {
        write_rows64(list, side, rows);
        return cpr_succeed(outcome);
    }
    /* Every local row is in the list, so the largest is the last. */
    if (list->rows - 1 > INT32_MAX) {
        return cpr_fail(outcome, CPR_OVERFLOW, -1, list->rows - 1, INT32_MAX);
    }
    write_rows32(list, side, rows);
    return cpr_succeed(outcome);
}

static cpr_status check_split_count(const cpr_route *route, int64_t count, cpr_error *error) {
    if (count != route->geometry.cp_size) {
        return cpr_fail(error, CPR_SPLIT_MISMATCH, -1, count, route->geometry.cp_size);
    }
    return cpr_succeed(error);
}

cpr_status cpr_route_splits(const cpr_route *route, cpr_side side, int64_t *splits, int64_t count,
                            cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (check_split_count(route, count, outcome) != CPR_OK) {
        return outcome->status;
    }
    const cpr_run_list *list = cpr_route_side(route, side);
    int64_t run = 0;
    for (int64_t peer = 0; peer < count; peer++) {
        splits[peer] = cpr_message_next(list, peer, &run).rows;
    }
    return cpr_succeed(outcome);
}

cpr_status cpr_splits_check(const cpr_route *route, cpr_side side, const int64_t *splits, int64_t count,
                            cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (check_split_count(route, count, outcome) != CPR_OK) {
        return outcome->status;
    }
    const cpr_run_list *list = cpr_route_side(route, side);
    int64_t run = 0;
    for (int64_t peer = 0; peer < count; peer++) {
        const int64_t rows = cpr_message_next(list, peer, &run).rows;
        if (splits[peer] != rows) {
            return cpr_fail(outcome, CPR_SPLIT_MISMATCH, peer, splits[peer], rows);
        }
    }
    return cpr_succeed(outcome);
}
