/* SPDX-License-Identifier: Apache-2.0 */
#include "case_plan.h"

#include <stdlib.h>
#include <string.h>

void route_case_draw(choices *from, const case_bounds *bounds, route_case *c) {
    plan_coder coder = {.choices = from};
    case_plan plan;
    /* lengths are set as far as there are sequences */
    memset(&plan, 0, offsetof(case_plan, lengths));
    plan_code(&coder, bounds, &plan);
    plan_carry_out(&plan, c);
}

void route_case_copy(route_case *to, const route_case *from) {
    const size_t rest = offsetof(route_case, entries);
    memcpy(to->cu, from->cu, (size_t)from->entries * sizeof *from->cu);
    memcpy((char *)to + rest, (const char *)from + rest, sizeof *to - rest);
}

static bool errors_equal(const cpr_error *a, const cpr_error *b) {
    return a->status == b->status && a->index == b->index && a->got == b->got && a->wanted == b->wanted;
}

bool route_case_equal(const route_case *a, const route_case *b) {
    return a->entries == b->entries && a->stride == b->stride && a->dtype == b->dtype &&
           a->device == b->device && a->rows == b->rows && a->geometry.cp_size == b->geometry.cp_size &&
           a->geometry.cp_rank == b->geometry.cp_rank && a->source == b->source && a->target == b->target &&
           a->tp_size == b->tp_size && a->salt == b->salt && errors_equal(&a->expected, &b->expected) &&
           a->expected_known == b->expected_known &&
           (a->entries == 0 || memcmp(a->cu, b->cu, (size_t)a->entries * sizeof *a->cu) == 0);
}

int64_t route_case_tokens(const route_case *c) {
    return last_entry(c);
}

/*==============================================================================
 * MARK: - Boundaries in memory
 *============================================================================*/

static bool fits_int32(const route_case *c) {
    for (int64_t i = 0; i < c->entries; i++) {
        if (c->cu[i] != (int32_t)c->cu[i])
            return false;
    }
    return true;
}

/* What lies between entries is one off the entry before, so that a reader who ignores the stride is wrong. */
static void lay_int32(const route_case *c, int32_t *at, int64_t step) {
    const int64_t direction = c->stride < 0 ? -1 : 1;
    for (int64_t i = 0; i < c->entries; i++) {
        int32_t *own = at + i * c->stride;
        *own = (int32_t)c->cu[i];
        for (int64_t gap = 1; gap < step && i + 1 < c->entries; gap++)
            own[gap * direction] = *own ^ 1;
    }
}

static void lay_int64(const route_case *c, int64_t *at, int64_t step) {
    const int64_t direction = c->stride < 0 ? -1 : 1;
    for (int64_t i = 0; i < c->entries; i++) {
        int64_t *own = at + i * c->stride;
        *own = c->cu[i];
        for (int64_t gap = 1; gap < step && i + 1 < c->entries; gap++)
            own[gap * direction] = *own ^ 1;
    }
}

boundaries boundaries_make(const route_case *c) {
    boundaries b = {
        .request = {
            .cu_seqlens = {.count = c->entries, .stride = c->stride, .dtype = c->dtype, .device = c->device},
            .rows = c->rows,
            .geometry = c->geometry,
            .source = c->source,
            .target = c->target,
            .tp_size = c->tp_size}};
    if (c->entries == 0)
        return b;
    const bool narrow = c->dtype == CPR_INT32 && fits_int32(c);
    if (c->dtype == CPR_INT32 && !narrow)
        b.request.cu_seqlens.dtype = CPR_INT64;
    const int64_t step = c->stride < 0 ? -c->stride : c->stride;
    const int64_t last = (c->entries - 1) * step;
    const size_t width = narrow ? sizeof(int32_t) : sizeof(int64_t);
    b.block = malloc((size_t)(last + 1) * width);
    if (!b.block)
        return b;
    char *first = (char *)b.block + (c->stride < 0 ? (size_t)last * width : 0);
    b.request.cu_seqlens.data = first;
    if (narrow)
        lay_int32(c, (int32_t *)(void *)first, step);
    else
        lay_int64(c, (int64_t *)(void *)first, step);
    return b;
}

void boundaries_free(boundaries *b) {
    free(b->block);
    b->block = NULL;
}
