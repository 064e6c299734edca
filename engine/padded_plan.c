/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan that pads: the intersection of a contiguous share of the real stream with a zigzag share of the padded one. Tokens
 * of a sequence keep their distance to its begin, so from one stream to the other it is a shift.
 */
#include "allocator.h"
#include "cu_seqlens.h"
#include "digest.h"
#include "error.h"
#include "layout.h"
#include "listing.h"
#include "padding.h"
#include "request.h"

typedef struct planning {
    const cpr_padded_plan *plan;
    cpr_padding padding;
    cpr_cutting zigzag;
    int64_t contiguous_rows; /* of every rank */
} planning;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Padded tokens [begin, end) of this rank's zigzag share, all real. */
static void find_sources(const planning *p, const cpr_sequence *sequence, cpr_piece own, cpr_listing *listing,
                         cpr_take_run *take) {
    const int64_t shift = sequence->real_begin - sequence->begin;
    while (own.begin < own.end) {
        const int64_t real = own.begin + shift;
        const int64_t source = real / p->contiguous_rows;
        const int64_t length = least(own.end - own.begin, (source + 1) * p->contiguous_rows - real);
        const cpr_run run = {source, real % p->contiguous_rows, own.row, length};
        cpr_listing_add(listing, run, take);
        own.begin += length;
        own.row += length;
    }
}

static void find_zigzag_runs(const void *subject, cpr_listing *listing, cpr_take_run *take) {
    const planning *p = subject;
    for (int64_t i = 0; i + 1 < p->padding.padded.count; i++) {
        const cpr_sequence sequence = cpr_sequence_of(&p->padding, i);
        if (sequence.begin == sequence.end) {
            continue;
        }
        const cpr_frame frame = cpr_frame_cut(&p->zigzag, sequence.begin, sequence.end);
        for (int64_t half = 0; half < p->zigzag.halves; half++) {
            const int64_t chunk = cpr_chunk_of_half(&p->zigzag, p->plan->geometry.cp_rank, half);
            cpr_piece own = cpr_frame_chunk(&p->zigzag, &frame, chunk);
            own.end = least(own.end, sequence.real_end);
            find_sources(p, &sequence, own, listing, take);
        }
    }
}

/* Real tokens [begin, end) of this rank's contiguous share, all of one sequence. */
static void find_targets(const planning *p, const cpr_sequence *sequence, cpr_interval real, int64_t row,
                         cpr_listing *listing, cpr_take_run *take) {
    const cpr_frame frame = cpr_frame_cut(&p->zigzag, sequence->begin, sequence->end);
    const int64_t shift = sequence->begin - sequence->real_begin;
    while (real.begin < real.end) {
        const cpr_piece target = cpr_frame_locate(&p->zigzag, &frame, real.begin + shift);
        const int64_t length = least(real.end - real.begin, target.end - target.begin);
        const cpr_run run = {target.rank, row, target.row, length};
        cpr_listing_add(listing, run, take);
        real.begin += length;
        row += length;
    }
}

static void find_contiguous_runs(const void *subject, cpr_listing *listing, cpr_take_run *take) {
    const planning *p = subject;
    const int64_t share = p->plan->geometry.cp_rank * p->contiguous_rows;
    const int64_t share_end = share + p->contiguous_rows;
    for (int64_t i = 0; i + 1 < p->padding.padded.count; i++) {
        const cpr_sequence sequence = cpr_sequence_of(&p->padding, i);
        const int64_t real_end = sequence.real_begin + (sequence.real_end - sequence.begin);
        const cpr_interval ours = {
            .begin = sequence.real_begin > share ? sequence.real_begin : share,
            .end = least(real_end, share_end),
        };
        if (ours.begin < ours.end) {
            find_targets(p, &sequence, ours, ours.begin - share, listing, take);
        }
    }
}

static bool make_list(const planning *p, cpr_find_runs *find, cpr_side side, cpr_run_list *list) {
    const cpr_run_order order = {.side = side, .peers = p->plan->geometry.cp_size, .tails_row = INT64_MAX};
    return cpr_list_runs(find, p, &order, &p->plan->allocator, list);
}

static bool make_boundaries(const cpr_cu_seqlens *real, cpr_padded_plan *plan) {
    const int64_t multiple = 2 * plan->geometry.cp_size;
    plan->padded_cu = cpr_allocate(&plan->allocator, real->count, sizeof *plan->padded_cu);
    if (plan->padded_cu == NULL) {
        return false;
    }
    plan->entries = real->count;
    plan->padded_cu[0] = 0;
    for (int64_t i = 1; i < real->count; i++) {
        const int64_t length = cpr_cu_entry(real, i) - cpr_cu_entry(real, i - 1);
        const int64_t padded = length + cpr_lacking(length, multiple);
        plan->padded_cu[i] = (int32_t)(plan->padded_cu[i - 1] + padded);
        plan->longest = padded > plan->longest ? padded : plan->longest;
        plan->pads = plan->pads || padded != length;
    }
    return true;
}

static bool fill_plan(const cpr_cu_seqlens *real, int64_t real_tokens, cpr_padded_plan *plan) {
    if (!make_boundaries(real, plan)) {
        return false;
    }
    const int64_t ranks = plan->geometry.cp_size;
    const int64_t padded_tokens = plan->padded_cu[plan->entries - 1];
    plan->contiguous_rows = real_tokens / ranks;
    plan->zigzag_rows = padded_tokens / ranks;
    const planning p = {
        .plan = plan,
        .padding = {cpr_cu_seqlens_int32(plan->padded_cu, plan->entries), *real},
        .zigzag = cpr_cutting_of(CPR_ZIGZAG, ranks, padded_tokens),
        .contiguous_rows = plan->contiguous_rows,
    };
    return make_list(&p, find_contiguous_runs, CPR_SEND, &plan->contiguous) &&
           make_list(&p, find_zigzag_runs, CPR_RECV, &plan->zigzag);
}

static cpr_status check_request(const cpr_cu_seqlens *cu_seqlens, int64_t rows, cpr_geometry geometry,
                                int64_t *real_tokens, cpr_error *error) {
    const cpr_route_request request = {
        .cu_seqlens = *cu_seqlens,
        .rows = rows,
        .geometry = geometry,
        .source = CPR_CONTIGUOUS,
        .target = CPR_CONTIGUOUS,
    };
    if (cpr_geometry_validate(geometry, error) != CPR_OK) {
        return error->status;
    }
    if (cu_seqlens->dtype != CPR_INT32) {
        return cpr_fail(error, CPR_DTYPE, -1, (int)cu_seqlens->dtype, CPR_INT32);
    }
    if (cpr_request_validate(&request, real_tokens, error) != CPR_OK ||
        cpr_pad_fits(cu_seqlens, 2 * geometry.cp_size, INT32_MAX, error) != CPR_OK) {
        return error->status;
    }
    return CPR_OK;
}

cpr_status cpr_padded_plan_build(const cpr_cu_seqlens *cu_seqlens, int64_t rows, cpr_geometry geometry,
                                 const cpr_allocator *allocator, cpr_padded_plan **plan, cpr_error *error) {
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    int64_t real_tokens;
    if (check_request(cu_seqlens, rows, geometry, &real_tokens, outcome) != CPR_OK) {
        return outcome->status;
    }
    cpr_padded_plan *made = cpr_allocate(&chosen, 1, sizeof *made);
    if (made == NULL) {
        return cpr_fail_no_memory(outcome);
    }
    *made = (cpr_padded_plan){.geometry = geometry, .allocator = chosen};
    if (!fill_plan(cu_seqlens, real_tokens, made)) {
        cpr_padded_plan_free(made);
        return cpr_fail_no_memory(outcome);
    }
    made->digest = cpr_padded_digest(cpr_boundaries_digest(cu_seqlens), geometry.cp_size);
    *plan = made;
    return cpr_succeed(outcome);
}

void cpr_padded_plan_free(cpr_padded_plan *plan) {
    if (plan == NULL) {
        return;
    }
    const cpr_allocator allocator = plan->allocator;
    cpr_release(&allocator, plan->padded_cu, plan->entries, sizeof *plan->padded_cu);
    cpr_release(&allocator, plan->contiguous.runs, plan->contiguous.count, sizeof *plan->contiguous.runs);
    cpr_release(&allocator, plan->zigzag.runs, plan->zigzag.count, sizeof *plan->zigzag.runs);
    cpr_release(&allocator, plan, 1, sizeof *plan);
}
