/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A case on the way between bytes and request: the choices by name. Drawing reads a plan from choices and carries it
 * out; encoding finds a plan for a case and writes it. The order and the width of the fields, the byte format that is,
 * is written down once, in plan_code().
 */
#ifndef CPROUTE_PROPS_CASE_PLAN_H
#define CPROUTE_PROPS_CASE_PLAN_H

#include "route_case.h"

/* What can be made wrong, in the order in which requests are validated. */
typedef enum corruption_kind {
    CORRUPT_NOTHING,
    CORRUPT_CP_SIZE,
    CORRUPT_RANK,
    CORRUPT_LAYOUT,
    CORRUPT_DTYPE,
    CORRUPT_DEVICE,
    CORRUPT_EMPTY,
    CORRUPT_START,
    CORRUPT_DECREASING,
    CORRUPT_ROWS,
    CORRUPT_LENGTH,
    CORRUPT_TP,
    CORRUPTION_KINDS
} corruption_kind;

enum { CASE_CORRUPTIONS = 2 };

typedef struct corruption {
    uint64_t kind, where, amount;
} corruption;

/* Fields are choices: from 0, 0 the simplest. */
typedef struct case_plan {
    uint64_t cp_size_less_one, rank, source, target;
    uint64_t dtype, stride, rows_checked, tp, salt;
    corruption corruptions[CASE_CORRUPTIONS];
    uint64_t sequences;
    struct {
        uint64_t multiple, ragged;
    } lengths[CASE_MAX_SEQUENCES];
} case_plan;

/* Where the fields of a plan come from or go to: choices, or `bytes` if there are none. */
typedef struct plan_coder {
    choices *choices;
    uint8_t *bytes;
    size_t length, capacity; /* length counts on beyond the capacity */
} plan_coder;

void plan_code(plan_coder *coder, const case_bounds *bounds, case_plan *plan);

/* Makes the case, `expected` included. */
void plan_carry_out(const case_plan *plan, route_case *c);

/* The values that choices stand for. */
enum {
    CASE_STRIDES = 4,
    CASE_TP_SIZES = 5,
    START_SHIFTS = 4,
    DECREASING_FORMS = 4,
    ROW_MISTAKES = 7,
    CP_SIZE_MISTAKES = 5,
    RANK_MISTAKES = 4,
    LAYOUT_MISTAKES = 4,
    DTYPE_MISTAKES = 6,
    DEVICE_MISTAKES = 3,
    TP_MISTAKES = 8
};
extern const cpr_layout case_sources[CPR_LAYOUT_COUNT], case_targets[CPR_LAYOUT_COUNT];
extern const int64_t case_strides[CASE_STRIDES], case_tp_sizes[CASE_TP_SIZES];
extern const int64_t cp_size_mistakes[CP_SIZE_MISTAKES], tp_mistakes[TP_MISTAKES];
extern const cpr_layout layout_mistakes[LAYOUT_MISTAKES];
extern const cpr_dtype dtype_mistakes[DTYPE_MISTAKES];
extern const cpr_device device_mistakes[DEVICE_MISTAKES];
int64_t rank_mistake(uint64_t amount, int64_t cp_size);
int64_t start_shift(uint64_t amount, int64_t cp_size);
int64_t row_mistake(uint64_t amount, int64_t rows, int64_t cp_size);

/* What forms of "decreasing" write into an entry; the last one goes on to the end, as sentinels do. */
enum { DECREASING_BY_ONE, DECREASING_TO_SENTINEL, DECREASING_TO_MINIMUM, DECREASING_SENTINELS };

/* What every builder must answer, from the rules and their order, and from nothing that the engine says. */
cpr_error route_case_expected(const route_case *c);

/* Sums that may leave the range of int64 on the way. */
int64_t wrapping_add(int64_t a, int64_t b);

/* Entries and rows as they stand, right or wrong. */
int64_t last_entry(const route_case *c);
bool tp_divides(const route_case *c, int64_t cp_size, int64_t tp_size);

/* What lengths are held to. */
typedef struct length_rules {
    int64_t chunks;  /* 2P: what a multiple is a multiple of */
    bool each;       /* every length must divide by it */
    int64_t total;   /* T must divide by this */
    int64_t longest; /* tokens beyond which sequences become empty */
} length_rules;
length_rules plan_length_rules(int64_t cp_size, cpr_layout source, cpr_layout target);

#endif
