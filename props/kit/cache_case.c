/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KIND(kind) (UINT32_C(1) << (kind))

const cache_alphabet CACHE_ALPHABET_DRAWN = ~KIND(CACHE_COUNT);

/* As often as they are listed, the simplest first. */
static const cache_op_kind drawn_kinds[] = {
    CACHE_GET,        CACHE_GET,     CACHE_GET,     CACHE_GET,   CACHE_GET,       CACHE_GET,     CACHE_GET,
    CACHE_GET,        CACHE_WRITE,   CACHE_WRITE,   CACHE_WRITE, CACHE_RAW_WRITE, CACHE_NEW,     CACHE_NEW,
    CACHE_NEW,        CACHE_NEW,     CACHE_VIEW,    CACHE_VIEW,  CACHE_FREE,      CACHE_FREE,    CACHE_REBIND,
    CACHE_INVALIDATE, CACHE_CLONE,   CACHE_CAP,     CACHE_CLEAR, CACHE_PREBUILD,  CACHE_CAPTURE, CACHE_REPLAY,
    CACHE_RELEASE,    CACHE_RESOLVE, CACHE_RESOLVE, CACHE_SET_VERSION,
};
enum { DRAWN_KINDS = sizeof drawn_kinds / sizeof *drawn_kinds };

enum { FIELDS = 4 };

static const struct {
    const char *name;
    uint8_t most[FIELDS]; /* what its fields can be */
} kinds[CACHE_OP_KINDS] = {
    [CACHE_GET] = {"get", {3, 3, 24, 7}},
    [CACHE_WRITE] = {"write", {3, 7}},
    [CACHE_RAW_WRITE] = {"raw_write", {3, 7}},
    [CACHE_NEW] = {"new", {14, 2, 5, 4}},
    [CACHE_VIEW] = {"view", {3, 3, 5, 7}},
    [CACHE_FREE] = {"free", {0}},
    [CACHE_REBIND] = {"rebind", {14}},
    [CACHE_SET_VERSION] = {"set_version", {3}},
    [CACHE_CLONE] = {"clone", {3}},
    [CACHE_INVALIDATE] = {"invalidate", {0}},
    [CACHE_CAP] = {"cap", {3}},
    [CACHE_CAPTURE] = {"capture", {3, 3, 24, 7}},
    [CACHE_REPLAY] = {"replay", {0}},
    [CACHE_RELEASE] = {"release", {0}},
    [CACHE_PREBUILD] = {"prebuild", {3, 3, 24, 7}},
    [CACHE_RESOLVE] = {"resolve", {4, 4, 4, 15}},
    [CACHE_CLEAR] = {"clear", {0}},
    [CACHE_COUNT] = {"count", {0}},
};

static const cpr_guard guards[] = {CPR_GUARD_DEFAULT, CPR_GUARD_VERSION, CPR_GUARD_CONTENT};
static const int64_t entry_bounds[] = {16, 1, 2, 3, 8};
static const int64_t byte_bounds[] = {0, 2000, 4000, 16000};

static const int64_t cp_sizes[] = {2, 4, 1, 3};
static const int64_t row_counts[] = {CPR_ROWS_UNCHECKED, 16, 8, 24};
static const int64_t written[] = {8, 4, 16, 24, 0, 12, 6, 99};
static const int64_t strides[] = {1, 2, 3, 0};
static const int64_t caps[] = {8, 1, 2, 4};
static const cpr_dtype dtypes[] = {CPR_INT32, CPR_INT64, CPR_FLOAT32};
static const struct {
    cpr_device device;
    int64_t index;
} devices[] = {{CPR_CPU, -1}, {CPR_CUDA, 0}, {CPR_CUDA, 1}};

/* Most are legal for two ranks and many for four; several share their number of entries, or their total. */
static const struct {
    int64_t count;
    int64_t data[6];
} contents[] = {
    {2, {0, 16}},
    {3, {0, 8, 16}},
    {2, {0, 8}},
    {3, {0, 8, 24}},
    {3, {0, 16, 24}},
    {3, {0, 4, 16}},
    {4, {0, 8, 8, 16}},
    {5, {0, 99, 8, 99, 16}},
    {6, {0, 0, 8, 8, 16, 24}},
    {3, {0, 6, 12}},
    {1, {0}},
    {3, {0, 16, 8}},
    {2, {8, 16}},
    {3, {0, 10, 16}},
    {4, {0, 8, 16, 24}},
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

/*------------------------------------------------------------------------------
 * Operations from fields
 *----------------------------------------------------------------------------*/

static void set_question(cache_op *op, const uint8_t f[FIELDS]) {
    /* Zigzag to contiguous first, then its mirror: the pairs of real life. */
    static const cpr_layout order[] = {CPR_ZIGZAG, CPR_CONTIGUOUS, CPR_PER_SEQUENCE_CONTIGUOUS, CPR_FLAT_ZIGZAG,
                                       CPR_HEADS_THEN_TAILS};
    const int from = f[2] % CPR_LAYOUT_COUNT;
    const int to = (1 - from + f[2] / CPR_LAYOUT_COUNT + CPR_LAYOUT_COUNT) % CPR_LAYOUT_COUNT;
    op->geometry = (cpr_geometry){.cp_size = cp_sizes[f[0]], .cp_rank = f[1]};
    op->source = order[from];
    op->target = order[to];
    op->rows = row_counts[f[3] % 4];
    op->blind = f[3] / 4 != 0;
}

static void set_data(cache_op *op, uint8_t which) {
    op->count = contents[which].count;
    memcpy(op->data, contents[which].data, sizeof contents[which].data);
}

static uint8_t name_or_none(uint8_t field) {
    return field == 0 ? CACHE_NO_NAME : (uint8_t)(field - 1);
}

static void set_new(cache_op *op, const uint8_t f[FIELDS]) {
    set_data(op, f[0]);
    op->dtype = dtypes[f[1]];
    op->device = devices[f[2] % 3].device;
    op->device_index = devices[f[2] % 3].index;
    op->inference = f[2] / 3 != 0;
    op->other = name_or_none(f[3]);
}

static void set_view(cache_op *op, const uint8_t f[FIELDS]) {
    op->other = f[0];
    op->low = f[1];
    op->high = f[1] + 1 + f[2];
    op->stride = strides[f[3] % 4];
    op->dtype = f[3] / 4 ? CPR_FLOAT32 : (cpr_dtype)CACHE_SAME_DTYPE;
}

static void set_resolve(cache_op *op, const uint8_t f[FIELDS]) {
    op->q_padded = name_or_none(f[0]);
    op->kv = name_or_none(f[1]);
    op->kv_padded = name_or_none(f[2]);
    op->geometry = (cpr_geometry){.cp_size = cp_sizes[f[3] % 4], .cp_rank = 0};
    op->source = f[3] / 4 % 2 ? CPR_CONTIGUOUS : CPR_ZIGZAG;
    op->rows = row_counts[f[3] / 8];
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
        op->index = f[0];
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
        op->value = f[0];
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

enum { MORE_MAX = 15, NAME_MAX = CACHE_NAMES_DRAWN - 1 };

static void draw_op(choices *from, cache_alphabet alphabet, cache_op *op) {
    uint8_t fields[FIELDS];
    cache_op_kind kind = drawn_kinds[choose(from, DRAWN_KINDS - 1)];
    if (!(alphabet & KIND(kind)))
        kind = CACHE_GET;
    const uint8_t name = (uint8_t)choose(from, NAME_MAX);
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
    c->guard = guards[choose(from, sizeof guards / sizeof *guards - 1)];
    c->max_entries = entry_bounds[choose(from, sizeof entry_bounds / sizeof *entry_bounds - 1)];
    c->max_bytes = byte_bounds[choose(from, sizeof byte_bounds / sizeof *byte_bounds - 1)];
    c->op_count = 0;
    name_drawn(c);
    while (c->op_count < CACHE_OPS_DRAWN) {
        choice_record_begin(from);
        const bool more = choose(from, MORE_MAX) != 0;
        if (more)
            draw_op(from, alphabet, &c->ops[c->op_count++]);
        choice_record_end(from);
        if (!more)
            break;
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

static bool next_fields(const uint8_t most[FIELDS], uint8_t fields[FIELDS]) {
    for (int i = FIELDS - 1; i >= 0; i--) {
        if (fields[i] < most[i]) {
            fields[i]++;
            return true;
        }
        fields[i] = 0;
    }
    return false;
}

static bool ops_equal(const cache_op *a, const cache_op *b) {
    return a->kind == b->kind && a->name == b->name && a->other == b->other && a->inference == b->inference &&
           a->blind == b->blind && a->q_padded == b->q_padded && a->kv == b->kv && a->kv_padded == b->kv_padded &&
           a->dtype == b->dtype && a->device == b->device && a->device_index == b->device_index &&
           a->count == b->count && memcmp(a->data, b->data, (size_t)a->count * sizeof *a->data) == 0 &&
           a->low == b->low && a->high == b->high && a->stride == b->stride && a->index == b->index &&
           a->value == b->value && a->geometry.cp_size == b->geometry.cp_size &&
           a->geometry.cp_rank == b->geometry.cp_rank && a->source == b->source && a->target == b->target &&
           a->rows == b->rows && a->tp_size == b->tp_size && a->want == b->want && a->want_status == b->want_status;
}

static bool find_fields(const cache_op *op, uint8_t fields[FIELDS]) {
    memset(fields, 0, FIELDS);
    do {
        cache_op made;
        op_of_fields(op->kind, op->name, fields, &made);
        if (ops_equal(&made, op))
            return true;
    } while (next_fields(kinds[op->kind].most, fields));
    return false;
}

static bool put_kind(encoder *e, cache_op_kind kind) {
    for (size_t i = 0; i < DRAWN_KINDS; i++)
        if (drawn_kinds[i] == kind)
            return put(e, i);
    return false;
}

static bool put_op(encoder *e, const cache_op *op) {
    uint8_t fields[FIELDS];
    if (op->name > NAME_MAX || !find_fields(op, fields) || !put(e, 1) || !put_kind(e, op->kind) || !put(e, op->name))
        return false;
    for (int i = 0; i < FIELDS; i++)
        if (!put(e, fields[i]))
            return false;
    return true;
}

static bool put_guard(encoder *e, cpr_guard guard) {
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++)
        if (guards[i] == guard)
            return put(e, i);
    return false;
}

bool cache_case_encode(const cache_case *c, uint8_t *bytes, size_t capacity, size_t *length) {
    encoder e = {.bytes = bytes, .capacity = capacity};
    if (c->op_count > CACHE_OPS_DRAWN || !put_guard(&e, c->guard) ||
        !put_value(&e, entry_bounds, sizeof entry_bounds / sizeof *entry_bounds, c->max_entries) ||
        !put_value(&e, byte_bounds, sizeof byte_bounds / sizeof *byte_bounds, c->max_bytes))
        return false;
    for (int64_t i = 0; i < c->op_count; i++)
        if (!put_op(&e, &c->ops[i]))
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
        if (!ops_equal(&a->ops[i], &b->ops[i]))
            return false;
    return true;
}
