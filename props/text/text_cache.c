/* SPDX-License-Identifier: Apache-2.0 */
#include "text_cache.h"
#include "mistake.h"
#include "text_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Unless the case caps it; as drawn scripts do, so that it can become one. */
enum { USUAL_ENTRIES = 16 };

typedef struct reader {
    cache_case *c;
    cache_op *op;
    char where[32]; /* in the text */
    mistake_place mistake;
} reader;

cache_case *text_cache_new(void) {
    cache_case *c = calloc(1, sizeof *c);
    if (c) {
        c->guard = CPR_GUARD_VERSION;
        c->max_entries = USUAL_ENTRIES;
    }
    return c;
}

/*------------------------------------------------------------------------------
 * Names
 *----------------------------------------------------------------------------*/

static int name_index(const cache_case *c, const char *name) {
    for (int i = 0; i < CACHE_NAMES_MAX && c->names[i][0]; i++)
        if (!strcmp(c->names[i], name))
            return i;
    return -1;
}

static bool any_name(const reader *r, const char *name, uint8_t *to) {
    int i = name_index(r->c, name);
    if (i < 0)
        for (i = 0; i < CACHE_NAMES_MAX && r->c->names[i][0]; i++)
            continue;
    if (i == CACHE_NAMES_MAX || !name[0] || strlen(name) >= CACHE_NAME_BYTES)
        return mistaken(&r->mistake, "ops: '%s' is too long a name, or one too many", name);
    snprintf(r->c->names[i], CACHE_NAME_BYTES, "%s", name);
    *to = (uint8_t)i;
    return true;
}

/* NULL stands for none. */
static bool name_or_none(const reader *r, const char *name, uint8_t *to) {
    *to = CACHE_NO_NAME;
    return !name || any_name(r, name, to);
}

/*------------------------------------------------------------------------------
 * Values
 *----------------------------------------------------------------------------*/

static bool is_narrow(int64_t value) {
    return value >= INT32_MIN && value <= INT32_MAX;
}

static bool fits(const reader *r, cpr_dtype dtype, int64_t value) {
    return dtype == CPR_INT64 || is_narrow(value) ||
           mistaken(&r->mistake, "ops: %" PRId64 " does not fit 32 bits", value);
}

/* Of the tensor that a name has before operation `before`. */
static cpr_dtype dtype_of(const cache_case *c, int64_t before, uint8_t name) {
    while (before-- > 0) {
        const cache_op *op = &c->ops[before];
        const bool follows =
            op->kind == CACHE_CLONE || (op->kind == CACHE_VIEW && (int)op->dtype == CACHE_SAME_DTYPE);
        if (op->name != name)
            continue;
        if (follows)
            name = op->other;
        else if (op->kind == CACHE_NEW || op->kind == CACHE_VIEW)
            return op->dtype;
    }
    return CPR_INT32;
}

static bool data_fits(const reader *r, cpr_dtype dtype) {
    for (int64_t i = 0; i < r->op->count; i++)
        if (!fits(r, dtype, r->op->data[i]))
            return false;
    return true;
}

static cpr_dtype smallest_dtype(const cache_op *op) {
    for (int64_t i = 0; i < op->count; i++)
        if (!is_narrow(op->data[i]))
            return CPR_INT64;
    return CPR_INT32;
}

static bool read_data(const reader *r, json_t *array) {
    size_t i;
    json_t *item;
    if (!json_is_array(array) || json_array_size(array) > CACHE_ENTRIES_MAX)
        return mistaken(&r->mistake, "ops: data: a list of at most %d numbers is wanted", CACHE_ENTRIES_MAX);
    json_array_foreach(array, i, item) {
        if (!json_is_integer(item))
            return mistaken(&r->mistake, "ops: data: entry %zu is not a whole number", i);
        r->op->data[i] = json_integer_value(item);
    }
    r->op->count = (int64_t)json_array_size(array);
    return true;
}

static bool read_dtype(const reader *r, const char *name, cpr_dtype absent) {
    r->op->dtype = absent;
    if (name && !cpr_dtype_from_name(name, &r->op->dtype))
        return mistaken(&r->mistake, "ops: there is no dtype '%s'", name);
    return true;
}

static bool read_device(const reader *r, const char *name) {
    int64_t index = -1;
    const char *colon = strchr(name, ':');
    const size_t length = colon ? (size_t)(colon - name) : strlen(name);
    if (colon && sscanf(colon, ":%5" SCNd64, &index) != 1)
        return mistaken(&r->mistake, "ops: device '%s' has no number", name);
    r->op->device = !strncmp(name, "cpu", length)    ? CPR_CPU
                    : !strncmp(name, "cuda", length) ? CPR_CUDA
                                                     : CPR_OTHER_DEVICE;
    r->op->device_index = index;
    return true;
}

/* A name that no layout has is legal: the cache must refuse it. */
static cpr_layout layout_or_unknown(const char *name) {
    cpr_layout layout;
    return layout_from_text(name, &layout) ? layout : CPR_LAYOUT_COUNT;
}

static bool read_want(const reader *r, const char *want) {
    static const char prefix[] = "error:";
    static const struct {
        const char *name;
        cache_want want;
    } wants[] = {{"hit", CACHE_WANT_HIT},
                 {"miss", CACHE_WANT_MISS},
                 {"ok", CACHE_WANT_OK},
                 {"any", CACHE_WANT_ANYTHING}};
    r->op->want = CACHE_WANT_CASE;
    if (!want)
        return true;
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++)
        if (!strcmp(want, wants[i].name)) {
            r->op->want = wants[i].want;
            return true;
        }
    r->op->want = CACHE_WANT_ERROR;
    return (!strncmp(want, prefix, sizeof prefix - 1) &&
            cpr_status_from_name(want + sizeof prefix - 1, &r->op->want_status)) ||
           mistaken(&r->mistake, "ops: want: '%s' is none of hit, miss, ok, any and error:KIND", want);
}

/*------------------------------------------------------------------------------
 * Operations
 *----------------------------------------------------------------------------*/

static bool read_named(const reader *r, json_t *op) {
    const char *kind, *t;
    return take_fields(&r->mistake, r->where, op, "{s:s, s:s}", "op", &kind, "t", &t) &&
           any_name(r, t, &r->op->name);
}

static bool read_clear(const reader *r, json_t *op) {
    const char *kind;
    return take_fields(&r->mistake, r->where, op, "{s:s}", "op", &kind);
}

static bool read_new(const reader *r, json_t *op) {
    const char *kind, *t, *dtype = NULL, *device = "cpu", *reused = NULL;
    int inference = 0;
    json_t *data;
    if (!take_fields(&r->mistake, r->where, op, "{s:s, s:s, s:o, s?s, s?s, s?b, s?s}", "op", &kind, "t", &t,
                     "data", &data, "dtype", &dtype, "device", &device, "inference", &inference,
                     "reuse_addr_of", &reused))
        return false;
    r->op->inference = inference;
    return any_name(r, t, &r->op->name) && name_or_none(r, reused, &r->op->other) && read_data(r, data) &&
           read_dtype(r, dtype, smallest_dtype(r->op)) && data_fits(r, r->op->dtype) &&
           read_device(r, device);
}

static bool read_view(const reader *r, json_t *op) {
    const char *kind, *t, *of, *dtype = NULL;
    json_int_t low, high, stride = 1;
    if (!take_fields(&r->mistake, r->where, op, "{s:s, s:s, s:s, s:I, s:I, s?I, s?s}", "op", &kind, "t", &t,
                     "of", &of, "lo", &low, "hi", &high, "stride", &stride, "dtype", &dtype))
        return false;
    if (low < 0 || high < low || high > CACHE_ENTRIES_MAX || stride < 0 || stride > CACHE_ENTRIES_MAX)
        return mistaken(&r->mistake, "ops: view: 0 <= lo <= hi <= %d and a stride from 0 on are wanted",
                        CACHE_ENTRIES_MAX);
    r->op->low = low;
    r->op->high = high;
    r->op->stride = stride;
    return any_name(r, of, &r->op->other) && any_name(r, t, &r->op->name) &&
           read_dtype(r, dtype, (cpr_dtype)CACHE_SAME_DTYPE);
}

static bool read_clone(const reader *r, json_t *op) {
    const char *kind, *t, *of;
    return take_fields(&r->mistake, r->where, op, "{s:s, s:s, s:s}", "op", &kind, "t", &t, "of", &of) &&
           any_name(r, of, &r->op->other) && any_name(r, t, &r->op->name);
}

static bool read_write(const reader *r, json_t *op) {
    const char *kind, *t;
    json_int_t index, value;
    if (!take_fields(&r->mistake, r->where, op, "{s:s, s:s, s:I, s:I}", "op", &kind, "t", &t, "i", &index,
                     "v", &value))
        return false;
    r->op->index = index;
    r->op->value = value;
    return any_name(r, t, &r->op->name) && fits(r, dtype_of(r->c, r->c->op_count, r->op->name), value) &&
           ((index >= 0 && index < CACHE_ENTRIES_MAX) ||
            mistaken(&r->mistake, "ops: there is no entry %" PRId64, (int64_t)index));
}

static bool read_set_version(const reader *r, json_t *op) {
    const char *kind, *t;
    json_int_t value;
    if (!take_fields(&r->mistake, r->where, op, "{s:s, s:s, s:I}", "op", &kind, "t", &t, "v", &value))
        return false;
    r->op->value = value;
    return any_name(r, t, &r->op->name);
}

static bool read_rebind(const reader *r, json_t *op) {
    const char *kind, *t;
    json_t *data;
    return take_fields(&r->mistake, r->where, op, "{s:s, s:s, s:o}", "op", &kind, "t", &t, "data", &data) &&
           any_name(r, t, &r->op->name) && read_data(r, data) &&
           data_fits(r, dtype_of(r->c, r->c->op_count, r->op->name));
}

static bool read_cap(const reader *r, json_t *op) {
    const char *kind;
    json_int_t entries, bytes = r->c->max_bytes;
    if (!take_fields(&r->mistake, r->where, op, "{s:s, s:I, s?I}", "op", &kind, "n", &entries, "bytes",
                     &bytes))
        return false;
    if (bytes != r->c->max_bytes && r->c->op_count > 0)
        return mistaken(&r->mistake, "ops: cap: bytes are set before all else");
    r->c->max_bytes = bytes;
    r->op->value = entries;
    return (entries > 0 && entries <= TEXT_CACHE_ENTRIES_MAX && bytes >= 0) ||
           mistaken(&r->mistake, "ops: cap: 1 to %d entries are wanted", TEXT_CACHE_ENTRIES_MAX);
}

/* Before all else it is no step of the script but what the cache is made with. */
static bool read_first_cap(const reader *r, json_t *op) {
    r->op->kind = CACHE_CAP;
    if (!read_cap(r, op))
        return false;
    r->c->max_entries = r->op->value;
    return true;
}

static bool read_count(const reader *r, json_t *op) {
    const char *kind;
    json_int_t most;
    if (!take_fields(&r->mistake, r->where, op, "{s:s, s:I}", "op", &kind, "max", &most))
        return false;
    r->op->value = most;
    return true;
}

static bool read_lookup(const reader *r, json_t *op) {
    const char *kind, *t, *from = "zigzag", *to = "contiguous", *want = NULL;
    json_int_t cp_size, cp_rank, rows = CPR_ROWS_UNCHECKED, tp_size = 0;
    int blind = 0;
    if (!take_fields(&r->mistake, r->where, op, "{s:s, s:s, s:I, s:I, s?s, s?s, s?I, s?I, s?b, s?s}", "op",
                     &kind, "t", &t, "cp", &cp_size, "rank", &cp_rank, "src", &from, "dst", &to, "rows",
                     &rows, "tp", &tp_size, "blind", &blind, "want", &want))
        return false;
    r->op->geometry = (cpr_geometry){.cp_size = cp_size, .cp_rank = cp_rank};
    r->op->source = layout_or_unknown(from);
    r->op->target = layout_or_unknown(to);
    r->op->rows = rows;
    r->op->tp_size = tp_size;
    r->op->blind = blind;
    return any_name(r, t, &r->op->name) && read_want(r, want);
}

static bool read_replay(const reader *r, json_t *op) {
    const char *kind, *t = NULL, *want = NULL;
    return take_fields(&r->mistake, r->where, op, "{s:s, s?s, s?s}", "op", &kind, "t", &t, "want", &want) &&
           name_or_none(r, t, &r->op->name) && read_want(r, want);
}

static bool read_resolve(const reader *r, json_t *op) {
    const char *kind, *t, *padded = NULL, *kv = NULL, *kv_padded = NULL, *layout = "zigzag", *want = NULL;
    json_int_t cp_size, rows = CPR_ROWS_UNCHECKED;
    if (!take_fields(&r->mistake, r->where, op, "{s:s, s:s, s?s, s?s, s?s, s:I, s?s, s?I, s?s}", "op", &kind,
                     "t", &t, "padded", &padded, "kv", &kv, "kv_padded", &kv_padded, "cp", &cp_size, "layout",
                     &layout, "rows", &rows, "want", &want))
        return false;
    r->op->geometry = (cpr_geometry){.cp_size = cp_size, .cp_rank = 0};
    r->op->source = layout_or_unknown(layout);
    r->op->rows = rows;
    return any_name(r, t, &r->op->name) && name_or_none(r, padded, &r->op->q_padded) &&
           name_or_none(r, kv, &r->op->kv) && name_or_none(r, kv_padded, &r->op->kv_padded) &&
           read_want(r, want);
}

static bool (*const readers[CACHE_OP_KINDS])(const reader *r, json_t *op) = {
    [CACHE_GET] = read_lookup,       [CACHE_WRITE] = read_write,   [CACHE_RAW_WRITE] = read_write,
    [CACHE_NEW] = read_new,          [CACHE_VIEW] = read_view,     [CACHE_FREE] = read_named,
    [CACHE_REBIND] = read_rebind,    [CACHE_CLONE] = read_clone,   [CACHE_SET_VERSION] = read_set_version,
    [CACHE_INVALIDATE] = read_named, [CACHE_CAP] = read_cap,       [CACHE_CAPTURE] = read_lookup,
    [CACHE_REPLAY] = read_replay,    [CACHE_RELEASE] = read_named, [CACHE_PREBUILD] = read_lookup,
    [CACHE_RESOLVE] = read_resolve,  [CACHE_CLEAR] = read_clear,   [CACHE_COUNT] = read_count,
};

static bool read_guard(const reader *r, json_t *op) {
    const char *kind, *name;
    if (!take_fields(&r->mistake, r->where, op, "{s:s, s:s}", "op", &kind, "v", &name))
        return false;
    return cache_guard_from_name(name, &r->c->guard) ||
           mistaken(&r->mistake, "ops: there is no guard '%s'", name);
}

bool text_cache_knows(const char *name) {
    cache_op_kind kind;
    return !strcmp(name, "guard") || cache_op_from_name(name, &kind);
}

bool text_cache_read(cache_case *c, json_t *object, char *mistake, size_t size) {
    const char *name = json_string_value(json_object_get(object, "op"));
    reader r = {.c = c, .op = &c->ops[c->op_count], .mistake = {mistake, size}};
    if (c->op_count == CACHE_OPS_MAX)
        return mistaken(&r.mistake, "ops: more than %d", CACHE_OPS_MAX);
    snprintf(r.where, sizeof r.where, "ops: %s", name);
    *r.op = (cache_op){.name = 0};
    r.op->other = r.op->q_padded = r.op->kv = r.op->kv_padded = CACHE_NO_NAME;
    if (!strcmp(name, "guard"))
        return read_guard(&r, object);
    if (!strcmp(name, "cap") && c->op_count == 0)
        return read_first_cap(&r, object);
    if (!cache_op_from_name(name, &r.op->kind))
        return mistaken(&r.mistake, "ops: there is no operation '%s'", name);
    if (!readers[r.op->kind](&r, object))
        return false;
    c->op_count++;
    return true;
}
