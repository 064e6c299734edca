/* SPDX-License-Identifier: Apache-2.0 */
/* Flat tensors taken apart. Nothing is believed of one but that its entries can be read. */
#include "allocator.h"
#include "bits.h"
#include "error.h"
#include "flat.h"
#include "request.h"

/* A list of splits or rows, at entry `first` of the tensor. */
typedef struct section {
    const int64_t *flat;
    int64_t first, count;
} section;

static cpr_status check_header(const int64_t *flat, int64_t count, cpr_geometry geometry, cpr_error *error) {
    if (count < CPR_FLAT_HEADER) {
        return cpr_fail(error, CPR_TOTAL_MISMATCH, -1, count, CPR_FLAT_HEADER);
    }
    if (flat[CPR_FLAT_CP_SIZE] != geometry.cp_size) {
        return cpr_fail(error, CPR_BAD_CP_SIZE, CPR_FLAT_CP_SIZE, flat[CPR_FLAT_CP_SIZE], geometry.cp_size);
    }
    if (flat[CPR_FLAT_CP_RANK] != geometry.cp_rank) {
        return cpr_fail(error, CPR_BAD_RANK, CPR_FLAT_CP_RANK, flat[CPR_FLAT_CP_RANK], geometry.cp_rank);
    }
    const int64_t rows = flat[CPR_FLAT_SOURCE_ROWS];
    if (rows < 0) {
        return cpr_fail(error, CPR_TOTAL_MISMATCH, CPR_FLAT_SOURCE_ROWS, rows, 0);
    }
    if (flat[CPR_FLAT_TARGET_ROWS] != rows) {
        return cpr_fail(error, CPR_TOTAL_MISMATCH, CPR_FLAT_TARGET_ROWS, flat[CPR_FLAT_TARGET_ROWS], rows);
    }
    for (int64_t entry = CPR_FLAT_SENT; entry <= CPR_FLAT_RECEIVED; entry++) {
        if (flat[entry] != 0 && flat[entry] != rows) {
            return cpr_fail(error, CPR_TOTAL_MISMATCH, entry, flat[entry], rows);
        }
    }
    return CPR_OK;
}

static int64_t capped_sum(int64_t a, int64_t b) {
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static cpr_status check_length(const int64_t *flat, int64_t count, cpr_error *error) {
    const int64_t lists = capped_sum(flat[CPR_FLAT_SENT], flat[CPR_FLAT_RECEIVED]);
    const int64_t length = capped_sum(CPR_FLAT_HEADER + 2 * flat[CPR_FLAT_CP_SIZE], lists);
    return count == length ? CPR_OK : cpr_fail(error, CPR_TOTAL_MISMATCH, -1, count, length);
}

static cpr_status check_splits(section splits, int64_t rows, cpr_error *error) {
    int64_t left = rows;
    const int64_t end = splits.first + splits.count;
    for (int64_t entry = splits.first; entry < end; entry++) {
        const int64_t split = splits.flat[entry];
        if (split < 0 || split > left) {
            return cpr_fail(error, CPR_SPLIT_MISMATCH, entry, split, left);
        }
        left -= split;
    }
    const int64_t last = splits.flat[end - 1];
    return left == 0 ? CPR_OK : cpr_fail(error, CPR_SPLIT_MISMATCH, end - 1, last, last + left);
}

static cpr_status check_rows_once(section rows, cpr_bits *seen, cpr_error *error) {
    for (int64_t entry = rows.first; entry < rows.first + rows.count; entry++) {
        const int64_t row = rows.flat[entry];
        if (row < 0 || row >= rows.count || !cpr_bits_add(seen, row)) {
            return cpr_fail(error, CPR_BAD_ROW, entry, row, rows.count);
        }
    }
    return CPR_OK;
}

static bool is_identity(section rows) {
    for (int64_t i = 0; i < rows.count; i++) {
        if (rows.flat[rows.first + i] != i) {
            return false;
        }
    }
    return true;
}

static cpr_status check_rows(section rows, int64_t header_entry, const cpr_allocator *allocator,
                             cpr_error *error) {
    if (rows.count == 0) {
        return CPR_OK;
    }
    if (is_identity(rows)) {
        return cpr_fail(error, CPR_TOTAL_MISMATCH, header_entry, rows.count, 0);
    }
    cpr_bits seen;
    if (!cpr_bits_begin(&seen, rows.count, allocator)) {
        return cpr_fail_no_memory(error);
    }
    const cpr_status status = check_rows_once(rows, &seen, error);
    cpr_bits_end(&seen);
    return status;
}

static cpr_status check_lists(const int64_t *flat, const cpr_allocator *allocator, cpr_error *error) {
    const int64_t ranks = flat[CPR_FLAT_CP_SIZE];
    const int64_t rows = flat[CPR_FLAT_SOURCE_ROWS];
    const section input = {flat, CPR_FLAT_HEADER, ranks};
    const section output = {flat, input.first + ranks, ranks};
    const section send = {flat, output.first + ranks, flat[CPR_FLAT_SENT]};
    const section recv = {flat, send.first + send.count, flat[CPR_FLAT_RECEIVED]};
    if (check_splits(input, rows, error) != CPR_OK || check_splits(output, rows, error) != CPR_OK) {
        return error->status;
    }
    const int64_t own = output.first + flat[CPR_FLAT_CP_RANK];
    if (flat[own] != flat[own - ranks]) {
        return cpr_fail(error, CPR_SPLIT_MISMATCH, own, flat[own], flat[own - ranks]);
    }
    if (check_rows(send, CPR_FLAT_SENT, allocator, error) != CPR_OK ||
        check_rows(recv, CPR_FLAT_RECEIVED, allocator, error) != CPR_OK) {
        return error->status;
    }
    return CPR_OK;
}

static cpr_flat_view view_of(const int64_t *flat) {
    const int64_t ranks = flat[CPR_FLAT_CP_SIZE];
    const int64_t *lists = flat + CPR_FLAT_HEADER;
    const int64_t *rows = lists + 2 * ranks;
    return (cpr_flat_view){
        .geometry = {.cp_size = ranks, .cp_rank = flat[CPR_FLAT_CP_RANK]},
        .rows = flat[CPR_FLAT_SOURCE_ROWS],
        .input_splits = lists,
        .output_splits = lists + ranks,
        .send_rows = flat[CPR_FLAT_SENT] > 0 ? rows : NULL,
        .recv_rows = flat[CPR_FLAT_RECEIVED] > 0 ? rows + flat[CPR_FLAT_SENT] : NULL,
    };
}

cpr_status cpr_flat_decode(const int64_t *flat, int64_t count, cpr_geometry geometry,
                           const cpr_allocator *allocator, cpr_flat_view *view, cpr_error *error) {
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (cpr_geometry_validate(geometry, outcome) != CPR_OK ||
        check_header(flat, count, geometry, outcome) != CPR_OK ||
        check_length(flat, count, outcome) != CPR_OK || check_lists(flat, &chosen, outcome) != CPR_OK) {
        return outcome->status;
    }
    *view = view_of(flat);
    return cpr_succeed(outcome);
}

/* Where a tensor is not another one. */
typedef struct difference {
    int64_t entry; /* -1: nowhere */
    int64_t right;
} difference;

static difference first_difference(const int64_t *flat, const int64_t *wanted, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (flat[i] != wanted[i]) {
            return (difference){i, wanted[i]};
        }
    }
    return (difference){-1, 0};
}

/* Between a decoded tensor and that of a route. Headers tell the lengths, so after them both are equally long. False without
 * memory. */
static bool compare(const int64_t *flat, int64_t count, const cpr_route *route,
                    const cpr_allocator *allocator, difference *found) {
    int64_t header[CPR_FLAT_HEADER];
    cpr_flat_write_header(route, header);
    *found = first_difference(flat, header, CPR_FLAT_HEADER);
    if (found->entry >= 0) {
        return true;
    }
    int64_t *wanted = cpr_allocate(allocator, count, sizeof *wanted);
    if (wanted == NULL) {
        return false;
    }
    cpr_flat_encode(route, wanted, count, NULL);
    *found = first_difference(flat, wanted, count);
    cpr_release(allocator, wanted, count, sizeof *wanted);
    return true;
}

static cpr_status check_other_direction(const int64_t *flat, int64_t count, const cpr_route_request *request,
                                        const cpr_allocator *allocator, cpr_error *error) {
    cpr_route_request opposite = *request;
    opposite.source = request->target;
    opposite.target = request->source;
    cpr_route *route;
    if (cpr_route_build(&opposite, allocator, &route, error) != CPR_OK) {
        return error->status;
    }
    difference found;
    const bool compared = compare(flat, count, route, allocator, &found);
    cpr_route_free(route);
    if (!compared) {
        return cpr_fail_no_memory(error);
    }
    const bool reversed = found.entry < 0;
    return reversed ? cpr_fail(error, CPR_LAYOUT_MISMATCH, -1, (int)request->target, (int)request->source)
                    : CPR_OK;
}

static cpr_status check_against(const int64_t *flat, int64_t count, const cpr_route *route,
                                const cpr_route_request *request, const cpr_allocator *allocator,
                                cpr_error *error) {
    cpr_flat_view view;
    difference found;
    if (cpr_flat_decode(flat, count, request->geometry, allocator, &view, error) != CPR_OK) {
        return error->status;
    }
    if (!compare(flat, count, route, allocator, &found)) {
        return cpr_fail_no_memory(error);
    }
    if (found.entry < 0) {
        return CPR_OK;
    }
    if (check_other_direction(flat, count, request, allocator, error) != CPR_OK) {
        return error->status;
    }
    return cpr_fail(error, CPR_DIVERGENT_METADATA, found.entry, flat[found.entry], found.right);
}

cpr_status cpr_flat_route(const int64_t *flat, int64_t count, const cpr_route_request *request,
                          const cpr_allocator *allocator, cpr_route **route, cpr_error *error) {
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    cpr_route *made;
    if (cpr_route_build(request, &chosen, &made, outcome) != CPR_OK) {
        return outcome->status;
    }
    if (check_against(flat, count, made, request, &chosen, outcome) != CPR_OK) {
        cpr_route_free(made);
        return outcome->status;
    }
    *route = made;
    return cpr_succeed(outcome);
}
