/* SPDX-License-Identifier: Apache-2.0 */
#include "text_case.h"
#include "mistake.h"
#include "text_cache.h"
#include "text_delta.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What reading one case has at hand. */
typedef struct reader {
    text_case *c;
    mistake_place mistake;
} reader;

/*------------------------------------------------------------------------------
 * Values
 *----------------------------------------------------------------------------*/

static bool numbers(const reader *r, const char *where, json_t *array, offsets *to) {
    size_t i;
    json_t *item;
    offsets_free(to);
    if (!json_is_array(array))
        return mistaken(&r->mistake, "%s: a list of numbers is wanted", where);
    json_array_foreach(array, i, item) {
        if (!json_is_number(item))
            return mistaken(&r->mistake, "%s: entry %zu is not a number", where, i);
        to->fractions = to->fractions || json_is_real(item);
        if (!int64_list_append(&to->list, json_is_integer(item) ? json_integer_value(item) : 0))
            return mistaken(&r->mistake, "out of memory");
    }
    return true;
}

/* "#7": the number 7 of something that numbers stand for. */
static bool number_from_text(const char *text, int *number) {
    int read, end = 0;
    if (sscanf(text, "#%9d%n", &read, &end) != 1 || text[end])
        return false;
    *number = read;
    return true;
}

bool layout_from_text(const char *name, cpr_layout *layout) {
    int number;
    if (cpr_layout_from_name(name, layout))
        return true;
    if (!number_from_text(name, &number))
        return false;
    *layout = (cpr_layout)number;
    return true;
}

static cpr_dtype dtype_from_text(const char *name) {
    int number = CPR_OTHER_DTYPE;
    cpr_dtype dtype;
    if (cpr_dtype_from_name(name, &dtype))
        return dtype;
    number_from_text(name, &number);
    return (cpr_dtype)number;
}

/* A name that no layout has is legal in a case: the engine must refuse it. */
static cpr_layout layout_or_unknown(const char *name) {
    cpr_layout layout;
    return layout_from_text(name, &layout) ? layout : CPR_LAYOUT_COUNT;
}

static cpr_device device_from_text(const char *name) {
    int number = CPR_OTHER_DEVICE;
    if (!strcmp(name, "cpu"))
        return CPR_CPU;
    if (!strncmp(name, "cuda", 4) && (name[4] == '\0' || name[4] == ':'))
        return CPR_CUDA;
    number_from_text(name, &number);
    return (cpr_device)number;
}

static bool expectation(const reader *r, const char *text) {
    static const char prefix[] = "error:";
    if (!strcmp(text, "ok")) {
        r->c->expect = CPR_OK;
        return true;
    }
    if (!strncmp(text, prefix, sizeof prefix - 1) &&
        cpr_status_from_name(text + sizeof prefix - 1, &r->c->expect) && r->c->expect != CPR_OK)
        return true;
    return mistaken(&r->mistake, "expect: '%s' is neither ok nor error:KIND", text);
}

/*------------------------------------------------------------------------------
 * Operations
 *----------------------------------------------------------------------------*/

static bool op_integer(const reader *r, json_t *op, int64_t *to) {
    const char *name;
    json_int_t n;
    if (!take_fields(&r->mistake, "ops", op, "{s:s, s:I}", "op", &name, "n", &n))
        return false;
    *to = n;
    return true;
}

static bool op_flag(const reader *r, json_t *op, bool *to) {
    const char *name;
    return *to = take_fields(&r->mistake, "ops", op, "{s:s}", "op", &name);
}

static bool op_name(const reader *r, json_t *op, const char *field, const char **value) {
    const char *name;
    return take_fields(&r->mistake, "ops", op, "{s:s, s:s}", "op", &name, field, value);
}

static bool op_offsets(const reader *r, json_t *op, offsets *to, bool *given) {
    const char *name;
    json_t *cu;
    *given = true;
    return take_fields(&r->mistake, "ops", op, "{s:s, s:o}", "op", &name, "cu", &cu) &&
           numbers(r, name, cu, to);
}

static bool op_rank_numbers(const reader *r, json_t *op, const char *field, rank_numbers_list *to) {
    const char *name;
    json_int_t rank;
    json_t *array;
    if (!take_fields(&r->mistake, "ops", op, "{s:s, s:I, s:o}", "op", &name, "rank", &rank, field, &array))
        return false;
    if (to->count == TEXT_CASE_MAX_RANK_NUMBERS)
        return mistaken(&r->mistake, "ops: more than %d times %s", TEXT_CASE_MAX_RANK_NUMBERS, name);
    if (rank < 0 || rank >= r->c->cp_size)
        return mistaken(&r->mistake, "ops: %s: there is no rank %" JSON_INTEGER_FORMAT, name, rank);
    for (size_t i = 0; i < to->count; i++)
        if (to->items[i].rank == rank)
            return mistaken(&r->mistake, "ops: %s of rank %" JSON_INTEGER_FORMAT " twice", name, rank);
    rank_numbers *next = &to->items[to->count++];
    *next = (rank_numbers){.rank = rank, .numbers = OFFSETS_NONE};
    return numbers(r, name, array, &next->numbers);
}

static bool op_layouts(const reader *r, json_t *op) {
    const char *name, *from = "zigzag", *to = "contiguous";
    if (!take_fields(&r->mistake, "ops", op, "{s:s, s?s, s?s}", "op", &name, "src", &from, "dst", &to))
        return false;
    r->c->from = layout_or_unknown(from);
    r->c->to = layout_or_unknown(to);
    return true;
}

static bool op_rows(const reader *r, json_t *op) {
    return op_integer(r, op, &r->c->rows) &&
           (r->c->rows != CPR_ROWS_UNCHECKED ||
            mistaken(&r->mistake, "ops: rows: the number stands for no number"));
}

/* The filler is for implementations that move tensors; here nothing reads beyond the last boundary. */
static bool op_slack(const reader *r, json_t *op) {
    const char *name;
    json_t *fill = NULL;
    if (!take_fields(&r->mistake, "ops", op, "{s:s, s?o}", "op", &name, "fill", &fill))
        return false;
    r->c->slack = true;
    return !fill || (!json_is_array(fill) && !json_is_object(fill)) ||
           mistaken(&r->mistake, "ops: slack: fill is one value");
}

static bool op_real(const reader *r, json_t *op) {
    return op_offsets(r, op, &r->c->real, &r->c->real_given) &&
           (!r->c->real.fractions || mistaken(&r->mistake, "ops: real: whole numbers are wanted"));
}

static bool op_tp(const reader *r, json_t *op) {
    return op_integer(r, op, &r->c->tp_size);
}

static bool op_dtype(const reader *r, json_t *op) {
    const char *value;
    if (!op_name(r, op, "v", &value))
        return false;
    r->c->dtype_given = true;
    r->c->dtype = dtype_from_text(value);
    return true;
}

static bool op_device(const reader *r, json_t *op) {
    const char *value;
    if (!op_name(r, op, "v", &value))
        return false;
    r->c->device = device_from_text(value);
    return true;
}

static bool op_kv(const reader *r, json_t *op) {
    return op_offsets(r, op, &r->c->kv, &r->c->kv_given);
}

static bool op_successor(const reader *r, json_t *op) {
    return op_flag(r, op, &r->c->successor);
}

static bool op_row_width(const reader *r, json_t *op) {
    r->c->transport = true;
    return op_integer(r, op, &r->c->row_width) &&
           (r->c->row_width >= 0 || mistaken(&r->mistake, "ops: row_width: it is below 0"));
}

static bool op_count_bits(const reader *r, json_t *op) {
    r->c->transport = true;
    return op_integer(r, op, &r->c->count_bits) &&
           ((r->c->count_bits >= 8 && r->c->count_bits <= 64) ||
            mistaken(&r->mistake, "ops: count_bits: 8 to 64 are wanted"));
}

static bool op_big(const reader *r, json_t *op) {
    return op_flag(r, op, &r->c->big);
}

static bool op_rank_cu(const reader *r, json_t *op) {
    return op_rank_numbers(r, op, "cu", &r->c->rank_cu);
}

static bool op_a2av(const reader *r, json_t *op) {
    return op_flag(r, op, &r->c->a2av);
}

static bool op_splits(const reader *r, json_t *op) {
    if (!op_rank_numbers(r, op, "send", &r->c->splits))
        return false;
    return !r->c->splits.items[r->c->splits.count - 1].numbers.fractions ||
           mistaken(&r->mistake, "ops: splits: whole numbers are wanted");
}

static bool op_shard(const reader *r, json_t *op) {
    const char *layout;
    r->c->shard_given = true;
    if (!op_name(r, op, "layout", &layout))
        return false;
    r->c->shard = layout_or_unknown(layout);
    return true;
}

static bool op_unshard(const reader *r, json_t *op) {
    const char *layout;
    r->c->unshard_given = true;
    if (!op_name(r, op, "layout", &layout))
        return false;
    r->c->unshard = layout_or_unknown(layout);
    return true;
}

static bool op_fused(const reader *r, json_t *op) {
    const char *name;
    json_int_t tp;
    json_t *order = NULL;
    if (!take_fields(&r->mistake, "ops", op, "{s:s, s:I, s?o}", "op", &name, "tp", &tp, "order", &order))
        return false;
    r->c->fused = true;
    r->c->fused_tp = tp;
    r->c->order_given = order != NULL;
    if (tp < 1 || tp > CPR_CP_SIZE_MAX)
        return mistaken(&r->mistake, "ops: fused: tp is out of range");
    return !order ||
           (numbers(r, name, order, &r->c->order) &&
            (!r->c->order.fractions || mistaken(&r->mistake, "ops: fused: whole numbers are wanted")));
}

static bool op_pad(const reader *r, json_t *op) {
    return op_flag(r, op, &r->c->pad);
}

static bool op_tensor(const reader *r, json_t *op, rank_numbers_list *to) {
    if (!op_rank_numbers(r, op, "t", to))
        return false;
    return !to->items[to->count - 1].numbers.fractions ||
           mistaken(&r->mistake, "ops: flat: whole numbers are wanted");
}

static bool op_flat(const reader *r, json_t *op) {
    return op_tensor(r, op, &r->c->flats);
}

static bool op_flat_form(const reader *r, json_t *op) {
    return op_tensor(r, op, &r->c->flat_forms);
}

static bool op_stride(const reader *r, json_t *op) {
    return op_integer(r, op, &r->c->stride) && ((r->c->stride >= -64 && r->c->stride <= 64) ||
                                                mistaken(&r->mistake, "ops: stride: -64 to 64 are wanted"));
}

static bool op_salt(const reader *r, json_t *op) {
    int64_t salt;
    if (!op_integer(r, op, &salt))
        return false;
    r->c->salt = (uint64_t)salt;
    return true;
}

static const struct {
    const char *name;
    bool (*read)(const reader *r, json_t *op);
    bool again; /* may be there more than once */
} ops[TEXT_CASE_OPS] = {
    {"layouts", op_layouts, false},
    {"rows", op_rows, false},
    {"slack", op_slack, false},
    {"real", op_real, false},
    {"tp", op_tp, false},
    {"dtype", op_dtype, false},
    {"device", op_device, false},
    {"kv", op_kv, false},
    {"successor", op_successor, false},
    {"row_width", op_row_width, false},
    {"count_bits", op_count_bits, false},
    {"big", op_big, false},
    {"rank_cu", op_rank_cu, true},
    {"a2av", op_a2av, false},
    {"splits", op_splits, true},
    {"shard", op_shard, false},
    {"unshard", op_unshard, false},
    {"fused", op_fused, false},
    {"pad", op_pad, false},
    {"flat", op_flat, true},
    {"flat_form", op_flat_form, true},
    {"stride", op_stride, false},
    {"salt", op_salt, false},
};

const char *text_case_op_name(size_t number) {
    return ops[number].name;
}

static bool read_cache_op(const reader *r, json_t *op) {
    if (!r->c->cache)
        r->c->cache = text_cache_new();
    return r->c->cache ? text_cache_read(r->c->cache, op, r->mistake.text, r->mistake.size)
                       : mistaken(&r->mistake, "out of memory");
}

/* Operations do not depend on their order, so one that says the same thing twice cannot be told. */
static bool read_op(const reader *r, json_t *op, bool seen[TEXT_CASE_OPS]) {
    const char *name = json_string_value(json_object_get(op, "op"));
    size_t which = 0;
    if (!name)
        return mistaken(&r->mistake, "ops: an operation without a name");
    while (which < TEXT_CASE_OPS && strcmp(name, ops[which].name) != 0)
        which++;
    if (which == TEXT_CASE_OPS && text_cache_knows(name))
        return read_cache_op(r, op);
    if (which == TEXT_CASE_OPS && text_delta_knows(name))
        return text_delta_read(&r->c->delta, op, r->mistake.text, r->mistake.size);
    if (which == TEXT_CASE_OPS)
        return mistaken(&r->mistake, "ops: there is no operation '%s'", name);
    if (seen[which] && !ops[which].again)
        return mistaken(&r->mistake, "ops: %s twice", name);
    seen[which] = true;
    return ops[which].read(r, op);
}

static bool read_ops(const reader *r, json_t *list) {
    size_t i;
    json_t *op;
    bool seen[TEXT_CASE_OPS] = {false};
    if (!json_is_array(list))
        return mistaken(&r->mistake, "ops: a list is wanted");
    json_array_foreach(list, i, op) {
        if (!read_op(r, op, seen))
            return false;
    }
    if (r->c->shard_given != r->c->unshard_given)
        return mistaken(&r->mistake, "ops: shard and unshard go together");
    if (r->c->delta)
        r->c->delta->salt = r->c->salt;
    return !r->c->delta || (r->c->delta->batches > 0 && r->c->delta->shape.heads > 0) ||
           mistaken(&r->mistake, "ops: delta and micro_batch go together");
}

/*------------------------------------------------------------------------------
 * Cases
 *----------------------------------------------------------------------------*/

static bool read_rank(const reader *r, const json_t *rank) {
    r->c->every_rank = !rank || json_is_null(rank);
    r->c->rank = json_integer_value(rank);
    return r->c->every_rank || json_is_integer(rank) ||
           mistaken(&r->mistake, "rank: a whole number or null is wanted");
}

/* An id is printed in lines of its own, so it must be one line that a terminal shows as it is. */
static bool is_name(const char *id) {
    const char *character = id;
    while ((unsigned char)*character >= ' ' && *character != 0x7f)
        character++;
    return character > id && !*character;
}

static bool read_case(const reader *r, json_t *object) {
    text_case *c = r->c;
    const char *expect;
    json_t *cu, *rank = NULL, *list = NULL;
    json_int_t cp_size;
    c->id = json_string_value(json_object_get(object, "id"));
    if (!take_fields(&r->mistake, "fields", object, "{s:s, s?s, s?s, s?s, s?s, s:o, s:I, s?o, s?o, s:s, s?o}",
                     "id", &c->id, "source", &c->source, "tag", &c->tag, "note", &c->note, "law", &c->law,
                     "cu_seqlens", &cu, "cp_size", &cp_size, "rank", &rank, "ops", &list, "expect", &expect,
                     "expected", &c->expected))
        return false;
    c->cp_size = cp_size;
    if (c->expected && !json_is_object(c->expected))
        return mistaken(&r->mistake, "expected: an object is wanted");
    if (!is_name(c->id))
        return mistaken(&r->mistake, "id: a line of text is wanted");
    return numbers(r, "cu_seqlens", cu, &c->cu) && read_rank(r, rank) && expectation(r, expect) &&
           (!list || read_ops(r, list));
}

text_case text_case_plain(void) {
    return (text_case){
        .cu = OFFSETS_NONE,
        .from = CPR_ZIGZAG,
        .to = CPR_CONTIGUOUS,
        .rows = CPR_ROWS_UNCHECKED,
        .real = OFFSETS_NONE,
        .dtype = CPR_INT32,
        .device = CPR_CPU,
        .kv = OFFSETS_NONE,
        .order = OFFSETS_NONE,
        .row_width = 1,
        .count_bits = 64,
        .stride = 1,
    };
}

bool text_case_parse(text_case *c, const char *line, size_t length, char *mistake, size_t size) {
    *c = text_case_plain();
    char why[256];
    json_error_t error;
    c->object = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
    if (!c->object) {
        snprintf(mistake, size, "not JSON: column %d: %s", error.column, error.text);
        return false;
    }
    reader r = {.c = c, .mistake = {why, sizeof why}};
    if (read_case(&r, c->object))
        return true;
    bool named = c->id && is_name(c->id) && strlen(c->id) < size / 2;
    snprintf(mistake, size, "%s: %s", named ? c->id : "a case without an id", why);
    text_case_free(c);
    return false;
}

static void rank_numbers_free(rank_numbers_list *list) {
    for (size_t i = 0; i < list->count; i++)
        offsets_free(&list->items[i].numbers);
}

void text_case_free(text_case *c) {
    offsets_free(&c->cu);
    offsets_free(&c->real);
    offsets_free(&c->kv);
    offsets_free(&c->order);
    rank_numbers_free(&c->rank_cu);
    rank_numbers_free(&c->splits);
    rank_numbers_free(&c->flats);
    rank_numbers_free(&c->flat_forms);
    free(c->cache);
    free(c->delta);
    json_decref(c->object);
}

/*------------------------------------------------------------------------------
 * For laws
 *----------------------------------------------------------------------------*/

bool text_case_error_details(const text_case *c, cpr_error *error) {
    json_t *details = json_object_get(c->expected, "error");
    json_int_t index, got, want;
    if (!details || json_unpack_ex(details, NULL, JSON_STRICT, "{s:I, s:I, s:I}", "index", &index, "got",
                                   &got, "want", &want))
        return false;
    *error = (cpr_error){c->expect, index, got, want};
    return true;
}

int64_t text_case_rows(const text_case *c, const offsets *o) {
    return c->slack && c->rows >= offsets_tokens(o) ? CPR_ROWS_UNCHECKED : c->rows;
}

bool text_case_to_route_case(const text_case *c, int64_t rank, bool legal, route_case *to) {
    if (c->cu.list.count > CASE_MAX_ENTRIES)
        return false;
    for (int64_t i = 0; i < c->cu.list.count; i++)
        to->cu[i] = c->cu.list.items[i];
    to->entries = c->cu.list.count;
    to->stride = c->stride;
    to->dtype = c->cu.fractions ? CPR_FLOAT64 : c->dtype;
    to->device = c->device;
    to->rows = text_case_rows(c, &c->cu);
    to->geometry = (cpr_geometry){.cp_size = c->cp_size, .cp_rank = rank};
    to->source = c->shard_given ? c->shard : c->from;
    to->target = c->unshard_given ? c->unshard : c->to;
    to->tp_size = c->tp_size;
    to->salt = c->salt;
    to->expected = (cpr_error){.status = CPR_OK};
    to->expected_known = true;
    if (!legal) {
        to->expected.status = c->expect;
        to->expected_known = text_case_error_details(c, &to->expected);
    }
    return true;
}
