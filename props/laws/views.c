/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "laws.h"
#include "scratch.h"
#include "subject.h"
#include <inttypes.h>
#include <string.h>

typedef struct view_form {
    cpr_dtype dtype;
    int64_t stride;
    size_t misalignment; /* bytes */
} view_form;

static size_t entry_bytes(cpr_dtype dtype) {
    return dtype == CPR_INT32 ? 4 : 8;
}

static void put_entry(unsigned char *at, cpr_dtype dtype, int64_t value) {
    const int32_t narrow = (int32_t)value;
    if (dtype == CPR_INT32)
        memcpy(at, &narrow, sizeof narrow);
    else
        memcpy(at, &value, sizeof value);
}

/* Lays the entries out in a block that ends, and but for the misalignment begins, with the bytes that may be
 * read; gaps hold numbers that would be noticed. data == NULL without memory. */
static cpr_cu_seqlens make_view(const route_case *c, view_form form, scratch *s) {
    const size_t width = entry_bytes(form.dtype);
    /* From the only entry no step is taken, and its stride may be anything. */
    const int64_t step = c->entries == 1 ? 0 : form.stride;
    const int64_t reach = (c->entries - 1) * step;
    const size_t places = 1 + (size_t)(reach < 0 ? -reach : reach);
    cpr_cu_seqlens view = {NULL, c->entries, form.stride, form.dtype, CPR_CPU};
    unsigned char *block = scratch_bytes(s, form.misalignment + places * width);
    if (!block)
        return view;
    memset(block, 0xc3, form.misalignment + places * width);
    unsigned char *first = block + form.misalignment + (step < 0 ? (places - 1) * width : 0);
    for (int64_t i = 0; i < c->entries; i++)
        put_entry(first + i * step * (int64_t)width, form.dtype, c->cu[i]);
    view.data = first;
    return view;
}

static bool judge_view(const route_case *c, const engine_under_test *engine, builder by, view_form form,
                       const cpr_route *wanted, verdict *v) {
    scratch s = {0};
    cpr_route_request request = subject_request(c);
    request.cu_seqlens = make_view(c, form, &s);
    if (!request.cu_seqlens.data)
        return subject_no_memory(v);
    char name[96];
    snprintf(name, sizeof name, "%s, %s, stride %" PRId64 ", %zu bytes off", builder_names[by],
             cpr_dtype_name(form.dtype), form.stride, form.misalignment);
    cpr_route *route = NULL;
    cpr_error error;
    const cpr_status status = engine->build[by](&request, NULL, &route, &error);
    const bool good =
        call_ok(status, &error, name, v) &&
        same_route(route, name, wanted, "dense int64", "the view of the boundaries changes the route", v);
    cpr_route_free(route);
    scratch_free(&s);
    return good;
}

static bool judge_strides(const route_case *c, const engine_under_test *engine, builder by, cpr_dtype dtype,
                          const cpr_route *wanted, verdict *v) {
    /* Between equal entries no step need be taken. */
    const bool equal = c->cu[c->entries - 1] == 0, alone = c->entries == 1;
    const struct {
        int64_t stride;
        bool possible;
    } strides[] = {{1, true},  {2, true},  {3, true},          {-1, true},
                   {-2, true}, {0, equal}, {INT64_MAX, alone}, {INT64_MIN, alone}};
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        const view_form form = {dtype, strides[i].stride,
                                (size_t)salt_below(c->salt, (unsigned)i, entry_bytes(dtype))};
        if (strides[i].possible && !judge_view(c, engine, by, form, wanted, v))
            return false;
    }
    return true;
}

void judge_views(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_legal(c, v))
        return;
    const int64_t total = route_case_tokens(c);
    const bool listable = total <= CASE_ENUMERABLE && c->geometry.cp_size <= GROUP_MAX;
    const cpr_route_request request = subject_request(c);
    cpr_route *wanted;
    if (!engine_builds(engine, &request, &wanted, v))
        return;
    const builder other = (builder)salt_below(c->salt, 8, BUILDER_COUNT);
    for (int dtype = CPR_INT32; dtype <= CPR_INT64; dtype++) {
        if (dtype == CPR_INT32 && total > INT32_MAX)
            continue;
        if (!judge_strides(c, engine, BY_INTERVALS, (cpr_dtype)dtype, wanted, v) ||
            (listable && other != BY_INTERVALS &&
             !judge_strides(c, engine, other, (cpr_dtype)dtype, wanted, v)))
            break;
    }
    cpr_route_free(wanted);
}
