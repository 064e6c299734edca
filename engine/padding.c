/* SPDX-License-Identifier: Apache-2.0 */
/* Padded and real boundaries of the same sequences: which token is which. */
#include "padding.h"

#include "cu_seqlens.h"
#include "error.h"
#include "request.h"

static int64_t length_of(const cpr_cu_seqlens *cu_seqlens, int64_t sequence) {
    return sequence + 1 < cu_seqlens->count
               ? cpr_cu_entry(cu_seqlens, sequence + 1) - cpr_cu_entry(cu_seqlens, sequence)
               : 0;
}

cpr_sequence cpr_sequence_of(const cpr_padding *padding, int64_t number) {
    const bool all_real = padding->real.count == 0;
    const int64_t begin = cpr_cu_entry(&padding->padded, number);
    const int64_t end = cpr_cu_entry(&padding->padded, number + 1);
    const int64_t reached = number < padding->real.count ? number : padding->real.count - 1;
    return (cpr_sequence){
        .number = number,
        .begin = begin,
        .end = end,
        .real_begin = all_real ? begin : cpr_cu_entry(&padding->real, reached),
        .real_end = all_real ? end : begin + length_of(&padding->real, number),
    };
}

static cpr_status check_lengths(const cpr_padding *padding, cpr_error *error) {
    for (int64_t i = 0; i + 1 < padding->real.count; i++) {
        const int64_t real = length_of(&padding->real, i);
        const int64_t padded = length_of(&padding->padded, i);
        if (real > padded) {
            return cpr_fail(error, CPR_TOTAL_MISMATCH, i, real, padded);
        }
    }
    return CPR_OK;
}

cpr_status cpr_real_check(const cpr_padding *padding, cpr_error *error) {
    int64_t real_tokens;
    if (padding->real.count == 0) {
        return CPR_OK;
    }
    if (cpr_boundaries_validate(&padding->real, &real_tokens, error) != CPR_OK) {
        return error->status;
    }
    return check_lengths(padding, error);
}

cpr_status cpr_padding_check(const cpr_padding *padding, cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    int64_t padded_tokens;
    if (cpr_boundaries_validate(&padding->padded, &padded_tokens, outcome) != CPR_OK ||
        cpr_real_check(padding, outcome) != CPR_OK) {
        return outcome->status;
    }
    return cpr_succeed(outcome);
}

cpr_status cpr_pad_fits(const cpr_cu_seqlens *real, int64_t multiple, int64_t limit, cpr_error *error) {
    int64_t end = 0;
    for (int64_t i = 0; i + 1 < real->count; i++) {
        const int64_t length = length_of(real, i);
        const int64_t lacking = cpr_lacking(length, multiple);
        const bool countable = length <= INT64_MAX - end && lacking <= INT64_MAX - end - length;
        const int64_t next = countable ? end + length + lacking : INT64_MAX;
        if (!countable || next > limit) {
            return cpr_fail(error, CPR_OVERFLOW, i + 1, next, limit);
        }
        end = next;
    }
    return CPR_OK;
}

cpr_status cpr_pad_cu_seqlens(const cpr_cu_seqlens *real, int64_t multiple, int64_t *padded, int64_t count,
                              cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    int64_t tokens;
    if (cpr_boundaries_validate(real, &tokens, outcome) != CPR_OK) {
        return outcome->status;
    }
    if (multiple < 1) {
        return cpr_fail(outcome, CPR_OVERFLOW, -1, multiple, 1);
    }
    if (count != real->count) {
        return cpr_fail(outcome, CPR_TOTAL_MISMATCH, -1, count, real->count);
    }
    if (cpr_pad_fits(real, multiple, INT64_MAX, outcome) != CPR_OK) {
        return outcome->status;
    }
    padded[0] = 0;
    for (int64_t i = 0; i + 1 < count; i++) {
        const int64_t length = length_of(real, i);
        padded[i + 1] = padded[i] + length + cpr_lacking(length, multiple);
    }
    return cpr_succeed(outcome);
}

static void map_sequence(const cpr_sequence *sequence, int64_t *real_of_padded, int64_t *padded_of_real) {
    for (int64_t token = sequence->begin; token < sequence->end; token++) {
        const bool is_real = token < sequence->real_end;
        const int64_t real = sequence->real_begin + (token - sequence->begin);
        if (real_of_padded != NULL) {
            real_of_padded[token] = is_real ? real : -1;
        }
        if (padded_of_real != NULL && is_real) {
            padded_of_real[real] = token;
        }
    }
}

static int64_t tokens_of(const cpr_cu_seqlens *cu_seqlens) {
    return cpr_cu_entry(cu_seqlens, cu_seqlens->count - 1);
}

cpr_status cpr_padding_map(const cpr_padding *padding, int64_t *real_of_padded, int64_t padded_count,
                           int64_t *padded_of_real, int64_t real_count, cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (cpr_padding_check(padding, outcome) != CPR_OK) {
        return outcome->status;
    }
    const int64_t padded_tokens = tokens_of(&padding->padded);
    const int64_t real_tokens = padding->real.count == 0 ? padded_tokens : tokens_of(&padding->real);
    if (real_of_padded != NULL && padded_count != padded_tokens) {
        return cpr_fail(outcome, CPR_TOTAL_MISMATCH, 0, padded_count, padded_tokens);
    }
    if (padded_of_real != NULL && real_count != real_tokens) {
        return cpr_fail(outcome, CPR_TOTAL_MISMATCH, 1, real_count, real_tokens);
    }
    for (int64_t i = 0; i + 1 < padding->padded.count; i++) {
        const cpr_sequence sequence = cpr_sequence_of(padding, i);
        map_sequence(&sequence, real_of_padded, padded_of_real);
    }
    return cpr_succeed(outcome);
}
