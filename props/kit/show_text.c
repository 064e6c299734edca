/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"

#include <inttypes.h>
#include <string.h>

static bool is_plain_word(const char *text) {
    return *text &&
           !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%")];
}

void write_shell_word(FILE *out, const char *text) {
    if (is_plain_word(text)) {
        fputs(text, out);
        return;
    }
    fputc('\'', out);
    for (; *text; text++)
        fputs(*text == '\'' ? "'\\''" : (char[]){*text, '\0'}, out);
    fputc('\'', out);
}

void write_json_string(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else if (byte < 0x20)
            fprintf(out, "\\u%04x", byte);
        else
            fputc(byte, out);
    }
    fputc('"', out);
}

static void write_name(FILE *out, const char *name, int number) {
    if (strcmp(name, "unknown") == 0)
        fprintf(out, "\"#%d\"", number);
    else
        write_json_string(out, name);
}

/* FNV-1a, of numbers. */
static uint64_t mix(uint64_t hash, uint64_t number) {
    for (int i = 0; i < 8; i++)
        hash = (hash ^ (number >> (8 * i) & 0xff)) * UINT64_C(0x100000001b3);
    return hash;
}

static uint32_t digest(const route_case *c) {
    const uint64_t numbers[] = {(uint64_t)c->stride,           (uint64_t)c->dtype,
                                (uint64_t)c->device,           (uint64_t)c->rows,
                                (uint64_t)c->source,           (uint64_t)c->target,
                                (uint64_t)c->geometry.cp_size, (uint64_t)c->tp_size,
                                (uint64_t)c->geometry.cp_rank, c->salt};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < c->entries; i++)
        hash = mix(hash, (uint64_t)c->cu[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hash = mix(hash, numbers[i]);
    return (uint32_t)(hash ^ hash >> 32);
}

/* A list in the making: what is written between its items. */
typedef struct op_list {
    FILE *out;
    const char *separator;
} op_list;

static void begin_op(op_list *ops, const char *name) {
    fprintf(ops->out, "%s{\"op\":\"%s\"", ops->separator, name);
    ops->separator = ",";
}

static void write_number_op(op_list *ops, const char *name, int64_t number, int64_t usual) {
    if (number == usual)
        return;
    begin_op(ops, name);
    fprintf(ops->out, ",\"n\":%" PRId64 "}", number);
}

static void write_value_op(op_list *ops, const char *op, const char *value, int number) {
    begin_op(ops, op);
    fputs(",\"v\":", ops->out);
    write_name(ops->out, value, number);
    fputc('}', ops->out);
}

static void write_layouts_op(op_list *ops, const route_case *c) {
    if (c->source == CPR_ZIGZAG && c->target == CPR_CONTIGUOUS)
        return;
    begin_op(ops, "layouts");
    fputs(",\"src\":", ops->out);
    write_name(ops->out, cpr_layout_name(c->source), (int)c->source);
    fputs(",\"dst\":", ops->out);
    write_name(ops->out, cpr_layout_name(c->target), (int)c->target);
    fputc('}', ops->out);
}

static void write_device_op(op_list *ops, cpr_device device) {
    static const char *const names[] = {"cpu", "cuda", "other"};
    const bool known = (int)device >= 0 && (size_t)device < sizeof names / sizeof *names;
    if (device != CPR_CPU)
        write_value_op(ops, "device", known ? names[device] : "unknown", (int)device);
}

static void write_ops(FILE *out, const route_case *c) {
    op_list ops = {.out = out, .separator = ",\"ops\":["};
    write_layouts_op(&ops, c);
    write_number_op(&ops, "rows", c->rows, CPR_ROWS_UNCHECKED);
    if (c->dtype != CPR_INT32)
        write_value_op(&ops, "dtype", cpr_dtype_name(c->dtype), (int)c->dtype);
    write_device_op(&ops, c->device);
    write_number_op(&ops, "tp", c->tp_size, 0);
    write_number_op(&ops, "stride", c->stride, 1);
    write_number_op(&ops, "salt", (int64_t)c->salt, 0);
    if (ops.separator[1] == '\0')
        fputc(']', out);
}

static void write_expected(FILE *out, const route_case *c) {
    const cpr_error *e = &c->expected;
    if (e->status == CPR_OK) {
        fputs(",\"expect\":\"ok\"", out);
        return;
    }
    fprintf(out, ",\"expect\":\"error:%s\"", cpr_status_name(e->status));
    if (c->expected_known)
        fprintf(out,
                ",\"expected\":{\"error\":{\"index\":%" PRId64 ",\"got\":%" PRId64 ",\"want\":%" PRId64 "}}",
                e->index, e->got, e->wanted);
}

void write_case_text(FILE *out, const route_case *c, const char *law, const char *note) {
    fprintf(out, "{\"id\":\"%s-%08" PRIx32 "\",\"law\":\"%s\",\"tag\":\"found\",\"cu_seqlens\":[", law,
            digest(c), law);
    for (int64_t i = 0; i < c->entries; i++)
        fprintf(out, "%s%" PRId64, i ? "," : "", c->cu[i]);
    fprintf(out, "],\"cp_size\":%" PRId64 ",\"rank\":%" PRId64, c->geometry.cp_size, c->geometry.cp_rank);
    write_ops(out, c);
    write_expected(out, c);
    fputs(",\"note\":", out);
    write_json_string(out, note ? note : "");
    fputs("}\n", out);
}
