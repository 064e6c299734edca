/* SPDX-License-Identifier: Apache-2.0 */
#include "guard.h"
#include "kit/shrink.h"
#include <string.h>
#include <time.h>

#define KIND(kind) (UINT32_C(1) << (kind))
#define ALWAYS     (KIND(CACHE_GET) | KIND(CACHE_NEW))

const mutation mutations[] = {
    {.name = "refilled in place", .kinds = ALWAYS | KIND(CACHE_WRITE)},
    {.name = "written below the counter (`.data`, numpy, kernels)", .kinds = ALWAYS | KIND(CACHE_RAW_WRITE)},
    {.name = "another tensor in the same parameters", .kinds = ALWAYS, .renews = true},
    {.name = "freed; address and id used again",
     .kinds = ALWAYS | KIND(CACHE_FREE),
     .renews = true,
     .reuse = true},
    {.name = "same object, other storage", .kinds = ALWAYS | KIND(CACHE_REBIND)},
    {.name = "view with another stride", .kinds = ALWAYS | KIND(CACHE_VIEW), .strides = true},
    {.name = "view as another dtype", .kinds = ALWAYS | KIND(CACHE_VIEW), .dtypes = true},
    {.name = "parameters copied, then another tensor", .kinds = ALWAYS | KIND(CACHE_CLONE), .copies = true},
    {.name = "group of another size", .kinds = ALWAYS, .sizes = true},
    {.name = "another rank, as many rows", .kinds = ALWAYS, .ranks = true},
    {.name = "the other direction", .kinds = ALWAYS, .directions = true},
    {.name = "another number of rows", .kinds = ALWAYS, .rows = true},
    {.name = "a 32-bit counter wraps",
     .kinds = ALWAYS | KIND(CACHE_WRITE) | KIND(CACHE_SET_VERSION),
     .wraps = true},
    {.name = "a counter is set back by hand", .kinds = ALWAYS | KIND(CACHE_WRITE) | KIND(CACHE_SET_VERSION)},
    {.name = "no version counter, written", .kinds = ALWAYS | KIND(CACHE_RAW_WRITE), .unversioned = true},
    {.name = "a new tensor every time: growth", .kinds = ALWAYS, .renews = true, .grows = true},
};
const size_t mutation_count = sizeof mutations / sizeof *mutations;

/*------------------------------------------------------------------------------
 * What a mutation allows
 *----------------------------------------------------------------------------*/

static void restrict_get(const mutation *m, cache_op *op) {
    const bool reversed = op->source == CPR_CONTIGUOUS && op->target == CPR_ZIGZAG;
    const int64_t cp_size = m->sizes ? op->geometry.cp_size : 2;
    op->geometry =
        (cpr_geometry){.cp_size = cp_size, .cp_rank = m->ranks ? op->geometry.cp_rank % cp_size : 0};
    op->source = m->directions && reversed ? CPR_CONTIGUOUS : CPR_ZIGZAG;
    op->target = m->directions && reversed ? CPR_ZIGZAG : CPR_CONTIGUOUS;
    op->blind = false;
    if (!m->rows)
        op->rows = CPR_ROWS_UNCHECKED;
}

static bool is_made(const cache_case *c, int64_t before, uint8_t name) {
    for (int64_t i = 0; i < before; i++)
        if (c->ops[i].kind == CACHE_NEW && c->ops[i].name == name)
            return true;
    return false;
}

static bool is_copy(const cache_case *c, int64_t before, uint8_t name) {
    for (int64_t i = 0; i < before; i++)
        if (c->ops[i].kind == CACHE_CLONE && c->ops[i].name == name && c->ops[i].other != name &&
            is_made(c, i, c->ops[i].other))
            return true;
    return false;
}

/* The first tensor is there in any case. */
static bool may_be_made(const mutation *m, const cache_case *c, int64_t i) {
    return i == 0 || m->renews || (m->copies && is_copy(c, i, c->ops[i].name));
}

static void become_get(cache_op *op) {
    const uint8_t name = op->name;
    memset(op, 0, sizeof *op);
    op->name = name;
    op->other = op->q_padded = op->kv = op->kv_padded = CACHE_NO_NAME;
    op->geometry = (cpr_geometry){.cp_size = 2, .cp_rank = 0};
    op->source = CPR_ZIGZAG;
    op->target = CPR_CONTIGUOUS;
    op->rows = CPR_ROWS_UNCHECKED;
}

static void restrict_new(const mutation *m, cache_op *op) {
    op->dtype = CPR_INT32;
    op->device = CPR_CPU;
    op->device_index = -1;
    op->inference = m->unversioned;
    if (!m->reuse)
        op->other = CACHE_NO_NAME;
}

static void restrict_view(const mutation *m, cache_op *op) {
    op->high -= op->low;
    op->low = 0;
    if (!m->strides)
        op->stride = 1;
    if (m->dtypes)
        op->dtype = CPR_FLOAT32;
    else
        op->dtype = (cpr_dtype)CACHE_SAME_DTYPE;
}

/* The first boundary stays 0, as it does where boundaries are filled anew. */
static void restrict_write(cache_op *op) {
    if (op->index == 0)
        op->index = 1;
}

void mutation_restrict(const mutation *m, cache_case *c) {
    for (int64_t i = 0; i < c->op_count; i++) {
        cache_op *op = &c->ops[i];
        if (m->grows)
            op->name = 0;
        if (op->kind == CACHE_NEW && !may_be_made(m, c, i))
            become_get(op);
        if (op->kind == CACHE_GET)
            restrict_get(m, op);
        else if (op->kind == CACHE_NEW)
            restrict_new(m, op);
        else if (op->kind == CACHE_VIEW)
            restrict_view(m, op);
        else if (op->kind == CACHE_WRITE || op->kind == CACHE_RAW_WRITE)
            restrict_write(op);
    }
}

/*------------------------------------------------------------------------------
 * Searching
 *----------------------------------------------------------------------------*/

typedef struct search {
    const guard *g;
    const mutation *m;
    cache_case *c;
    uint64_t *refused;
} search;

static bool fails(const search *s, choices *from, verdict *v) {
    *v = (verdict){.outcome = LAW_PASSED, .reason = ""};
    cache_case_draw(from, s->m->kinds, s->c);
    mutation_restrict(s->m, s->c);
    *s->refused += guard_judge(s->g, s->m, s->c, v);
    return v->outcome == LAW_FAILED;
}

static bool still_fails(void *context, const uint8_t *bytes, size_t length, choice_log *log) {
    verdict v;
    choices from = choices_from_bytes(bytes, length, log);
    return fails(context, &from, &v);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void shrink_found(const search *s, choice_log *log, guard_finding *found) {
    enum { ATTEMPTS = 100000 };
    uint8_t bytes[CHOICE_LOG_BYTES];
    size_t length = log->length;
    memcpy(bytes, log->bytes, length);
    shrink(bytes, &length, still_fails, (void *)(uintptr_t)s, ATTEMPTS);
    choices from = choices_from_bytes(bytes, length, NULL);
    fails(s, &from, &found->verdict);
}

void guard_search(const guard *g, const mutation *m, uint64_t most_scripts, guard_finding *found) {
    const search s = {.g = g, .m = m, .c = &found->script, .refused = &found->refused};
    found->refused = 0;
    const double begun = now();
    choice_log log;
    found->stale = false;
    for (found->scripts = 0; found->scripts < most_scripts && !found->stale; found->scripts++) {
        memset(&log, 0, sizeof log);
        choices from = choices_from_seed(found->scripts, &log);
        found->stale = fails(&s, &from, &found->verdict);
    }
    if (found->stale)
        shrink_found(&s, &log, found);
    found->seconds = now() - begun;
}
