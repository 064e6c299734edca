/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that a caller can see of a case is written down twice and compared byte by byte. */
#include "compare.h"
#include "laws.h"
#include "scratch.h"
#include "sink.h"
#include "subject.h"
#include <inttypes.h>
#include <string.h>

typedef struct record {
    const engine_under_test *engine;
    const cpr_route_request *request;
    bool listable;
    sink out;
} record;

static void note(record *r, const void *bytes, size_t length) {
    sink_write(&r->out, bytes, length);
}

static void note_error(record *r, cpr_status status, const cpr_error *error) {
    note(r, &status, sizeof status);
    r->engine->error_dump(0, error, sink_write, &r->out);
}

static void note_expansion(record *r, const cpr_route *route, cpr_side side) {
    const int64_t count = side == CPR_SEND ? route->send.rows : route->recv.rows;
    const int64_t ranks = route->geometry.cp_size;
    scratch s = {0};
    int64_t *rows = scratch_int64(&s, count), *splits = scratch_int64(&s, ranks);
    if (rows && splits) {
        cpr_error error;
        note_error(r, r->engine->rows(route, side, CPR_INT64, rows, count, &error), &error);
        note(r, rows, (size_t)count * sizeof *rows);
        note_error(r, r->engine->splits(route, side, splits, ranks, &error), &error);
        note(r, splits, (size_t)ranks * sizeof *splits);
    }
    scratch_free(&s);
}

static void note_list(record *r, const cpr_run_list *list) {
    note(r, &list->count, sizeof list->count);
    note(r, &list->rows, sizeof list->rows);
    note(r, &list->identity, sizeof list->identity);
    if (list->count > 0)
        note(r, list->runs, (size_t)list->count * sizeof *list->runs);
}

static void note_route(record *r, const cpr_route *route) {
    note(r, &route->boundaries_digest, sizeof route->boundaries_digest);
    note_list(r, &route->send);
    note_list(r, &route->recv);
    if (!r->listable)
        return;
    for (int form = CPR_DUMP_JSON_ROWS; form <= CPR_DUMP_TEXT; form++)
        r->engine->dump(route, (cpr_dump_form)form, sink_write, &r->out);
    note_expansion(r, route, CPR_SEND);
    note_expansion(r, route, CPR_RECV);
}

static void note_build(record *r, builder by) {
    cpr_route *route = NULL;
    cpr_error error;
    const cpr_status status = r->engine->build[by](r->request, NULL, &route, &error);
    note_error(r, status, &error);
    if (status == CPR_OK)
        note_route(r, route);
    cpr_route_free(route);
}

static void note_layout(record *r, cpr_layout layout) {
    cpr_intervals *intervals = NULL;
    cpr_error error;
    const cpr_status status = r->engine->layout_intervals(
        &r->request->cu_seqlens, r->request->rows, r->request->geometry, layout, NULL, &intervals, &error);
    note_error(r, status, &error);
    if (status == CPR_OK && intervals->count > 0)
        note(r, intervals->items, (size_t)intervals->count * sizeof *intervals->items);
    cpr_intervals_free(intervals);
}

static void note_everything(record *r) {
    note_build(r, BY_INTERVALS);
    if (r->listable) {
        note_build(r, BY_DEFINITION);
        note_build(r, PER_TOKEN);
    }
    note_layout(r, r->request->source);
    note_layout(r, r->request->target);
}

static bool same_records(const record *a, const record *b, verdict *v) {
    if (a->out.out_of_memory || b->out.out_of_memory)
        return subject_no_memory(v);
    const size_t shorter = a->out.length < b->out.length ? a->out.length : b->out.length;
    size_t at = 0;
    while (at < shorter && a->out.text[at] == b->out.text[at])
        at++;
    return (at == a->out.length && at == b->out.length) ||
           law_fail(v, "the second run differs from the first", "at byte %zu of %zu and %zu", at,
                    a->out.length, b->out.length);
}

void judge_determinism(const route_case *c, const engine_under_test *engine, verdict *v) {
    const bool legal = c->expected.status == CPR_OK;
    const bool listable =
        !legal || (route_case_tokens(c) <= CASE_ENUMERABLE && c->geometry.cp_size <= GROUP_MAX);
    boundaries b = boundaries_make(c);
    record first = {engine, &b.request, listable, {0}}, second = first;
    note_everything(&first);
    note_everything(&second);
    same_records(&first, &second, v);
    sink_free(&first.out);
    sink_free(&second.out);
    boundaries_free(&b);
}
