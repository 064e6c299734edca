/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inverse of drawing. What corruptions hide (an unknown layout, a cp_size of 0) is tried out, from simple to less
 * simple; all else follows from the case. A plan counts only if carrying it out gives the case again, so the deduction
 * below may give up or be wrong without harm.
 */
#include "case_plan.h"

#include <string.h>

/* Index of the first entry that equals `value`, or `count`. */
#define INDEX_IN(list, count, value, index)                                                                  \
    do {                                                                                                     \
        (index) = 0;                                                                                         \
        while ((index) < (count) && (list)[index] != (value))                                                \
            (index)++;                                                                                       \
    } while (0)

typedef struct deduction {
    const route_case *c;
    case_plan plan;
    unsigned corruptions;
    int64_t cp_size;
    length_rules rules;
    int64_t entries[CASE_MAX_SEQUENCES + 1]; /* as they were before what is already deduced */
    int64_t count;
    bool last_unknown; /* the last entry is hidden: the total tells nothing */
} deduction;

static bool corrupted(deduction *d, corruption_kind kind, uint64_t where, uint64_t amount) {
    if (d->corruptions == CASE_CORRUPTIONS)
        return false;
    d->plan.corruptions[d->corruptions++] = (corruption){kind, where, amount};
    return true;
}

/*==============================================================================
 * MARK: - What is not about lengths
 *============================================================================*/

static bool deduce_dtype(deduction *d) {
    uint64_t i;
    d->plan.dtype = d->c->dtype == CPR_INT64;
    if (d->c->dtype == CPR_INT32 || d->c->dtype == CPR_INT64)
        return true;
    INDEX_IN(dtype_mistakes, DTYPE_MISTAKES, d->c->dtype, i);
    return i < DTYPE_MISTAKES && corrupted(d, CORRUPT_DTYPE, 0, i);
}

static bool deduce_device(deduction *d) {
    uint64_t i;
    if (d->c->device == CPR_CPU)
        return true;
    INDEX_IN(device_mistakes, DEVICE_MISTAKES, d->c->device, i);
    return i < DEVICE_MISTAKES && corrupted(d, CORRUPT_DEVICE, 0, i);
}

static bool deduce_rows(deduction *d) {
    uint64_t i = 0;
    if (d->c->rows == CPR_ROWS_UNCHECKED)
        return true;
    if (d->c->rows == last_entry(d->c)) {
        d->plan.rows_checked = 1;
        return true;
    }
    while (i < ROW_MISTAKES && row_mistake(i, last_entry(d->c), d->cp_size) != d->c->rows)
        i++;
    return i < ROW_MISTAKES && corrupted(d, CORRUPT_ROWS, 0, i);
}

static bool deduce_tp(deduction *d) {
    uint64_t i;
    INDEX_IN(case_tp_sizes, CASE_TP_SIZES, d->c->tp_size, i);
    if (i < CASE_TP_SIZES && tp_divides(d->c, d->cp_size, d->c->tp_size)) {
        d->plan.tp = i;
        return true;
    }
    INDEX_IN(tp_mistakes, TP_MISTAKES, d->c->tp_size, i);
    return i < TP_MISTAKES && corrupted(d, CORRUPT_TP, 0, i);
}

static bool deduce_stride_and_salt(deduction *d) {
    INDEX_IN(case_strides, CASE_STRIDES, d->c->stride, d->plan.stride);
    d->plan.salt = d->c->salt;
    return d->plan.stride < CASE_STRIDES && d->c->salt <= UINT16_MAX;
}

/*==============================================================================
 * MARK: - Entries
 *============================================================================*/

static bool undo_start(deduction *d) {
    const int64_t start = d->c->cu[0];
    uint64_t i = 0;
    if (start == 0)
        return true;
    while (i < START_SHIFTS && start_shift(i, d->cp_size) != start)
        i++;
    if (i == START_SHIFTS || !corrupted(d, CORRUPT_START, 0, i))
        return false;
    for (int64_t entry = 0; entry < d->count; entry++)
        d->entries[entry] = wrapping_add(d->entries[entry], -start);
    return true;
}

static int64_t longest_drawn(const deduction *d, int64_t sequence) {
    const int64_t longest = CASE_BOUNDS_DRAWN.max_multiple * d->rules.chunks;
    if (d->rules.each)
        return longest;
    const bool lengthened = sequence + 2 == d->count;
    return longest + d->rules.chunks - 1 + (lengthened ? d->rules.total - 1 : 0);
}

/* The entry between its neighbours that leaves the sequence before it as short as may be. */
static int64_t likely_entry(const deduction *d, int64_t i) {
    const int64_t both = d->entries[i + 1] - d->entries[i - 1];
    const bool total_counts = !d->rules.each && i + 2 == d->count;
    const int64_t held_to_rule = total_counts ? d->entries[i + 1] : both;
    const bool rule_counts = d->rules.each || total_counts;
    const int64_t ragged = rule_counts ? held_to_rule % d->rules.total : 0;
    const int64_t before = both - longest_drawn(d, i) - ragged;
    return d->entries[i - 1] + (before > 0 ? before : 0);
}

static uint64_t decreasing_form(const deduction *d, int64_t i) {
    const int64_t value = d->entries[i];
    if (value == -1 && i + 1 < d->count && d->entries[i + 1] == -1)
        return DECREASING_SENTINELS;
    if (value == d->entries[i - 1] - 1)
        return DECREASING_BY_ONE;
    return value == -1 ? DECREASING_TO_SENTINEL : DECREASING_TO_MINIMUM;
}

static bool undo_decreasing(deduction *d) {
    int64_t i = 1;
    while (i < d->count && d->entries[i] >= d->entries[i - 1])
        i++;
    if (i == d->count)
        return true;
    const uint64_t form = decreasing_form(d, i);
    if (!corrupted(d, CORRUPT_DECREASING, (uint64_t)i - 1, form))
        return false;
    d->last_unknown = form == DECREASING_SENTINELS || i + 1 == d->count;
    if (d->last_unknown) {
        for (int64_t rest = i; rest < d->count; rest++)
            d->entries[rest] = d->entries[i - 1];
        return true;
    }
    if (d->entries[i + 1] < d->entries[i - 1])
        return false;
    d->entries[i] = likely_entry(d, i);
    return true;
}

static bool entries_are_drawn(const deduction *d) {
    for (int64_t i = 1; i < d->count; i++) {
        if (d->entries[i] < d->entries[i - 1] || d->entries[i] > 2 * CASE_MAX_TOKENS)
            return false;
    }
    return true;
}

static bool plan_length(deduction *d, int64_t sequence, int64_t length) {
    d->plan.lengths[sequence].multiple = (uint64_t)(length / d->rules.chunks);
    d->plan.lengths[sequence].ragged = (uint64_t)(length % d->rules.chunks);
    return length >= 0 && length / d->rules.chunks <= CASE_BOUNDS_DRAWN.max_multiple;
}

static bool deduce_lengths_each(deduction *d) {
    for (int64_t i = 0; i + 1 < d->count; i++) {
        const int64_t length = d->entries[i + 1] - d->entries[i];
        const int64_t ragged = length % d->rules.chunks;
        if (ragged && !corrupted(d, CORRUPT_LENGTH, (uint64_t)i, (uint64_t)ragged - 1))
            return false;
        if (!plan_length(d, i, length - ragged))
            return false;
    }
    return true;
}

/* The last sequence is planned as short as drawing may have lengthened it from. */
static bool deduce_lengths_total(deduction *d) {
    const int64_t sequences = d->count - 1;
    const int64_t ragged = d->last_unknown ? 0 : d->entries[sequences] % d->rules.total;
    if (ragged && !corrupted(d, CORRUPT_LENGTH, 0, (uint64_t)ragged - 1))
        return false;
    for (int64_t i = 0; i < sequences; i++) {
        int64_t length = d->entries[i + 1] - d->entries[i];
        if (i + 1 == sequences) {
            length -= ragged;
            if (length >= 0)
                length = length >= d->rules.total ? length - (d->rules.total - 1) : 0;
        }
        if (!plan_length(d, i, length))
            return false;
    }
    return true;
}

static bool deduce_entries(deduction *d) {
    if (d->c->entries == 0)
        return corrupted(d, CORRUPT_EMPTY, 0, 0);
    d->count = d->c->entries;
    d->plan.sequences = (uint64_t)d->count - 1;
    memcpy(d->entries, d->c->cu, (size_t)d->count * sizeof *d->entries);
    if (!undo_start(d) || !undo_decreasing(d) || !entries_are_drawn(d))
        return false;
    return d->rules.each ? deduce_lengths_each(d) : deduce_lengths_total(d);
}

/*==============================================================================
 * MARK: - Trying out
 *============================================================================*/

/* Details that a text case does not state may be any. */
static bool same_case(const route_case *c, route_case *drawn) {
    if (!c->expected_known && c->expected.status == drawn->expected.status) {
        drawn->expected = c->expected;
        drawn->expected_known = false;
    }
    return route_case_equal(c, drawn);
}

static bool deduce(deduction *d, route_case *drawn) {
    if (!deduce_dtype(d) || !deduce_device(d) || !deduce_entries(d) || !deduce_rows(d) || !deduce_tp(d) ||
        !deduce_stride_and_salt(d))
        return false;
    plan_carry_out(&d->plan, drawn);
    return same_case(d->c, drawn);
}

static bool geometry_deduced(deduction *d) {
    const cpr_geometry g = d->c->geometry;
    uint64_t i = 0;
    if (g.cp_size != d->cp_size) {
        INDEX_IN(cp_size_mistakes, CP_SIZE_MISTAKES, g.cp_size, i);
        if (i == CP_SIZE_MISTAKES || !corrupted(d, CORRUPT_CP_SIZE, 0, i))
            return false;
    }
    if (g.cp_rank >= 0 && g.cp_rank < d->cp_size) {
        d->plan.rank = (uint64_t)g.cp_rank;
        return true;
    }
    for (i = 0; i < RANK_MISTAKES && rank_mistake(i, d->cp_size) != g.cp_rank; i++) {
    }
    return i < RANK_MISTAKES && corrupted(d, CORRUPT_RANK, 0, i);
}

static bool layout_deduced(deduction *d, cpr_layout layout, const cpr_layout *names, uint64_t where,
                           uint64_t choice) {
    uint64_t i;
    if (layout == names[choice])
        return true;
    INDEX_IN(names, CPR_LAYOUT_COUNT, layout, i);
    if (i < CPR_LAYOUT_COUNT)
        return false;
    INDEX_IN(layout_mistakes, LAYOUT_MISTAKES, layout, i);
    return i < LAYOUT_MISTAKES && corrupted(d, CORRUPT_LAYOUT, where, i);
}

static bool try_out(const route_case *c, uint64_t attempt, case_plan *plan, route_case *drawn) {
    deduction d = {.c = c};
    d.plan.target = attempt % CPR_LAYOUT_COUNT;
    d.plan.source = attempt / CPR_LAYOUT_COUNT % CPR_LAYOUT_COUNT;
    d.plan.cp_size_less_one = attempt / (CPR_LAYOUT_COUNT * CPR_LAYOUT_COUNT);
    d.cp_size = (int64_t)d.plan.cp_size_less_one + 1;
    d.rules = plan_length_rules(d.cp_size, case_sources[d.plan.source], case_targets[d.plan.target]);
    const bool found = geometry_deduced(&d) &&
                       layout_deduced(&d, c->source, case_sources, 0, d.plan.source) &&
                       layout_deduced(&d, c->target, case_targets, 1, d.plan.target) && deduce(&d, drawn);
    if (found)
        *plan = d.plan;
    return found;
}

bool route_case_encode(const route_case *c, uint8_t *bytes, size_t capacity, size_t *length) {
    const uint64_t attempts = (uint64_t)CASE_BOUNDS_DRAWN.max_cp_size * CPR_LAYOUT_COUNT * CPR_LAYOUT_COUNT;
    plan_coder coder = {.bytes = bytes, .capacity = capacity};
    case_plan plan;
    route_case drawn;
    uint64_t attempt = 0;
    if (c->entries > CASE_MAX_SEQUENCES + 1)
        return false;
    while (attempt < attempts && !try_out(c, attempt, &plan, &drawn))
        attempt++;
    if (attempt == attempts)
        return false;
    plan_code(&coder, &CASE_BOUNDS_DRAWN, &plan);
    if (coder.length > capacity)
        return false;
    *length = coder.length;
    return true;
}
