/* SPDX-License-Identifier: Apache-2.0 */
#include "case_plan.h"

#include <limits.h>

const case_bounds CASE_BOUNDS_DRAWN = {.max_cp_size = 12,
                                       .max_sequences = CASE_MAX_SEQUENCES,
                                       .max_multiple = 3,
                                       .dressing = true,
                                       .corruptions = true};
const case_bounds CASE_BOUNDS_EXHAUSTIVE = {.max_cp_size = 5, .max_sequences = 4, .max_multiple = 3};
const case_bounds CASE_BOUNDS_CORRUPTED = {
    .max_cp_size = 3, .max_sequences = 2, .max_multiple = 1, .corruptions = true};

/* 0, 0 is the route that everybody asks for. */
const cpr_layout case_sources[] = {CPR_ZIGZAG, CPR_CONTIGUOUS, CPR_PER_SEQUENCE_CONTIGUOUS, CPR_FLAT_ZIGZAG,
                                   CPR_HEADS_THEN_TAILS};
const cpr_layout case_targets[] = {CPR_CONTIGUOUS, CPR_ZIGZAG, CPR_PER_SEQUENCE_CONTIGUOUS, CPR_FLAT_ZIGZAG,
                                   CPR_HEADS_THEN_TAILS};
const int64_t case_strides[] = {1, 2, 3, -1};
const int64_t case_tp_sizes[] = {0, 1, 2, 3, 5};
const int64_t cp_size_mistakes[] = {0, -1, INT64_MIN, CPR_CP_SIZE_MAX + 1, INT64_MAX};
const int64_t tp_mistakes[] = {2, 3, 4, 5, 8, -1, INT64_MIN, INT64_MAX};
const cpr_layout layout_mistakes[] = {CPR_LAYOUT_COUNT, (cpr_layout)-1, (cpr_layout)INT_MAX,
                                      (cpr_layout)INT_MIN};
const cpr_dtype dtype_mistakes[] = {CPR_FLOAT32,  CPR_FLOAT64,     CPR_FLOAT16,
                                    CPR_BFLOAT16, CPR_OTHER_DTYPE, (cpr_dtype)99};
const cpr_device device_mistakes[] = {CPR_CUDA, CPR_OTHER_DEVICE, (cpr_device)99};

int64_t rank_mistake(uint64_t amount, int64_t cp_size) {
    const int64_t mistakes[RANK_MISTAKES] = {cp_size, -1, INT64_MIN, INT64_MAX};
    return mistakes[amount];
}

int64_t start_shift(uint64_t amount, int64_t cp_size) {
    const int64_t shifts[START_SHIFTS] = {1, -1, 2 * cp_size, INT64_C(1) << 40};
    return shifts[amount];
}

int64_t row_mistake(uint64_t amount, int64_t rows, int64_t cp_size) {
    const int64_t mistakes[ROW_MISTAKES] = {wrapping_add(rows, 1),
                                            wrapping_add(rows, -1),
                                            wrapping_add(rows, 2 * cp_size),
                                            wrapping_add(rows, -2 * cp_size),
                                            -1,
                                            INT64_MAX,
                                            INT64_MIN + 1};
    return mistakes[amount];
}

int64_t wrapping_add(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

int64_t last_entry(const route_case *c) {
    return c->entries ? c->cu[c->entries - 1] : 0;
}

bool tp_divides(const route_case *c, int64_t cp_size, int64_t tp_size) {
    return tp_size < 2 || last_entry(c) / cp_size % tp_size == 0;
}

static bool cuts_each_sequence(cpr_layout layout) {
    return layout == CPR_ZIGZAG || layout == CPR_PER_SEQUENCE_CONTIGUOUS || layout == CPR_HEADS_THEN_TAILS;
}

length_rules plan_length_rules(int64_t cp_size, cpr_layout source, cpr_layout target) {
    length_rules rules = {.chunks = 2 * cp_size, .total = 1, .longest = CASE_MAX_TOKENS - 2 * cp_size};
    if (cp_size == 1)
        return rules;
    rules.each = cuts_each_sequence(source) || cuts_each_sequence(target);
    const bool only_contiguous = source == CPR_CONTIGUOUS && target == CPR_CONTIGUOUS;
    rules.total = only_contiguous ? cp_size : 2 * cp_size;
    return rules;
}

static length_rules rules_of(const case_plan *plan) {
    return plan_length_rules((int64_t)plan->cp_size_less_one + 1, case_sources[plan->source],
                             case_targets[plan->target]);
}

/*==============================================================================
 * MARK: - The byte format
 *============================================================================*/

enum {
    MOST_DRAWN_KIND =
        31, /* two kinds of three that are drawn stand for no corruption: most cases are legal */
    NO_CORRUPTION_UP_TO = MOST_DRAWN_KIND - (CORRUPTION_KINDS - 1),
    MOST_DRAWN_MORE = 7 /* one value in eight ends the list of sequences */
};

static uint64_t code(plan_coder *coder, uint64_t value, uint64_t maximum) {
    if (coder->choices)
        return choose(coder->choices, maximum);
    for (unsigned i = choice_width(maximum); i-- > 0; coder->length++) {
        if (coder->length < coder->capacity)
            coder->bytes[coder->length] = (uint8_t)(value >> (8 * i));
    }
    return value;
}

static uint64_t where_maximum(const case_plan *plan, const case_bounds *bounds, uint64_t kind) {
    const uint64_t last_sequence = (uint64_t)bounds->max_sequences - 1;
    if (kind == CORRUPT_LAYOUT)
        return 1;
    if (kind == CORRUPT_DECREASING)
        return last_sequence;
    return kind == CORRUPT_LENGTH && rules_of(plan).each ? last_sequence : 0;
}

static uint64_t amount_maximum(const case_plan *plan, uint64_t kind) {
    static const uint8_t forms[CORRUPTION_KINDS] = {[CORRUPT_CP_SIZE] = CP_SIZE_MISTAKES,
                                                    [CORRUPT_RANK] = RANK_MISTAKES,
                                                    [CORRUPT_LAYOUT] = LAYOUT_MISTAKES,
                                                    [CORRUPT_DTYPE] = DTYPE_MISTAKES,
                                                    [CORRUPT_DEVICE] = DEVICE_MISTAKES,
                                                    [CORRUPT_START] = START_SHIFTS,
                                                    [CORRUPT_DECREASING] = DECREASING_FORMS,
                                                    [CORRUPT_ROWS] = ROW_MISTAKES,
                                                    [CORRUPT_TP] = TP_MISTAKES};
    if (kind != CORRUPT_LENGTH)
        return forms[kind] ? forms[kind] - 1u : 0;
    const int64_t total = rules_of(plan).total;
    return total > 2 ? (uint64_t)total - 2 : 0;
}

static uint64_t code_kind(plan_coder *coder, const case_bounds *bounds, uint64_t kind) {
    if (!bounds->dressing)
        return code(coder, kind, CORRUPTION_KINDS - 1);
    const uint64_t drawn = code(coder, kind ? kind + NO_CORRUPTION_UP_TO : 0, MOST_DRAWN_KIND);
    return drawn > NO_CORRUPTION_UP_TO ? drawn - NO_CORRUPTION_UP_TO : CORRUPT_NOTHING;
}

/* A second corruption comes only after a first, and undressed in its simplest form only, which is enough to meet every
 * pair of kinds. Choices that would not matter are made among one, so the width is the same for all. */
static void code_corruptions(plan_coder *coder, const case_bounds *bounds, case_plan *plan) {
    for (unsigned i = 0; i < CASE_CORRUPTIONS; i++) {
        corruption *own = &plan->corruptions[i];
        const bool possible = i == 0 || plan->corruptions[i - 1].kind != CORRUPT_NOTHING;
        const bool simplest = i > 0 && !bounds->dressing;
        own->kind = possible ? code_kind(coder, bounds, own->kind) : code(coder, CORRUPT_NOTHING, 0);
        own->where = code(coder, own->where, simplest ? 0 : where_maximum(plan, bounds, own->kind));
        own->amount = code(coder, own->amount, simplest ? 0 : amount_maximum(plan, own->kind));
    }
}

static void code_dressing(plan_coder *coder, case_plan *plan) {
    plan->dtype = code(coder, plan->dtype, 1);
    plan->stride = code(coder, plan->stride, CASE_STRIDES - 1);
    plan->rows_checked = code(coder, plan->rows_checked, 1);
    plan->tp = code(coder, plan->tp, CASE_TP_SIZES - 1);
    plan->salt = code(coder, plan->salt, UINT16_MAX);
}

static void code_sequences(plan_coder *coder, const case_bounds *bounds, case_plan *plan) {
    const length_rules rules = rules_of(plan);
    const uint64_t most_ragged = bounds->dressing && !rules.each ? (uint64_t)rules.chunks - 1 : 0;
    const uint64_t most_more = bounds->dressing ? MOST_DRAWN_MORE : 1;
    const uint64_t planned = plan->sequences;
    uint64_t i = 0;
    for (; i < (uint64_t)bounds->max_sequences; i++) {
        if (coder->choices) {
            choice_record_begin(coder->choices);
            plan->lengths[i].multiple = plan->lengths[i].ragged = 0;
        }
        if (code(coder, i < planned, most_more) == 0)
            break;
        plan->lengths[i].multiple = code(coder, plan->lengths[i].multiple, (uint64_t)bounds->max_multiple);
        plan->lengths[i].ragged = code(coder, plan->lengths[i].ragged, most_ragged);
        if (coder->choices)
            choice_record_end(coder->choices);
    }
    plan->sequences = i;
}

void plan_code(plan_coder *coder, const case_bounds *bounds, case_plan *plan) {
    plan->cp_size_less_one = code(coder, plan->cp_size_less_one, (uint64_t)bounds->max_cp_size - 1);
    plan->rank = code(coder, plan->rank, plan->cp_size_less_one);
    plan->source = code(coder, plan->source, CPR_LAYOUT_COUNT - 1);
    plan->target = code(coder, plan->target, CPR_LAYOUT_COUNT - 1);
    if (bounds->dressing)
        code_dressing(coder, plan);
    if (bounds->corruptions)
        code_corruptions(coder, bounds, plan);
    code_sequences(coder, bounds, plan);
}

/*==============================================================================
 * MARK: - From plan to case
 *============================================================================*/

static void lay_sequences(const case_plan *plan, const length_rules *rules, route_case *c) {
    int64_t tokens = 0;
    c->cu[0] = 0;
    for (uint64_t i = 0; i < plan->sequences; i++) {
        const int64_t length =
            (int64_t)plan->lengths[i].multiple * rules->chunks + (int64_t)plan->lengths[i].ragged;
        if (tokens + length <= rules->longest)
            tokens += length;
        c->cu[i + 1] = tokens;
    }
    c->entries = (int64_t)plan->sequences + 1;
    if (plan->sequences > 0 && !rules->each)
        c->cu[plan->sequences] += (rules->total - tokens % rules->total) % rules->total;
}

typedef void corrupt_fn(route_case *c, const length_rules *rules, const corruption *how, int64_t cp_size);

static void shift_from(route_case *c, int64_t entry, int64_t shift) {
    for (int64_t i = entry; i < c->entries; i++)
        c->cu[i] = wrapping_add(c->cu[i], shift);
}

/* Where lengths have no rule of their own it is the last one that makes the total wrong. What is ragged already stays:
 * two of these never mend each other. */
static void corrupt_length(route_case *c, const length_rules *rules, const corruption *how, int64_t cp_size) {
    (void)cp_size;
    const int64_t sequences = c->entries - 1;
    if (sequences < 1 || rules->total < 2)
        return;
    const int64_t i = rules->each ? (int64_t)how->where % sequences : sequences - 1;
    const int64_t held_to_rule = rules->each ? c->cu[i + 1] - c->cu[i] : c->cu[i + 1];
    if (held_to_rule % rules->total == 0)
        shift_from(c, i + 1, (int64_t)how->amount + 1);
}

static void corrupt_decreasing(route_case *c, const length_rules *rules, const corruption *how,
                               int64_t cp_size) {
    (void)rules, (void)cp_size;
    if (c->entries < 2)
        return;
    int64_t i = 1 + (int64_t)how->where % (c->entries - 1);
    switch (how->amount) {
    case DECREASING_BY_ONE:
        c->cu[i] = c->cu[i - 1] - 1;
        break;
    case DECREASING_TO_SENTINEL:
        c->cu[i] = -1;
        break;
    case DECREASING_TO_MINIMUM:
        c->cu[i] = INT64_MIN + 1;
        break;
    default:
        for (; i < c->entries; i++)
            c->cu[i] = -1;
    }
}

static void corrupt_start(route_case *c, const length_rules *rules, const corruption *how, int64_t cp_size) {
    (void)rules;
    shift_from(c, 0, start_shift(how->amount, cp_size));
}

static void corrupt_empty(route_case *c, const length_rules *rules, const corruption *how, int64_t cp_size) {
    (void)rules, (void)how, (void)cp_size;
    c->entries = 0;
}

static void corrupt_rows(route_case *c, const length_rules *rules, const corruption *how, int64_t cp_size) {
    (void)rules;
    c->rows = row_mistake(how->amount, last_entry(c), cp_size);
}

static void corrupt_tp(route_case *c, const length_rules *rules, const corruption *how, int64_t cp_size) {
    (void)rules, (void)cp_size;
    c->tp_size = tp_mistakes[how->amount];
}

static void corrupt_device(route_case *c, const length_rules *rules, const corruption *how, int64_t cp_size) {
    (void)rules, (void)cp_size;
    c->device = device_mistakes[how->amount];
}

static void corrupt_dtype(route_case *c, const length_rules *rules, const corruption *how, int64_t cp_size) {
    (void)rules, (void)cp_size;
    c->dtype = dtype_mistakes[how->amount];
}

static void corrupt_layout(route_case *c, const length_rules *rules, const corruption *how, int64_t cp_size) {
    (void)rules, (void)cp_size;
    cpr_layout *layout = how->where == 0 ? &c->source : &c->target;
    *layout = layout_mistakes[how->amount];
}

static void corrupt_rank(route_case *c, const length_rules *rules, const corruption *how, int64_t cp_size) {
    (void)rules;
    c->geometry.cp_rank = rank_mistake(how->amount, cp_size);
}

static void corrupt_cp_size(route_case *c, const length_rules *rules, const corruption *how,
                            int64_t cp_size) {
    (void)rules, (void)cp_size;
    c->geometry.cp_size = cp_size_mistakes[how->amount];
}

/* In this order, whatever the order of the corruptions, each undoes nothing of another. */
typedef struct corruption_step {
    corruption_kind kind;
    corrupt_fn *corrupt;
} corruption_step;

static const corruption_step entry_steps[] = {{CORRUPT_LENGTH, corrupt_length},
                                              {CORRUPT_DECREASING, corrupt_decreasing},
                                              {CORRUPT_START, corrupt_start},
                                              {CORRUPT_EMPTY, corrupt_empty}};
static const corruption_step request_steps[] = {
    {CORRUPT_ROWS, corrupt_rows},      {CORRUPT_TP, corrupt_tp},         {CORRUPT_DEVICE, corrupt_device},
    {CORRUPT_DTYPE, corrupt_dtype},    {CORRUPT_LAYOUT, corrupt_layout}, {CORRUPT_RANK, corrupt_rank},
    {CORRUPT_CP_SIZE, corrupt_cp_size}};

/* Two lengths or two layouts can be wrong at once; of another kind the first counts. */
static bool repeats_another(const case_plan *plan, unsigned i) {
    const uint64_t kind = plan->corruptions[i].kind;
    return i > 0 && kind == plan->corruptions[0].kind && kind != CORRUPT_LENGTH &&
           !(kind == CORRUPT_LAYOUT && plan->corruptions[i].where != plan->corruptions[0].where);
}

static void corrupt(const case_plan *plan, const length_rules *rules, const corruption_step *steps,
                    size_t count, route_case *c) {
    for (size_t step = 0; step < count; step++) {
        for (unsigned i = 0; i < CASE_CORRUPTIONS; i++) {
            if (plan->corruptions[i].kind == steps[step].kind && !repeats_another(plan, i))
                steps[step].corrupt(c, rules, &plan->corruptions[i], (int64_t)plan->cp_size_less_one + 1);
        }
    }
}

static void dress(const case_plan *plan, route_case *c) {
    const int64_t cp_size = (int64_t)plan->cp_size_less_one + 1;
    const int64_t tp_size = case_tp_sizes[plan->tp];
    c->dtype = plan->dtype == 0 ? CPR_INT32 : CPR_INT64;
    c->device = CPR_CPU;
    c->stride = case_strides[plan->stride];
    c->rows = plan->rows_checked ? last_entry(c) : CPR_ROWS_UNCHECKED;
    c->tp_size = tp_divides(c, cp_size, tp_size) ? tp_size : 0;
    c->salt = plan->salt;
}

void plan_carry_out(const case_plan *plan, route_case *c) {
    const length_rules rules = rules_of(plan);
    const bool legal = plan->corruptions[0].kind == CORRUPT_NOTHING;
    c->geometry = (cpr_geometry){(int64_t)plan->cp_size_less_one + 1, (int64_t)plan->rank};
    c->source = case_sources[plan->source];
    c->target = case_targets[plan->target];
    lay_sequences(plan, &rules, c);
    if (!legal)
        corrupt(plan, &rules, entry_steps, sizeof entry_steps / sizeof *entry_steps, c);
    dress(plan, c);
    if (!legal)
        corrupt(plan, &rules, request_steps, sizeof request_steps / sizeof *request_steps, c);
    c->expected = legal ? (cpr_error){.status = CPR_OK} : route_case_expected(c);
    c->expected_known = true;
}
