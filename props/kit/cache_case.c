/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_case.h"

#include <limits.h>
#include <string.h>

#define KIND(kind) (UINT32_C(1) << (kind))

const cache_alphabet CACHE_ALPHABET_DRAWN = ~KIND(CACHE_COUNT);

/* The simplest first. What lookups agree on is likely in all tables here, so that there is something to hit. */
static const struct {
    cache_op_kind kind;
    uint8_t weight;
} drawn_kinds[] = {
    {CACHE_GET, 40},   {CACHE_WRITE, 4},     {CACHE_NEW, 5},        {CACHE_VIEW, 2},
    {CACHE_FREE, 2},   {CACHE_RAW_WRITE, 2}, {CACHE_REBIND, 2},     {CACHE_SET_VERSION, 1},
    {CACHE_CLONE, 1},  {CACHE_PREBUILD, 3},  {CACHE_RESOLVE, 8},    {CACHE_CAPTURE, 3},
    {CACHE_REPLAY, 3}, {CACHE_RELEASE, 1},   {CACHE_INVALIDATE, 1}, {CACHE_CAP, 1},
    {CACHE_CLEAR, 1},
};
enum { KIND_WEIGHTS = 80 };
enum { DRAWN_NAMES = 16 };
/* Most is done with the first name; what makes a tensor gives one to the others as often. */
static const uint8_t used_names[DRAWN_NAMES] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3};
static const uint8_t made_names[DRAWN_NAMES] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3};

enum { FIELDS = 4 };

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define LAST(table)  ((uint8_t)(COUNT(table) - 1))

static const cpr_guard guards[] = {CPR_GUARD_DEFAULT, CPR_GUARD_VERSION, CPR_GUARD_CONTENT};
static const int64_t entry_bounds[] = {16, 1, 2, 3, 8};
static const int64_t byte_bounds[] = {0, 0, 0, 0, 0, 2000, 4000, 16000};

static const int64_t cp_sizes[] = {2, 2, 2, 2, 4, 4, 1, 3};
static const int64_t cp_ranks[] = {0, 0, 0, 0, 1, 1, 2, 3};
/* Below it, a group is the first one and all else that is asked is the usual. */
enum { USUAL = 12 };
/* Zigzag to contiguous as often as not, its mirror mostly otherwise, and each other pair once. */
enum { PAIRS = CPR_LAYOUT_COUNT * CPR_LAYOUT_COUNT, PAIR_FIELDS = 8 * (PAIRS - 2) };
static const struct {
    int64_t rows;
    bool blind;
    int64_t tp_size;
} manners[] = {
    {CPR_ROWS_UNCHECKED, false, 0},
    {CPR_ROWS_UNCHECKED, false, 0},
    {CPR_ROWS_UNCHECKED, false, 0},
    {CPR_ROWS_UNCHECKED, false, 0},
    {CPR_ROWS_UNCHECKED, false, 0},
    {CPR_ROWS_UNCHECKED, false, 0},
    {CPR_ROWS_UNCHECKED, false, 0},
    {CPR_ROWS_UNCHECKED, false, 0},
    {CPR_ROWS_UNCHECKED, false, 0},
    {CPR_ROWS_UNCHECKED, false, 0},
    {CPR_ROWS_UNCHECKED, false, 0},
    {CPR_ROWS_UNCHECKED, false, 0},
    {16, false, 0},
    {16, false, 0},
    {24, false, 0},
    {CPR_ROWS_UNCHECKED, true, 0},
    {16, true, 0},
    {CPR_ROWS_UNCHECKED, false, 1},
    {CPR_ROWS_UNCHECKED, false, 1},
    {CPR_ROWS_UNCHECKED, false, 2},
};
static const int64_t row_counts[] = {CPR_ROWS_UNCHECKED, CPR_ROWS_UNCHECKED, 16, 24};
static const int64_t indices[] = {1, 1, 1, 2, 2, 0, 3, 10};
static const int64_t written[] = {8, 4, 16, 24, 0, 12, 6, 84, 99};
/* The last is the first one in 32 bits. */
static const int64_t versions[] = {0, 1, 2, INT64_C(1) << 32};
static const int64_t strides[] = {1, 2, 3, 0};
static const int64_t caps[] = {8, 1, 2, 4};
static const cpr_dtype dtypes[] = {CPR_INT32, CPR_INT32, CPR_INT32, CPR_INT32, CPR_INT32,
                                   CPR_INT32, CPR_INT64, CPR_INT64, CPR_INT64, CPR_FLOAT32};
static const struct {
    cpr_device device;
    int64_t index;
    bool inference;
} homes[] = {
    {CPR_CPU, -1, false}, {CPR_CPU, -1, false}, {CPR_CPU, -1, false}, {CPR_CPU, -1, false},
    {CPR_CPU, -1, false}, {CPR_CPU, -1, false}, {CPR_CPU, -1, false}, {CPR_CPU, -1, false},
    {CPR_CPU, -1, false}, {CPR_CPU, -1, false}, {CPR_CUDA, 0, false}, {CPR_CUDA, 1, false},
    {CPR_CPU, -1, true},  {CPR_CUDA, 0, true},
};
static const uint8_t names_or_none[] = {
    CACHE_NO_NAME, CACHE_NO_NAME, CACHE_NO_NAME, CACHE_NO_NAME, 0, 1, 2, 3};

/* Below it, the usual is asked of a resolve too. */
enum { RESOLVE_MANNERS = 2 * COUNT(cp_sizes) * COUNT(row_counts) };

/* Most are legal for two ranks and many for four; several share their number of entries, or their total. */
static const struct {
    int64_t count;
    int64_t data[12];
} contents[] = {
    {2, {0, 16}},
    {3, {0, 8, 16}},
    {3, {0, 8, 16}},
    {3, {0, 8, 16}},
    {2, {0, 8}},
    {3, {0, 8, 24}},
    {3, {0, 8, 24}},
    {3, {0, 16, 24}},
    {3, {0, 16, 24}},
    {3, {0, 4, 16}},
    {4, {0, 8, 8, 16}},
    {4, {0, 8, 16, 24}},
    {3, {0, 12, 16}},
    {6, {0, 0, 8, 8, 16, 24}},
    {5, {0, 99, 4, 99, 8}},
    {3, {0, 4, 8}},
    {3, {0, 4, 12}},
    {3, {0, 6, 12}},
    {1, {0}},
    {3, {0, 16, 8}},
    {2, {8, 16}},
    {3, {0, 10, 16}},
    {12, {0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88}},
    {12, {0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 84, 88}},
};

static const struct {
    const char *name;
    uint8_t most[FIELDS]; /* what its fields can be */
} kinds[CACHE_OP_KINDS] = {
    [CACHE_GET] = {"get", {USUAL + LAST(cp_sizes), LAST(cp_ranks), PAIR_FIELDS - 1, LAST(manners)}},
    [CACHE_WRITE] = {"write", {LAST(indices), LAST(written)}},
    [CACHE_RAW_WRITE] = {"raw_write", {LAST(indices), LAST(written)}},
    [CACHE_NEW] = {"new", {LAST(contents), LAST(dtypes), LAST(homes), LAST(names_or_none)}},
    [CACHE_VIEW] = {"view", {CACHE_NAMES_DRAWN - 1, 3, 5, 2 * COUNT(strides) - 1}},
    [CACHE_FREE] = {"free", {0}},
    [CACHE_REBIND] = {"rebind", {LAST(contents)}},
    [CACHE_SET_VERSION] = {"set_version", {LAST(versions)}},
    [CACHE_CLONE] = {"clone", {CACHE_NAMES_DRAWN - 1}},
    [CACHE_INVALIDATE] = {"invalidate", {0}},
    [CACHE_CAP] = {"cap", {LAST(caps)}},
    [CACHE_CAPTURE] = {"capture", {USUAL + LAST(cp_sizes), LAST(cp_ranks), PAIR_FIELDS - 1, LAST(manners)}},
    [CACHE_REPLAY] = {"replay", {0}},
    [CACHE_RELEASE] = {"release", {0}},
    [CACHE_PREBUILD] = {"prebuild", {USUAL + LAST(cp_sizes), LAST(cp_ranks), PAIR_FIELDS - 1, LAST(manners)}},
    [CACHE_RESOLVE] = {"resolve",
                       {LAST(names_or_none), LAST(names_or_none), LAST(names_or_none),
                        2 * RESOLVE_MANNERS - 1}},
    [CACHE_CLEAR] = {"clear", {0}},
    [CACHE_COUNT] = {"count", {0}},
};

const char *cache_op_name(cache_op_kind kind) {
    return kinds[kind].name;
}

bool cache_op_from_name(const char *name, cache_op_kind *kind) {
    for (int i = 0; i < CACHE_OP_KINDS; i++)
        if (!strcmp(kinds[i].name, name)) {
            *kind = (cache_op_kind)i;
            return true;
        }
    return false;
}

static const char *const guard_names[] = {
    [CPR_GUARD_DEFAULT] = "default", [CPR_GUARD_VERSION] = "version", [CPR_GUARD_CONTENT] = "content"};

const char *cache_guard_name(cpr_guard guard) {
    return guard_names[guard];
}

bool cache_guard_from_name(const char *name, cpr_guard *guard) {
    for (size_t i = 0; i < COUNT(guard_names); i++)
        if (!strcmp(guard_names[i], name)) {
            *guard = (cpr_guard)i;
            return true;
        }
    return false;
}

/*------------------------------------------------------------------------------
 * Operations from fields
 *----------------------------------------------------------------------------*/

static int pair_of(uint8_t field) {
    if (field < PAIR_FIELDS / 2)
        return 0;
    return field < PAIR_FIELDS - (PAIRS - 2) ? 1 : field - (PAIR_FIELDS - PAIRS);
}

static void set_question(cache_op *op, const uint8_t f[FIELDS]) {
    if (f[0] < USUAL) {
        const uint8_t usual[FIELDS] = {USUAL};
        set_question(op, usual);
        return;
    }
    static const cpr_layout order[] = {CPR_ZIGZAG, CPR_CONTIGUOUS, CPR_PER_SEQUENCE_CONTIGUOUS,
                                       CPR_FLAT_ZIGZAG, CPR_HEADS_THEN_TAILS};
    const int pair = pair_of(f[2]), from = pair % CPR_LAYOUT_COUNT;
    const int64_t cp_size = cp_sizes[f[0] - USUAL], rank = cp_ranks[f[1]];
    op->geometry =
        (cpr_geometry){.cp_size = cp_size, .cp_rank = f[1] == LAST(cp_ranks) ? rank : rank % cp_size};
    op->source = order[from];
    op->target = order[(1 - from + pair / CPR_LAYOUT_COUNT + CPR_LAYOUT_COUNT) % CPR_LAYOUT_COUNT];
    op->rows = manners[f[3]].rows;
    op->blind = manners[f[3]].blind;
    op->tp_size = manners[f[3]].tp_size;
}

static void set_data(cache_op *op, uint8_t which) {
    op->count = contents[which].count;
    memcpy(op->data, contents[which].data, sizeof contents[which].data);
}

static void set_new(cache_op *op, const uint8_t f[FIELDS]) {
    set_data(op, f[0]);
    op->dtype = dtypes[f[1]];
    op->device = homes[f[2]].device;
    op->device_index = homes[f[2]].index;
    op->inference = homes[f[2]].inference;
    op->other = names_or_none[f[3]];
}

static void set_view(cache_op *op, const uint8_t f[FIELDS]) {
    op->other = f[0];
    op->low = f[1];
    op->high = f[1] + 1 + f[2];
    op->stride = strides[f[3] % COUNT(strides)];
    op->dtype = f[3] / COUNT(strides) ? CPR_FLOAT32 : (cpr_dtype)CACHE_SAME_DTYPE;
}

static void set_resolve(cache_op *op, const uint8_t f[FIELDS]) {
    const uint8_t manner = f[3] < RESOLVE_MANNERS ? 0 : f[3] - RESOLVE_MANNERS;
    op->q_padded = names_or_none[f[0]];
    op->kv = names_or_none[f[1]];
    op->kv_padded = names_or_none[f[2]];
    op->geometry = (cpr_geometry){.cp_size = cp_sizes[manner % COUNT(cp_sizes)], .cp_rank = 0};
    op->rows = row_counts[manner / COUNT(cp_sizes) % COUNT(row_counts)];
    op->source = manner / COUNT(cp_sizes) / COUNT(row_counts) ? CPR_CONTIGUOUS : CPR_ZIGZAG;
}

static bool asks_a_question(cache_op_kind kind) {
    return kind == CACHE_GET || kind == CACHE_CAPTURE || kind == CACHE_PREBUILD;
}

static void op_of_fields(cache_op_kind kind, uint8_t name, const uint8_t f[FIELDS], cache_op *op) {
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->name = name;
    op->other = op->q_padded = op->kv = op->kv_padded = CACHE_NO_NAME;
    switch (kind) {
    case CACHE_GET:
    case CACHE_CAPTURE:
    case CACHE_PREBUILD:
        set_question(op, f);
        break;
    case CACHE_WRITE:
    case CACHE_RAW_WRITE:
        op->index = indices[f[0]];
        op->value = written[f[1]];
        break;
    case CACHE_NEW:
        set_new(op, f);
        break;
    case CACHE_VIEW:
        set_view(op, f);
        break;
    case CACHE_REBIND:
        set_data(op, f[0]);
        break;
    case CACHE_SET_VERSION:
        op->value = versions[f[0]];
        break;
    case CACHE_CLONE:
        op->other = f[0];
        break;
    case CACHE_CAP:
        op->value = caps[f[0]];
        break;
    case CACHE_RESOLVE:
        set_resolve(op, f);
        break;
    default:
        break;
    }
}

/*------------------------------------------------------------------------------
 * Drawing and encoding
 *----------------------------------------------------------------------------*/

enum { MORE_MAX = 23 };

static const uint8_t *names_of(cache_op_kind kind) {
    return kind == CACHE_NEW || kind == CACHE_VIEW || kind == CACHE_CLONE ? made_names : used_names;
}

static cache_op_kind kind_of(uint64_t choice) {
    size_t i = 0;
    while (choice >= drawn_kinds[i].weight)
        choice -= drawn_kinds[i++].weight;
    return drawn_kinds[i].kind;
}

/* A script begins with a tensor: before that there is nothing to do. */
static void draw_op(choices *from, cache_alphabet alphabet, bool first, cache_op *op) {
    uint8_t fields[FIELDS];
    cache_op_kind kind = first ? CACHE_NEW : kind_of(choose(from, KIND_WEIGHTS - 1));
    if (!first && !(alphabet & KIND(kind)))
        kind = CACHE_GET;
    const uint8_t name = first ? 0 : names_of(kind)[choose(from, DRAWN_NAMES - 1)];
    for (int i = 0; i < FIELDS; i++)
        fields[i] = (uint8_t)choose(from, kinds[kind].most[i]);
    op_of_fields(kind, name, fields, op);
}

static void name_drawn(cache_case *c) {
    for (int i = 0; i < CACHE_NAMES_DRAWN; i++) {
        c->names[i][0] = (char)('A' + i);
        c->names[i][1] = '\0';
    }
}

void cache_case_draw(choices *from, cache_alphabet alphabet, cache_case *c) {
    c->guard = guards[choose(from, LAST(guards))];
    c->max_entries = entry_bounds[choose(from, LAST(entry_bounds))];
    c->max_bytes = byte_bounds[choose(from, LAST(byte_bounds))];
    c->op_count = 0;
    name_drawn(c);
    while (c->op_count < CACHE_OPS_DRAWN) {
        choice_record_begin(from);
        const bool more = choose(from, MORE_MAX) != 0;
        if (more)
            draw_op(from, alphabet, c->op_count == 0, &c->ops[c->op_count]);
        choice_record_end(from);
        if (!more)
            break;
        c->op_count++;
    }
}

typedef struct encoder {
    uint8_t *bytes;
    size_t length, capacity;
} encoder;

static bool put(encoder *e, uint64_t choice) {
    if (e->length == e->capacity)
        return false;
    e->bytes[e->length++] = (uint8_t)choice;
    return true;
}

static bool put_value(encoder *e, const int64_t *values, size_t count, int64_t value) {
    for (size_t i = 0; i < count; i++)
        if (values[i] == value)
            return put(e, i);
    return false;
}

static int differences(const cache_op *a, const cache_op *b) {
    const bool same_data =
        a->count == b->count && memcmp(a->data, b->data, (size_t)a->count * sizeof *a->data) == 0;
    return (a->kind != b->kind) + (a->name != b->name) + (a->other != b->other) +
           (a->inference != b->inference) + (a->blind != b->blind) + (a->q_padded != b->q_padded) +
           (a->kv != b->kv) + (a->kv_padded != b->kv_padded) + (a->dtype != b->dtype) +
           (a->device != b->device) + (a->device_index != b->device_index) + !same_data + (a->low != b->low) +
           (a->high != b->high) + (a->stride != b->stride) + (a->index != b->index) + (a->value != b->value) +
           (a->geometry.cp_size != b->geometry.cp_size) + (a->geometry.cp_rank != b->geometry.cp_rank) +
           (a->source != b->source) + (a->target != b->target) + (a->rows != b->rows) +
           (a->tp_size != b->tp_size) + (a->want != b->want) + (a->want_status != b->want_status);
}

static int differences_with(const cache_op *op, const uint8_t fields[FIELDS]) {
    cache_op made;
    op_of_fields(op->kind, op->name, fields, &made);
    made.want = op->want;
    made.want_status = op->want_status;
    return differences(&made, op);
}

/* Fields say different things each, or go on where the one before ended, so the best of each is the best of all. */
static bool find_fields(const cache_op *op, uint8_t fields[FIELDS]) {
    memset(fields, 0, FIELDS);
    if (differences_with(op, fields) == 0)
        return true;
    for (int i = 0; i < FIELDS; i++) {
        uint8_t best = 0;
        int fewest = INT_MAX;
        const int first = i == 0 && asks_a_question(op->kind) ? USUAL : 0;
        for (int value = first; value <= kinds[op->kind].most[i]; value++) {
            fields[i] = (uint8_t)value;
            const int left = differences_with(op, fields);
            if (left < fewest) {
                fewest = left;
                best = (uint8_t)value;
            }
        }
        fields[i] = best;
    }
    return differences_with(op, fields) == 0;
}

static bool put_kind(encoder *e, cache_op_kind kind) {
    uint64_t choice = 0;
    for (size_t i = 0; i < COUNT(drawn_kinds); choice += drawn_kinds[i++].weight)
        if (drawn_kinds[i].kind == kind)
            return put(e, choice);
    return false;
}

static bool put_name(encoder *e, cache_op_kind kind, uint8_t name) {
    for (size_t i = 0; i < DRAWN_NAMES; i++)
        if (names_of(kind)[i] == name)
            return put(e, i);
    return false;
}

static bool put_op(encoder *e, bool first, const cache_op *op) {
    uint8_t fields[FIELDS];
    if (!find_fields(op, fields) || !put(e, 1) ||
        (first ? op->kind != CACHE_NEW || op->name != 0
               : !put_kind(e, op->kind) || !put_name(e, op->kind, op->name)))
        return false;
    for (int i = 0; i < FIELDS; i++)
        if (!put(e, fields[i]))
            return false;
    return true;
}

static bool put_guard(encoder *e, cpr_guard guard) {
    for (size_t i = 0; i < COUNT(guards); i++)
        if (guards[i] == guard)
            return put(e, i);
    return false;
}

bool cache_case_encode(const cache_case *c, uint8_t *bytes, size_t capacity, size_t *length) {
    encoder e = {.bytes = bytes, .capacity = capacity};
    if (c->op_count > CACHE_OPS_DRAWN || !put_guard(&e, c->guard) ||
        !put_value(&e, entry_bounds, COUNT(entry_bounds), c->max_entries) ||
        !put_value(&e, byte_bounds, COUNT(byte_bounds), c->max_bytes))
        return false;
    for (int64_t i = 0; i < c->op_count; i++)
        if (c->ops[i].kind != CACHE_COUNT && !put_op(&e, i == 0, &c->ops[i]))
            return false;
    if (c->op_count < CACHE_OPS_DRAWN && !put(&e, 0))
        return false;
    *length = e.length;
    return true;
}

void cache_case_copy(cache_case *to, const cache_case *from) {
    to->guard = from->guard;
    to->max_entries = from->max_entries;
    to->max_bytes = from->max_bytes;
    to->op_count = from->op_count;
    memcpy(to->ops, from->ops, (size_t)from->op_count * sizeof *from->ops);
    memcpy(to->names, from->names, sizeof to->names);
}

bool cache_case_equal(const cache_case *a, const cache_case *b) {
    if (a->guard != b->guard || a->max_entries != b->max_entries || a->max_bytes != b->max_bytes ||
        a->op_count != b->op_count)
        return false;
    for (int64_t i = 0; i < a->op_count; i++)
        if (differences(&a->ops[i], &b->ops[i]) != 0)
            return false;
    return true;
}
