/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "laws.h"
#include "oracle.h"
#include "scratch.h"
#include "subject.h"
#include <inttypes.h>
#include <string.h>

typedef struct share {
    const cpr_intervals *intervals;
    cpr_layout layout;
    int64_t rank;
} share;

static bool is_canonical(const share *s, verdict *v) {
    const cpr_intervals *list = s->intervals;
    int64_t rows = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const cpr_interval *it = &list->items[i];
        const bool empty = it->begin >= it->end;
        const bool goes_on = i > 0 && list->items[i - 1].end == it->begin;
        if (empty || goes_on)
            return law_fail(v, "intervals are not canonical",
                            "%s rank %" PRId64 " interval %" PRId64 ": [%" PRId64 ",%" PRId64 ") %s",
                            cpr_layout_name(s->layout), s->rank, i, it->begin, it->end,
                            empty ? "is empty" : "goes on where the one before ended");
        rows += it->end - it->begin;
    }
    return rows == list->rows || law_fail(v, "intervals and rows disagree",
                                          "%s rank %" PRId64 ": rows %" PRId64 ", intervals hold %" PRId64,
                                          cpr_layout_name(s->layout), s->rank, list->rows, rows);
}

static bool lists_the_definition(const share *s, const int64_t *tokens, int64_t count, verdict *v) {
    int64_t row = 0;
    if (s->intervals->rows != count)
        return law_fail(v, "a rank has not T/P rows",
                        "%s rank %" PRId64 ": %" PRId64 " rows, should have %" PRId64,
                        cpr_layout_name(s->layout), s->rank, s->intervals->rows, count);
    for (int64_t i = 0; i < s->intervals->count; i++)
        for (int64_t token = s->intervals->items[i].begin; token < s->intervals->items[i].end; token++, row++)
            if (tokens[row] != token)
                return law_fail(v, "a layout is not what its definition says",
                                "%s rank %" PRId64 " row %" PRId64 ": interval %" PRId64 " has token %" PRId64
                                ", the definition %" PRId64,
                                cpr_layout_name(s->layout), s->rank, row, i, token, tokens[row]);
    return true;
}

static bool takes_each_once(const share *s, uint8_t *taken, int64_t total, verdict *v) {
    for (int64_t i = 0; i < s->intervals->count; i++)
        for (int64_t token = s->intervals->items[i].begin; token < s->intervals->items[i].end; token++) {
            if (token < 0 || token >= total || taken[token])
                return law_fail(v, "layouts do not partition the stream",
                                "%s rank %" PRId64 ": token %" PRId64 " of %" PRId64 " %s",
                                cpr_layout_name(s->layout), s->rank, token, total,
                                token < 0 || token >= total ? "is outside" : "is taken twice");
            taken[token] = 1;
        }
    return true;
}

static bool judge_rank(const route_case *c, const engine_under_test *engine, cpr_layout layout, int64_t rank,
                       int64_t *tokens, uint8_t *taken, verdict *v) {
    const oracle_pack pack = oracle_pack_of(c);
    const cpr_route_request request = subject_request(c);
    const cpr_geometry geometry = {c->geometry.cp_size, rank};
    cpr_intervals *intervals = NULL;
    cpr_error error;
    const cpr_status status = engine->layout_intervals(&request.cu_seqlens, request.rows, geometry, layout,
                                                       NULL, &intervals, &error);
    if (!call_ok(status, &error, "intervals of a layout", v))
        return false;
    const share s = {intervals, layout, rank};
    oracle_tokens(&pack, layout, rank, tokens);
    const bool good = is_canonical(&s, v) && takes_each_once(&s, taken, oracle_total(&pack), v) &&
                      lists_the_definition(&s, tokens, oracle_rows(&pack), v);
    cpr_intervals_free(intervals);
    return good;
}

/* Every rank has T/P rows and no token is taken twice, so together they take all. */
static bool judge_layout(const route_case *c, const engine_under_test *engine, cpr_layout layout, scratch *s,
                         verdict *v) {
    const oracle_pack pack = oracle_pack_of(c);
    int64_t *tokens = scratch_int64(s, oracle_rows(&pack));
    uint8_t *taken = scratch_bytes(s, (size_t)oracle_total(&pack));
    if (!tokens || !taken)
        return subject_no_memory(v);
    memset(taken, 0, (size_t)oracle_total(&pack));
    for (int64_t rank = 0; rank < c->geometry.cp_size; rank++)
        if (!judge_rank(c, engine, layout, rank, tokens, taken, v))
            return false;
    return true;
}

void judge_partition(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_listable(c, v))
        return;
    scratch s = {0};
    if (judge_layout(c, engine, c->source, &s, v) && c->target != c->source)
        judge_layout(c, engine, c->target, &s, v);
    scratch_free(&s);
}
