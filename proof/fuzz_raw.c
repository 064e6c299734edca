/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A baseline: what a fuzz harness looks like that takes its input as it comes. Bytes are the arguments: a field is what its bytes
 * read as, boundaries are 32-bit numbers in a row, and nothing makes them legal or wrong in a way that means something. The laws
 * that judge are the same, so what differs from the suite is the structure alone.
 */
#include "all_laws.h"
#include "board.h"
#include "kit/case_plan.h"

#include <stdio.h>
#include <string.h>

enum { RAW_ENTRIES = 16, RAW_OP_ENTRIES = 4 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

typedef struct raw {
    const uint8_t *bytes;
    size_t length;
} raw;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    all_laws_open();
    board_open();
    return 0;
}

/* Zeros past the end. */
static void take(raw *from, void *to, size_t size) {
    const size_t there = from->length < size ? from->length : size;
    memset(to, 0, size);
    memcpy(to, from->bytes, there);
    from->bytes += there;
    from->length -= there;
}

static int64_t take_number(raw *from, size_t size) {
    int8_t one;
    int32_t four;
    int64_t eight;
    if (size == sizeof one)
        return take(from, &one, size), one;
    if (size == sizeof four)
        return take(from, &four, size), four;
    return take(from, &eight, size), eight;
}

static void take_route(raw *from, route_case *c) {
    c->geometry.cp_size = take_number(from, 1);
    c->geometry.cp_rank = take_number(from, 1);
    c->source = (cpr_layout)take_number(from, 1);
    c->target = (cpr_layout)take_number(from, 1);
    c->dtype = (cpr_dtype)take_number(from, 1);
    c->device = CPR_CPU;
    c->stride = 1;
    c->tp_size = take_number(from, 1);
    c->rows = CPR_ROWS_UNCHECKED;
    c->salt = (uint64_t)take_number(from, 4);
    for (c->entries = 0; c->entries < RAW_ENTRIES && from->length > 0; c->entries++)
        c->cu[c->entries] = take_number(from, 4);
    c->expected = route_case_expected(c);
    c->expected_known = true;
}

/* False for a group that is none, which the law about tensors does not ask about. */
static bool take_tensor(raw *from, tensor_case *c) {
    c->geometry.cp_size = take_number(from, 1);
    c->geometry.cp_rank = take_number(from, 1);
    for (c->count = 0; c->count < TENSOR_MAX_ENTRIES && from->length > 0; c->count++)
        c->entries[c->count] = take_number(from, 8);
    return c->geometry.cp_size > 0 && c->geometry.cp_rank >= 0 && c->geometry.cp_rank < c->geometry.cp_size;
}

/* What makes no sense as an operation is left out: a caller could not even write it down. */
static bool take_op(raw *from, cache_op *op) {
    *op = (cache_op){.kind = (cache_op_kind)(uint8_t)take_number(from, 1),
                     .name = (uint8_t)take_number(from, 1),
                     .other = (uint8_t)take_number(from, 1),
                     .q_padded = CACHE_NO_NAME,
                     .kv = CACHE_NO_NAME,
                     .kv_padded = CACHE_NO_NAME,
                     .dtype = CPR_INT32,
                     .device = CPR_CPU,
                     .device_index = -1,
                     .stride = 1,
                     .rows = CPR_ROWS_UNCHECKED};
    op->geometry.cp_size = take_number(from, 1);
    op->geometry.cp_rank = take_number(from, 1);
    op->source = (cpr_layout)take_number(from, 1);
    op->target = (cpr_layout)take_number(from, 1);
    op->index = take_number(from, 1);
    op->value = take_number(from, 4);
    for (op->count = 0; op->count < RAW_OP_ENTRIES; op->count++)
        op->data[op->count] = take_number(from, 4);
    op->high = op->count;
    return op->kind < CACHE_OP_KINDS && op->kind != CACHE_COUNT && op->kind != CACHE_CAP &&
           op->name < CACHE_NAMES_DRAWN && op->index >= 0 && op->index < RAW_OP_ENTRIES &&
           (op->other < CACHE_NAMES_DRAWN || op->other == CACHE_NO_NAME);
}

static void take_script(raw *from, cache_case *c) {
    static const cpr_guard guards[] = {CPR_GUARD_DEFAULT, CPR_GUARD_VERSION, CPR_GUARD_CONTENT};
    c->guard = guards[(uint8_t)take_number(from, 1) % 3];
    c->max_entries = 16;
    c->max_bytes = 0;
    for (c->op_count = 0; c->op_count < CACHE_OPS_DRAWN && from->length > 0;)
        c->op_count += take_op(from, &c->ops[c->op_count]);
    for (int i = 0; i < CACHE_NAMES_DRAWN; i++)
        snprintf(c->names[i], sizeof c->names[i], "%c", 'A' + i);
}

static bool take_case(const family *f, const uint8_t *bytes, size_t length, void *subject) {
    raw from = {bytes, length};
    if (f == &tensor_family)
        return take_tensor(&from, subject);
    if (f == &route_family)
        take_route(&from, subject);
    else
        take_script(&from, subject);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    all_laws_judge(take_case, bytes, length);
    return 0;
}
