/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "flat_form.h"
#include "laws.h"
#include "subject.h"
#include <inttypes.h>
#include <string.h>

/* A tensor of exactly its size. */
typedef struct tensor {
    int64_t *entries;
    int64_t count;
} tensor;

typedef struct encoding {
    const engine_under_test *engine;
    const route_case *c;
    cpr_route_request request;
    const cpr_route *route;
    tensor flat, opposite; /* of the route and of the one back */
    scratch memory;
} encoding;

static bool encode(encoding *e, const cpr_route *route, tensor *made, verdict *v) {
    cpr_error error;
    if (!call_ok(cpr_flat_size(route, &made->count, &error), &error, "flat_size", v))
        return false;
    made->entries = scratch_int64(&e->memory, made->count);
    if (!made->entries)
        return subject_no_memory(v);
    return call_ok(e->engine->flat_encode(route, made->entries, made->count, &error), &error, "flat_encode",
                   v);
}

/* As a user of the route would put it together. */
static bool is_written_out(encoding *e, verdict *v) {
    const int64_t ranks = e->route->geometry.cp_size, rows = e->route->send.rows;
    const int64_t sent = e->route->send.identity ? 0 : rows, received = e->route->recv.identity ? 0 : rows;
    const int64_t count = 6 + 2 * ranks + sent + received;
    int64_t *wanted = scratch_int64(&e->memory, count);
    if (!wanted)
        return subject_no_memory(v);
    const int64_t header[] = {ranks, e->route->geometry.cp_rank, rows, rows, sent, received};
    memcpy(wanted, header, sizeof header);
    e->engine->splits(e->route, CPR_SEND, wanted + 6, ranks, NULL);
    e->engine->splits(e->route, CPR_RECV, wanted + 6 + ranks, ranks, NULL);
    if (sent)
        e->engine->rows(e->route, CPR_SEND, CPR_INT64, wanted + 6 + 2 * ranks, rows, NULL);
    if (received)
        e->engine->rows(e->route, CPR_RECV, CPR_INT64, wanted + 6 + 2 * ranks + sent, rows, NULL);
    return same_numbers(&e->flat.count, "flat_size", &count, "the lists", 1, "length",
                        "a flat tensor is not the route's lists", v) &&
           same_numbers(e->flat.entries, "flat_encode", wanted, "the lists", count, "entry",
                        "a flat tensor is not the route's lists", v);
}

static bool comes_back(encoding *e, verdict *v) {
    cpr_route *route = NULL;
    cpr_error error;
    const cpr_status status =
        e->engine->flat_route(e->flat.entries, e->flat.count, &e->request, NULL, &route, &error);
    if (!call_ok(status, &error, "flat_route", v))
        return false;
    const bool same = same_route(route, "flat_route", e->route, "the route that was encoded",
                                 "a route does not survive its flat tensor", v);
    cpr_route_free(route);
    return same;
}

static bool refused(encoding *e, tensor flat, cpr_error wanted, const char *what, verdict *v) {
    cpr_route untouched = {0}, *route = &untouched;
    cpr_error error;
    const cpr_status status =
        e->engine->flat_route(flat.entries, flat.count, &e->request, NULL, &route, &error);
    if (status == CPR_OK && route != &untouched)
        cpr_route_free(route);
    return call_refused(status, &error, wanted, what, v) &&
           (route == &untouched || law_fail(v, "an output is touched on failure", "flat_route"));
}

static bool same_tensor(tensor a, tensor b) {
    return a.count == b.count && memcmp(a.entries, b.entries, (size_t)a.count * sizeof *a.entries) == 0;
}

static cpr_error other_direction(const encoding *e) {
    return (cpr_error){CPR_LAYOUT_MISMATCH, -1, (int)e->request.target, (int)e->request.source};
}

static bool refuses_other_direction(encoding *e, verdict *v) {
    const cpr_route_request opposite = request_reversed(&e->request);
    cpr_route *route;
    if (!engine_builds(e->engine, &opposite, &route, v))
        return false;
    const bool good = encode(e, route, &e->opposite, v) &&
                      (same_tensor(e->opposite, e->flat) ||
                       refused(e, e->opposite, other_direction(e), "the tensor of the other direction", v));
    cpr_route_free(route);
    return good;
}

static bool refuses_other_length(encoding *e, verdict *v) {
    const tensor shorter = {scratch_int64(&e->memory, e->flat.count - 1), e->flat.count - 1};
    const tensor longer = {scratch_int64(&e->memory, e->flat.count + 1), e->flat.count + 1};
    if (!shorter.entries || !longer.entries)
        return subject_no_memory(v);
    memcpy(shorter.entries, e->flat.entries, (size_t)shorter.count * sizeof(int64_t));
    memcpy(longer.entries, e->flat.entries, (size_t)e->flat.count * sizeof(int64_t));
    longer.entries[e->flat.count] = 0;
    return refused(e, shorter, (cpr_error){CPR_TOTAL_MISMATCH, -1, shorter.count, e->flat.count},
                   "a tensor cut short", v) &&
           refused(e, longer, (cpr_error){CPR_TOTAL_MISMATCH, -1, longer.count, e->flat.count},
                   "a tensor with a tail", v);
}

/* Where it is not the tensor of the request first. */
static cpr_error first_difference(const encoding *e, tensor other) {
    int64_t at = 0;
    while (other.entries[at] == e->flat.entries[at])
        at++;
    return (cpr_error){CPR_DIVERGENT_METADATA, at, other.entries[at], e->flat.entries[at]};
}

/* Whatever it was, it is not the tensor of the request any more. */
static bool refuses_damaged(encoding *e, tensor damaged, const char *what, verdict *v) {
    cpr_error wanted = flat_expected(damaged.entries, damaged.count, e->request.geometry);
    if (!flat_decodes_as(e->engine, damaged.entries, damaged.count, e->request.geometry, wanted, &e->memory,
                         v))
        return false;
    if (wanted.status == CPR_OK)
        wanted = same_tensor(damaged, e->opposite) ? other_direction(e) : first_difference(e, damaged);
    return refused(e, damaged, wanted, what, v);
}

static bool copy(encoding *e, tensor *made, verdict *v) {
    *made = (tensor){scratch_int64(&e->memory, e->flat.count), e->flat.count};
    if (!made->entries)
        return subject_no_memory(v);
    memcpy(made->entries, e->flat.entries, (size_t)made->count * sizeof(int64_t));
    return true;
}

static bool refuses_another_number(encoding *e, unsigned draw, verdict *v) {
    const int64_t at = (int64_t)salt_below(e->c->salt, draw, (uint64_t)e->flat.count);
    const int64_t values[] = {0, 1, -1, e->flat.entries[at] + 1, INT64_MAX, INT64_MIN};
    const int64_t value = values[salt_below(e->c->salt, draw + 1, sizeof values / sizeof *values)];
    tensor damaged;
    if (value == e->flat.entries[at])
        return true;
    if (!copy(e, &damaged, v))
        return false;
    damaged.entries[at] = value;
    return refuses_damaged(e, damaged, "a damaged tensor", v);
}

/* Still each row once, so only the route itself tells. */
static bool refuses_rows_swapped(encoding *e, unsigned draw, verdict *v) {
    const int64_t first = 6 + 2 * e->route->geometry.cp_size, rows = e->flat.count - first;
    tensor damaged;
    if (rows < 2)
        return true;
    const int64_t one = first + (int64_t)salt_below(e->c->salt, draw, (uint64_t)rows);
    const int64_t other = first + (int64_t)salt_below(e->c->salt, draw + 1, (uint64_t)rows);
    if (e->flat.entries[one] == e->flat.entries[other])
        return true;
    if (!copy(e, &damaged, v))
        return false;
    damaged.entries[one] = e->flat.entries[other];
    damaged.entries[other] = e->flat.entries[one];
    return refuses_damaged(e, damaged, "a tensor with two rows swapped", v);
}

static void judge(encoding *e, verdict *v) {
    const cpr_error fine = {CPR_OK, -1, 0, 0};
    if (!encode(e, e->route, &e->flat, v) || !is_written_out(e, v) ||
        !flat_decodes_as(e->engine, e->flat.entries, e->flat.count, e->request.geometry, fine, &e->memory,
                         v) ||
        !comes_back(e, v) || !refuses_other_direction(e, v) || !refuses_other_length(e, v))
        return;
    for (unsigned draw = 0; draw < 8; draw += 2)
        if (!refuses_another_number(e, draw, v))
            return;
    refuses_rows_swapped(e, 8, v);
}

void judge_flat_tensor(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_listable(c, v))
        return;
    encoding e = {.engine = engine, .c = c, .request = subject_request(c)};
    cpr_route *route;
    if (!engine_builds(engine, &e.request, &route, v))
        return;
    e.route = route;
    judge(&e, v);
    scratch_free(&e.memory);
    cpr_route_free(route);
}
