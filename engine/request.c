/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules for requests, in the order in which they are applied. Each takes for granted those before it.
 * Enumerators are read as int: whether the type of an enumeration has a sign is up to the compiler.
 */
#include "request.h"

#include "cu_seqlens.h"
#include "error.h"
#include "exact_divisor.h"
#include "layout.h"

cpr_status cpr_geometry_validate(cpr_geometry geometry, cpr_error *error) {
    if (geometry.cp_size < 1) {
        return cpr_fail(error, CPR_BAD_CP_SIZE, -1, geometry.cp_size, 1);
    }
    if (geometry.cp_size > CPR_CP_SIZE_MAX) {
        return cpr_fail(error, CPR_BAD_CP_SIZE, -1, geometry.cp_size, CPR_CP_SIZE_MAX);
    }
    if (geometry.cp_rank < 0 || geometry.cp_rank >= geometry.cp_size) {
        return cpr_fail(error, CPR_BAD_RANK, -1, geometry.cp_rank, geometry.cp_size);
    }
    return CPR_OK;
}

cpr_status cpr_layouts_validate(cpr_layout source, cpr_layout target, cpr_error *error) {
    const int layouts[] = {(int)source, (int)target};
    for (int64_t i = 0; i < 2; i++) {
        if (layouts[i] < 0 || layouts[i] >= CPR_LAYOUT_COUNT) {
            return cpr_fail(error, CPR_BAD_LAYOUT, i, layouts[i], CPR_LAYOUT_COUNT);
        }
    }
    return CPR_OK;
}

static cpr_status check_readable(const cpr_cu_seqlens *cu_seqlens, cpr_error *error) {
    if (cu_seqlens->dtype != CPR_INT32 && cu_seqlens->dtype != CPR_INT64) {
        return cpr_fail(error, CPR_DTYPE, -1, (int)cu_seqlens->dtype, CPR_INT64);
    }
    if (cu_seqlens->device != CPR_CPU) {
        return cpr_fail(error, CPR_DEVICE, -1, (int)cu_seqlens->device, CPR_CPU);
    }
    if (cu_seqlens->data == NULL && cu_seqlens->count > 0) {
        return cpr_fail(error, CPR_DEVICE, -1, -1, CPR_CPU);
    }
    if (cu_seqlens->count < 1) {
        return cpr_fail(error, CPR_EMPTY_CU_SEQLENS, -1, cu_seqlens->count, 1);
    }
    return CPR_OK;
}

cpr_status cpr_boundaries_validate(const cpr_cu_seqlens *cu_seqlens, int64_t *total_tokens,
                                   cpr_error *error) {
    if (check_readable(cu_seqlens, error) != CPR_OK) {
        return error->status;
    }
    cpr_entries entries = cpr_entries_from(cu_seqlens, 0);
    int64_t before = cpr_entries_read(&entries);
    if (before != 0) {
        return cpr_fail(error, CPR_NONZERO_START, 0, before, 0);
    }
    for (int64_t i = 1; i < cu_seqlens->count; i++) {
        const int64_t entry = cpr_entries_read(&entries);
        if (entry < before) {
            return cpr_fail(error, CPR_DECREASING, i, entry, before);
        }
        before = entry;
    }
    *total_tokens = before;
    return CPR_OK;
}

static cpr_status check_sequences(const cpr_cu_seqlens *cu_seqlens, int64_t divisor, cpr_error *error) {
    const cpr_exact_divisor exact = cpr_exact_divisor_of(divisor);
    cpr_entries ends = cpr_entries_from(cu_seqlens, 1);
    int64_t begin = 0;
    for (int64_t i = 1; i < cu_seqlens->count; i++) {
        const int64_t end = cpr_entries_read(&ends);
        if (!cpr_divides(&exact, end - begin)) {
            return cpr_fail(error, CPR_NOT_DIVISIBLE_2CP, i - 1, end - begin, divisor);
        }
        begin = end;
    }
    return CPR_OK;
}

/* Lengths of sequences come first, whichever of the layouts asks for them. */
static cpr_status check_lengths(const cpr_route_request *request, int64_t total_tokens, cpr_error *error) {
    const int64_t ranks = request->geometry.cp_size;
    if (ranks == 1) {
        return CPR_OK;
    }
    const cpr_length_rules source = cpr_length_rules_of(request->source);
    const cpr_length_rules target = cpr_length_rules_of(request->target);
    if (source.every_sequence_by_2p || target.every_sequence_by_2p) {
        /* Then the total is divisible too. */
        return check_sequences(&request->cu_seqlens, 2 * ranks, error);
    }
    if ((source.total_by_2p || target.total_by_2p) && total_tokens % (2 * ranks) != 0) {
        return cpr_fail(error, CPR_NOT_DIVISIBLE_2CP, -1, total_tokens, 2 * ranks);
    }
    if (total_tokens % ranks != 0) {
        return cpr_fail(error, CPR_NOT_DIVISIBLE_CP, -1, total_tokens, ranks);
    }
    return CPR_OK;
}

static cpr_status check_tensor_parallel(int64_t rows_of_rank, int64_t tp_size, cpr_error *error) {
    if (tp_size < 0 || (tp_size > 1 && rows_of_rank % tp_size != 0)) {
        return cpr_fail(error, CPR_NOT_DIVISIBLE_CP_TP, -1, rows_of_rank, tp_size);
    }
    return CPR_OK;
}

cpr_status cpr_request_validate(const cpr_route_request *request, int64_t *total_tokens, cpr_error *error) {
    int64_t total = 0;
    if (cpr_geometry_validate(request->geometry, error) != CPR_OK ||
        cpr_layouts_validate(request->source, request->target, error) != CPR_OK ||
        cpr_boundaries_validate(&request->cu_seqlens, &total, error) != CPR_OK) {
        return error->status;
    }
    if (request->rows != CPR_ROWS_UNCHECKED && request->rows != total) {
        return cpr_fail(error, CPR_TOTAL_MISMATCH, -1, request->rows, total);
    }
    if (check_lengths(request, total, error) != CPR_OK ||
        check_tensor_parallel(total / request->geometry.cp_size, request->tp_size, error) != CPR_OK) {
        return error->status;
    }
    *total_tokens = total;
    return CPR_OK;
}
