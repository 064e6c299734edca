/* SPDX-License-Identifier: Apache-2.0 */
/* What is real of a rank's rows. They are walked in stretches: rows that follow each other in one sequence. */
#include "error.h"
#include "padding.h"

/* Padded tokens [begin, end) of a sequence, which are local rows row, row+1, ... */
typedef struct stretch {
    const cpr_sequence *sequence;
    int64_t begin, end;
    int64_t row;
} stretch;

typedef void visit_fn(void *context, const stretch *part);

static int64_t visit_interval(const cpr_padding *padding, cpr_interval interval, int64_t row,
                              cpr_sequence *sequence, visit_fn *visit, void *context) {
    int64_t begin = interval.begin;
    if (begin < sequence->begin) {
        *sequence = cpr_sequence_of(padding, 0);
    }
    while (begin < interval.end) {
        while (sequence->end <= begin) {
            *sequence = cpr_sequence_of(padding, sequence->number + 1);
        }
        const int64_t end = sequence->end < interval.end ? sequence->end : interval.end;
        const stretch part = {sequence, begin, end, row};
        visit(context, &part);
        row += end - begin;
        begin = end;
    }
    return row;
}

/* Every layout but one ascends, and that one turns back once, so sequences are passed twice at most. */
static void visit_rows(const cpr_padding *padding, const cpr_intervals *share, visit_fn *visit,
                       void *context) {
    if (share->count == 0) {
        return;
    }
    cpr_sequence sequence = cpr_sequence_of(padding, 0);
    int64_t row = 0;
    for (int64_t i = 0; i < share->count; i++) {
        row = visit_interval(padding, share->items[i], row, &sequence, visit, context);
    }
}

/* NULL with *error. */
static cpr_intervals *share_of(const cpr_padding *padding, cpr_geometry geometry, cpr_layout layout,
                               const cpr_allocator *allocator, cpr_error *error) {
    cpr_intervals *share = NULL;
    if (cpr_layout_intervals(&padding->padded, CPR_ROWS_UNCHECKED, geometry, layout, allocator, &share,
                             error) == CPR_OK &&
        cpr_real_check(padding, error) != CPR_OK) {
        cpr_intervals_free(share);
        share = NULL;
    }
    return share;
}

static int64_t real_end_of(const stretch *part) {
    const int64_t real_end = part->sequence->real_end;
    return real_end < part->begin ? part->begin : real_end < part->end ? real_end : part->end;
}

static void count_real(void *context, const stretch *part) {
    *(int64_t *)context += real_end_of(part) - part->begin;
}

static void write_tokens(void *context, const stretch *part) {
    int64_t *tokens = (int64_t *)context + part->row;
    for (int64_t token = part->begin; token < part->end; token++) {
        const bool is_real = token < part->sequence->real_end;
        *tokens++ = is_real ? part->sequence->real_begin + (token - part->sequence->begin) : -1;
    }
}

static void write_successors(void *context, const stretch *part) {
    int64_t *successors = (int64_t *)context + part->row;
    for (int64_t token = part->begin; token < part->end; token++) {
        *successors++ = token + 1 < part->sequence->real_end ? token + 1 : -1;
    }
}

cpr_status cpr_real_rows(const cpr_padding *padding, cpr_geometry geometry, cpr_layout layout,
                         const cpr_allocator *allocator, int64_t *real_rows, cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    cpr_intervals *share = share_of(padding, geometry, layout, allocator, outcome);
    if (share == NULL) {
        return outcome->status;
    }
    int64_t counted = 0;
    visit_rows(padding, share, count_real, &counted);
    cpr_intervals_free(share);
    *real_rows = counted;
    return cpr_succeed(outcome);
}

/* A number for every row. */
static cpr_status write_rows(const cpr_padding *padding, cpr_geometry geometry, cpr_layout layout,
                             const cpr_allocator *allocator, visit_fn *write, int64_t *numbers, int64_t count,
                             cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    cpr_intervals *share = share_of(padding, geometry, layout, allocator, outcome);
    if (share == NULL) {
        return outcome->status;
    }
    const int64_t rows = share->rows;
    if (rows == count) {
        visit_rows(padding, share, write, numbers);
    }
    cpr_intervals_free(share);
    return rows == count ? cpr_succeed(outcome) : cpr_fail(outcome, CPR_TOTAL_MISMATCH, -1, count, rows);
}

cpr_status cpr_real_tokens(const cpr_padding *padding, cpr_geometry geometry, cpr_layout layout,
                           const cpr_allocator *allocator, int64_t *tokens, int64_t count, cpr_error *error) {
    return write_rows(padding, geometry, layout, allocator, write_tokens, tokens, count, error);
}

cpr_status cpr_successors(const cpr_padding *padding, cpr_geometry geometry, cpr_layout layout,
                          const cpr_allocator *allocator, int64_t *successors, int64_t count,
                          cpr_error *error) {
    return write_rows(padding, geometry, layout, allocator, write_successors, successors, count, error);
}

static void count_in_sequence(void *context, const stretch *part) {
    ((int64_t *)context)[part->sequence->number + 1] += part->end - part->begin;
}

cpr_status cpr_local_offsets(const cpr_cu_seqlens *cu_seqlens, cpr_geometry geometry, cpr_layout layout,
                             const cpr_allocator *allocator, int64_t *offsets, int64_t count,
                             cpr_error *error) {
    const cpr_padding padding = {.padded = *cu_seqlens};
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    cpr_intervals *share = share_of(&padding, geometry, layout, allocator, outcome);
    if (share == NULL) {
        return outcome->status;
    }
    if (count != cu_seqlens->count) {
        cpr_intervals_free(share);
        return cpr_fail(outcome, CPR_TOTAL_MISMATCH, -1, count, cu_seqlens->count);
    }
    for (int64_t i = 0; i < count; i++) {
        offsets[i] = 0;
    }
    visit_rows(&padding, share, count_in_sequence, offsets);
    for (int64_t i = 1; i < count; i++) {
        offsets[i] += offsets[i - 1];
    }
    cpr_intervals_free(share);
    return cpr_succeed(outcome);
}
