/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "group.h"
#include "laws.h"
#include "oracle.h"
#include "subject.h"
#include <inttypes.h>
#include <string.h>

/* wanted[a * P + b]: rows that rank a sends to rank b, counted token by token. */
static bool count_tokens(const route_case *c, int64_t *wanted, scratch *s, verdict *v) {
    const oracle_pack pack = oracle_pack_of(c);
    const int64_t ranks = c->geometry.cp_size, rows = oracle_rows(&pack);
    int64_t *tokens = scratch_int64(s, rows), *owner = scratch_int64(s, oracle_total(&pack));
    if (!tokens || !owner)
        return subject_no_memory(v);
    memset(wanted, 0, (size_t)(ranks * ranks) * sizeof *wanted);
    for (int64_t b = 0; b < ranks; b++) {
        oracle_tokens(&pack, c->target, b, tokens);
        for (int64_t row = 0; row < rows; row++)
            owner[tokens[row]] = b;
    }
    for (int64_t a = 0; a < ranks; a++) {
        oracle_tokens(&pack, c->source, a, tokens);
        for (int64_t row = 0; row < rows; row++)
            wanted[a * ranks + owner[tokens[row]]]++;
    }
    return true;
}

static bool tables_are_right(const group *g, const group_tables *tables, const int64_t *wanted, verdict *v) {
    for (int64_t a = 0; a < g->size; a++) {
        int64_t sent = 0;
        for (int64_t b = 0; b < g->size; b++) {
            const int64_t here = tables->splits[CPR_SEND][a * g->size + b];
            const int64_t there = tables->splits[CPR_RECV][b * g->size + a];
            if (here != there)
                return law_fail(v, "split tables are not each other's transpose",
                                "%" PRId64 "->%" PRId64 ": sent %" PRId64 ", received %" PRId64, a, b, here,
                                there);
            if (here != wanted[a * g->size + b])
                return law_fail(v, "a split size is not what the definition counts",
                                "%" PRId64 "->%" PRId64 ": %" PRId64 ", counted %" PRId64, a, b, here,
                                wanted[a * g->size + b]);
            sent += here;
        }
        if (sent != g->routes[a]->send.rows)
            return law_fail(v, "splits do not add up to the rows",
                            "rank %" PRId64 ": %" PRId64 ", rows %" PRId64, a, sent, g->routes[a]->send.rows);
    }
    return true;
}

/* A list of the wrong length is refused before it is read or written: it may be as short as it says. */
static bool refuses_counts(const engine_under_test *engine, const cpr_route *route, cpr_side side, scratch *s,
                           verdict *v) {
    const int64_t ranks = route->geometry.cp_size, counts[] = {ranks - 1, ranks + 1, 0, -1};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const int64_t count = counts[i];
        const size_t bytes = count > 0 ? (size_t)count * sizeof(int64_t) : 0;
        int64_t *list = scratch_bytes(s, bytes);
        if (!list)
            return subject_no_memory(v);
        memset(list, 0x5a, bytes);
        const cpr_error wanted = {CPR_SPLIT_MISMATCH, -1, count, ranks};
        cpr_error error;
        cpr_status status = engine->splits(route, side, list, count, &error);
        if (!call_refused(status, &error, wanted, "splits of a wrong count", v))
            return false;
        for (size_t byte = 0; byte < bytes; byte++)
            if (((const uint8_t *)list)[byte] != 0x5a)
                return law_fail(v, "an output is touched on failure",
                                "splits of count %" PRId64 " wrote byte %zu", count, byte);
        status = engine->splits_check(route, side, list, count, &error);
        if (!call_refused(status, &error, wanted, "splits_check of a wrong count", v))
            return false;
    }
    return true;
}

static bool checks_lists(const engine_under_test *engine, const cpr_route *route, cpr_side side,
                         const int64_t *right, uint64_t salt, scratch *s, verdict *v) {
    const int64_t ranks = route->geometry.cp_size;
    int64_t *list = scratch_int64(s, ranks);
    if (!list)
        return subject_no_memory(v);
    memcpy(list, right, (size_t)ranks * sizeof *list);
    cpr_error error;
    cpr_status status = engine->splits_check(route, side, list, ranks, &error);
    if (!call_ok(status, &error, "splits_check of the right splits", v))
        return false;

    /* One row moved from a message to another keeps the sum; the first entry that differs is to be named. */
    const int64_t at = (int64_t)salt_below(salt, 1, (uint64_t)ranks);
    const int64_t other = (int64_t)salt_below(salt, 2, (uint64_t)ranks);
    list[at]++;
    if (other > at)
        list[other]--;
    const cpr_error wanted = {CPR_SPLIT_MISMATCH, at, right[at] + 1, right[at]};
    status = engine->splits_check(route, side, list, ranks, &error);
    return call_refused(status, &error, wanted, "splits_check of damaged splits", v);
}

static bool judge_group(const route_case *c, const engine_under_test *engine, const group *g, scratch *s,
                        verdict *v) {
    group_tables tables;
    int64_t *wanted = scratch_int64(s, g->size * g->size);
    if (!wanted)
        return subject_no_memory(v);
    if (!group_expand(g, engine, s, &tables, v) || !count_tokens(c, wanted, s, v) ||
        !tables_are_right(g, &tables, wanted, v))
        return false;
    const int64_t rank = c->geometry.cp_rank;
    for (int side = CPR_SEND; side <= CPR_RECV; side++)
        if (!refuses_counts(engine, g->routes[rank], (cpr_side)side, s, v) ||
            !checks_lists(engine, g->routes[rank], (cpr_side)side, tables.splits[side] + rank * g->size,
                          c->salt, s, v))
            return false;
    return true;
}

void judge_splits(const route_case *c, const engine_under_test *engine, verdict *v) {
    group g;
    const cpr_route_request request = subject_request(c);
    if (!subject_listable(c, v) || !group_build(&g, engine, &request, v))
        return;
    scratch s = {0};
    judge_group(c, engine, &g, &s, v);
    scratch_free(&s);
    group_free(&g);
}
