/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts as people and text cases read them. */
#include "cache_case.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "law.h"
#include "show.h"

/* A line that grows, cut at its end like snprintf does. */
typedef struct line {
    char *text;
    size_t size;
    int length;
} line;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
add(line *l, const char *format, ...) {
    const size_t used = (size_t)l->length < l->size ? (size_t)l->length : l->size;
    va_list details;
    va_start(details, format);
    l->length += vsnprintf(l->size > used ? l->text + used : NULL, l->size - used, format, details);
    va_end(details);
}

static const char *name_of(const cache_case *c, uint8_t name) {
    return name < CACHE_NAMES_MAX ? c->names[name] : "-";
}

static void add_numbers(line *l, const int64_t *numbers, int64_t count) {
    add(l, "[");
    for (int64_t i = 0; i < count; i++)
        add(l, "%s%" PRId64, i ? "," : "", numbers[i]);
    add(l, "]");
}

enum { DEVICE_BYTES = 40 };

static void device_name(const cache_op *op, char name[DEVICE_BYTES]) {
    if (op->device_index < 0)
        snprintf(name, DEVICE_BYTES, "%s",
                 op->device == CPR_CPU    ? "cpu"
                 : op->device == CPR_CUDA ? "cuda"
                                          : "other");
    else
        snprintf(name, DEVICE_BYTES, "%s:%" PRId64, op->device == CPR_CUDA ? "cuda" : "other",
                 op->device_index);
}

static bool has_question(cache_op_kind kind) {
    return kind == CACHE_GET || kind == CACHE_CAPTURE || kind == CACHE_PREBUILD;
}

static bool asks(cache_op_kind kind) {
    return has_question(kind) || kind == CACHE_REPLAY || kind == CACHE_RESOLVE;
}

static const char *want_name(const cache_op *op) {
    static const char *const names[] = {[CACHE_WANT_ANYTHING] = "any",
                                        [CACHE_WANT_HIT] = "hit",
                                        [CACHE_WANT_MISS] = "miss",
                                        [CACHE_WANT_OK] = "ok"};
    return op->want == CACHE_WANT_ERROR ? cpr_status_name(op->want_status) : names[op->want];
}

/*------------------------------------------------------------------------------
 * For people
 *----------------------------------------------------------------------------*/

static void add_rows(line *l, const cache_op *op) {
    if (op->rows != CPR_ROWS_UNCHECKED)
        add(l, "  rows %" PRId64, op->rows);
}

static void add_question(line *l, const cache_op *op) {
    add(l, "  rank %" PRId64 " of %" PRId64 "  %s->%s", op->geometry.cp_rank, op->geometry.cp_size,
        cpr_layout_name(op->source), cpr_layout_name(op->target));
    add_rows(l, op);
    if (op->tp_size != 0)
        add(l, "  tp %" PRId64, op->tp_size);
    if (op->blind)
        add(l, "  contents unreadable");
}

static void add_new(line *l, const cache_case *c, const cache_op *op) {
    char device[DEVICE_BYTES];
    add(l, " ");
    add_numbers(l, op->data, op->count);
    if (op->dtype != CPR_INT32)
        add(l, " %s", cpr_dtype_name(op->dtype));
    device_name(op, device);
    if (op->device != CPR_CPU)
        add(l, " on %s", device);
    if (op->inference)
        add(l, " without version");
    if (op->other != CACHE_NO_NAME)
        add(l, " where %s was", name_of(c, op->other));
}

static void add_resolve(line *l, const cache_case *c, const cache_op *op) {
    add(l, "  padded %s  kv %s  kv padded %s  cp %" PRId64 "  %s", name_of(c, op->q_padded),
        name_of(c, op->kv), name_of(c, op->kv_padded), op->geometry.cp_size, cpr_layout_name(op->source));
    add_rows(l, op);
}

int cache_op_format(const cache_case *c, const cache_op *op, char *text, size_t size) {
    line l = {.text = text, .size = size};
    add(&l, "%s", cache_op_name(op->kind));
    if (op->kind != CACHE_CAP && op->kind != CACHE_COUNT && op->kind != CACHE_CLEAR)
        add(&l, " %s", name_of(c, op->name));
    if (has_question(op->kind))
        add_question(&l, op);
    else if (op->kind == CACHE_NEW)
        add_new(&l, c, op);
    else if (op->kind == CACHE_RESOLVE)
        add_resolve(&l, c, op);
    else if (op->kind == CACHE_WRITE || op->kind == CACHE_RAW_WRITE)
        add(&l, "[%" PRId64 "] = %" PRId64, op->index, op->value);
    else if (op->kind == CACHE_VIEW)
        add(&l, " = %s[%" PRId64 ":%" PRId64 ":%" PRId64 "]%s", name_of(c, op->other), op->low, op->high,
            op->stride, op->dtype == CPR_FLOAT32 ? " read as float32" : "");
    else if (op->kind == CACHE_CLONE)
        add(&l, " = parameters of %s", name_of(c, op->other));
    else if (op->kind == CACHE_SET_VERSION || op->kind == CACHE_CAP || op->kind == CACHE_COUNT)
        add(&l, " %" PRId64, op->value);
    else if (op->kind == CACHE_REBIND) {
        add(&l, " ");
        add_numbers(&l, op->data, op->count);
    }
    if (op->want != CACHE_WANT_ANYTHING && op->want != CACHE_WANT_CASE)
        add(&l, "  (%s)", want_name(op));
    return l.length;
}

/*------------------------------------------------------------------------------
 * As text cases
 *----------------------------------------------------------------------------*/

static void add_string(line *l, const char *key, const char *value) {
    add(l, ",\"%s\":\"%s\"", key, value);
}

static void add_name(line *l, const cache_case *c, const char *key, uint8_t name) {
    if (name != CACHE_NO_NAME)
        add_string(l, key, name_of(c, name));
}

static void add_number(line *l, const char *key, int64_t number) {
    add(l, ",\"%s\":%" PRId64, key, number);
}

static void add_rows_json(line *l, const cache_op *op) {
    if (op->rows != CPR_ROWS_UNCHECKED)
        add_number(l, "rows", op->rows);
}

static void add_question_json(line *l, const cache_op *op) {
    add_number(l, "cp", op->geometry.cp_size);
    add_number(l, "rank", op->geometry.cp_rank);
    if (op->source != CPR_ZIGZAG || op->target != CPR_CONTIGUOUS) {
        add_string(l, "src", cpr_layout_name(op->source));
        add_string(l, "dst", cpr_layout_name(op->target));
    }
    add_rows_json(l, op);
    if (op->tp_size != 0)
        add_number(l, "tp", op->tp_size);
    if (op->blind)
        add(l, ",\"blind\":true");
}

static void add_data_json(line *l, const cache_op *op) {
    add(l, ",\"data\":");
    add_numbers(l, op->data, op->count);
}

static void add_new_json(line *l, const cache_case *c, const cache_op *op) {
    char device[DEVICE_BYTES];
    add_data_json(l, op);
    if (op->dtype != CPR_INT32)
        add_string(l, "dtype", cpr_dtype_name(op->dtype));
    device_name(op, device);
    if (op->device != CPR_CPU)
        add_string(l, "device", device);
    if (op->inference)
        add(l, ",\"inference\":true");
    add_name(l, c, "reuse_addr_of", op->other);
}

static void add_view_json(line *l, const cache_case *c, const cache_op *op) {
    add_name(l, c, "of", op->other);
    add_number(l, "lo", op->low);
    add_number(l, "hi", op->high);
    add_number(l, "stride", op->stride);
    if ((int)op->dtype != CACHE_SAME_DTYPE)
        add_string(l, "dtype", cpr_dtype_name(op->dtype));
}

static void add_resolve_json(line *l, const cache_case *c, const cache_op *op) {
    add_name(l, c, "padded", op->q_padded);
    add_name(l, c, "kv", op->kv);
    add_name(l, c, "kv_padded", op->kv_padded);
    add_number(l, "cp", op->geometry.cp_size);
    add_string(l, "layout", cpr_layout_name(op->source));
    add_rows_json(l, op);
}

static void add_fields_json(line *l, const cache_case *c, const cache_op *op) {
    switch (op->kind) {
    case CACHE_GET:
    case CACHE_CAPTURE:
    case CACHE_PREBUILD:
        add_question_json(l, op);
        break;
    case CACHE_NEW:
        add_new_json(l, c, op);
        break;
    case CACHE_REBIND:
        add_data_json(l, op);
        break;
    case CACHE_VIEW:
        add_view_json(l, c, op);
        break;
    case CACHE_CLONE:
        add_name(l, c, "of", op->other);
        break;
    case CACHE_RESOLVE:
        add_resolve_json(l, c, op);
        break;
    case CACHE_WRITE:
    case CACHE_RAW_WRITE:
        add_number(l, "i", op->index);
        add_number(l, "v", op->value);
        break;
    case CACHE_SET_VERSION:
        add_number(l, "v", op->value);
        break;
    default:
        break;
    }
}

int cache_op_format_json(const cache_case *c, const cache_op *op, char *text, size_t size) {
    line l = {.text = text, .size = size};
    add(&l, "{\"op\":\"%s\"", cache_op_name(op->kind));
    if (op->kind == CACHE_CAP)
        add_number(&l, "n", op->value);
    else if (op->kind == CACHE_COUNT)
        add_number(&l, "max", op->value);
    else if (op->kind != CACHE_CLEAR)
        add_name(&l, c, "t", op->name);
    add_fields_json(&l, c, op);
    if (asks(op->kind) && op->want != CACHE_WANT_CASE)
        add(&l, ",\"want\":\"%s%s\"", op->want == CACHE_WANT_ERROR ? "error:" : "", want_name(op));
    add(&l, "}");
    return l.length;
}

/*------------------------------------------------------------------------------
 * The family
 *----------------------------------------------------------------------------*/

enum { LINE_BYTES = 2048 };

static void draw(choices *from, void *subject) {
    cache_case_draw(from, CACHE_ALPHABET_DRAWN, subject);
}

static void show(FILE *out, const void *subject, bool colour) {
    const cache_case *c = subject;
    (void)colour;
    fprintf(out, "guard %s, at most %" PRId64 " entries", cache_guard_name(c->guard), c->max_entries);
    if (c->max_bytes)
        fprintf(out, " and %" PRId64 " bytes", c->max_bytes);
    fprintf(out, "\n");
    for (int64_t i = 0; i < c->op_count; i++) {
        char text[LINE_BYTES];
        cache_op_format(c, &c->ops[i], text, sizeof text);
        fprintf(out, "%3" PRId64 "  %s\n", i + 1, text);
    }
}

/* FNV-1a of the operations: names the case. */
static uint32_t digest(const cache_case *c) {
    uint32_t hash = 2166136261U;
    for (int64_t i = 0; i < c->op_count; i++) {
        char text[LINE_BYTES];
        cache_op_format_json(c, &c->ops[i], text, sizeof text);
        for (const char *at = text; *at; at++)
            hash = (hash ^ (uint8_t)*at) * 16777619U;
    }
    return hash;
}

static void write_text(FILE *out, const void *subject, const char *law_id, const char *note) {
    const cache_case *c = subject;
    fprintf(out,
            "{\"id\":\"%s-%08" PRIx32 "\",\"law\":\"%s\",\"tag\":\"found\",\"cu_seqlens\":[0],\"cp_size\":2,"
            "\"rank\":null,\"ops\":[{\"op\":\"guard\",\"v\":\"%s\"},{\"op\":\"cap\",\"n\":%" PRId64,
            law_id, digest(c), law_id, cache_guard_name(c->guard), c->max_entries);
    if (c->max_bytes)
        fprintf(out, ",\"bytes\":%" PRId64, c->max_bytes);
    fprintf(out, "}");
    for (int64_t i = 0; i < c->op_count; i++) {
        char text[LINE_BYTES];
        cache_op_format_json(c, &c->ops[i], text, sizeof text);
        fprintf(out, ",%s", text);
    }
    fprintf(out, "],\"expect\":\"ok\",\"note\":");
    write_json_string(out, note ? note : "");
    fputs("}\n", out);
}

const family cache_family = {
    .name = "cache", .size = sizeof(cache_case), .draw = draw, .show = show, .write_text = write_text};
