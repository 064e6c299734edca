/* SPDX-License-Identifier: Apache-2.0 */
/* Which error a case must meet with: the table of cproute.h as data, in the order in which requests are validated. */
#include "case_plan.h"

typedef bool rule_fn(const route_case *c, cpr_error *e);

static bool broken(cpr_error *e, int64_t index, int64_t got, int64_t wanted) {
    e->index = index;
    e->got = got;
    e->wanted = wanted;
    return true;
}

static bool no_cp_size(const route_case *c, cpr_error *e) {
    const int64_t cp_size = c->geometry.cp_size;
    return (cp_size < 1 && broken(e, -1, cp_size, 1)) ||
           (cp_size > CPR_CP_SIZE_MAX && broken(e, -1, cp_size, CPR_CP_SIZE_MAX));
}

static bool no_rank(const route_case *c, cpr_error *e) {
    const cpr_geometry g = c->geometry;
    return (g.cp_rank < 0 || g.cp_rank >= g.cp_size) && broken(e, -1, g.cp_rank, g.cp_size);
}

static bool no_layout(const route_case *c, cpr_error *e) {
    const int source = (int)c->source, target = (int)c->target;
    return ((source < 0 || source >= CPR_LAYOUT_COUNT) && broken(e, 0, source, CPR_LAYOUT_COUNT)) ||
           ((target < 0 || target >= CPR_LAYOUT_COUNT) && broken(e, 1, target, CPR_LAYOUT_COUNT));
}

static bool no_integers(const route_case *c, cpr_error *e) {
    return c->dtype != CPR_INT32 && c->dtype != CPR_INT64 && broken(e, -1, (int)c->dtype, CPR_INT64);
}

static bool not_here(const route_case *c, cpr_error *e) {
    return c->device != CPR_CPU && broken(e, -1, (int)c->device, CPR_CPU);
}

static bool no_entries(const route_case *c, cpr_error *e) {
    return c->entries == 0 && broken(e, -1, 0, 1);
}

static bool no_zero_start(const route_case *c, cpr_error *e) {
    return c->cu[0] != 0 && broken(e, 0, c->cu[0], 0);
}

static bool decreases(const route_case *c, cpr_error *e) {
    for (int64_t i = 1; i < c->entries; i++) {
        if (c->cu[i] < c->cu[i - 1])
            return broken(e, i, c->cu[i], c->cu[i - 1]);
    }
    return false;
}

static bool other_rows(const route_case *c, cpr_error *e) {
    return c->rows != CPR_ROWS_UNCHECKED && c->rows != last_entry(c) && broken(e, -1, c->rows, last_entry(c));
}

static bool asks_for(const route_case *c, cpr_layout layout) {
    return c->source == layout || c->target == layout;
}

static bool chunks_uneven(const route_case *c, cpr_error *e) {
    const int64_t chunks = 2 * c->geometry.cp_size, tokens = last_entry(c);
    if (chunks == 2)
        return false;
    if (asks_for(c, CPR_ZIGZAG) || asks_for(c, CPR_PER_SEQUENCE_CONTIGUOUS) ||
        asks_for(c, CPR_HEADS_THEN_TAILS)) {
        for (int64_t i = 0; i + 1 < c->entries; i++) {
            const int64_t length = c->cu[i + 1] - c->cu[i];
            if (length % chunks != 0)
                return broken(e, i, length, chunks);
        }
    }
    return asks_for(c, CPR_FLAT_ZIGZAG) && tokens % chunks != 0 && broken(e, -1, tokens, chunks);
}

static bool shares_uneven(const route_case *c, cpr_error *e) {
    const int64_t cp_size = c->geometry.cp_size;
    return asks_for(c, CPR_CONTIGUOUS) && last_entry(c) % cp_size != 0 &&
           broken(e, -1, last_entry(c), cp_size);
}

static bool windows_uneven(const route_case *c, cpr_error *e) {
    const int64_t rows = last_entry(c) / c->geometry.cp_size;
    return (c->tp_size < 0 || (c->tp_size > 1 && rows % c->tp_size != 0)) && broken(e, -1, rows, c->tp_size);
}

static const struct {
    cpr_status status;
    rule_fn *is_broken;
} rules[] = {{CPR_BAD_CP_SIZE, no_cp_size},
             {CPR_BAD_RANK, no_rank},
             {CPR_BAD_LAYOUT, no_layout},
             {CPR_DTYPE, no_integers},
             {CPR_DEVICE, not_here},
             {CPR_EMPTY_CU_SEQLENS, no_entries},
             {CPR_NONZERO_START, no_zero_start},
             {CPR_DECREASING, decreases},
             {CPR_TOTAL_MISMATCH, other_rows},
             {CPR_NOT_DIVISIBLE_2CP, chunks_uneven},
             {CPR_NOT_DIVISIBLE_CP, shares_uneven},
             {CPR_NOT_DIVISIBLE_CP_TP, windows_uneven}};

cpr_error route_case_expected(const route_case *c) {
    cpr_error error = {.status = CPR_OK};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].is_broken(c, &error)) {
            error.status = rules[i].status;
            break;
        }
    }
    return error;
}
