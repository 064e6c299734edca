/* SPDX-License-Identifier: Apache-2.0 */
/* Moves token numbers as a user of an all-to-all-v would, with rows and split sizes and nothing else, and
 * then painted rows through the library's own pack, exchange and scatter. */
#include "compare.h"
#include "group.h"
#include "laws.h"
#include "oracle.h"
#include "paint.h"
#include "subject.h"
#include <inttypes.h>
#include <string.h>

typedef struct delivery {
    const engine_under_test *engine;
    oracle_pack pack;
    int64_t ranks, rows;
    group routes;
    group_tables tables;
    int64_t *source, *target; /* token numbers, rank after rank, as the definition has them */
} delivery;

/* Where the message from `from` to `to` begins: in what `from` sends, or in what `to` receives. */
static int64_t message_begin(const delivery *d, cpr_side side, int64_t owner, int64_t peer) {
    int64_t begin = owner * d->rows;
    for (int64_t before = 0; before < peer; before++)
        begin += d->tables.splits[side][owner * d->ranks + before];
    return begin;
}

static bool collective_would_work(const delivery *d, verdict *v) {
    for (int64_t a = 0; a < d->ranks; a++) {
        for (int64_t b = 0; b < d->ranks; b++) {
            const int64_t sent = d->tables.splits[CPR_SEND][a * d->ranks + b];
            const int64_t received = d->tables.splits[CPR_RECV][b * d->ranks + a];
            if (sent != received || sent < 0)
                return law_fail(v, "an all-to-all-v would hang",
                                "rank %" PRId64 " sends %" PRId64 " rows to rank %" PRId64
                                ", which awaits %" PRId64,
                                a, sent, b, received);
        }
        for (int side = CPR_SEND; side <= CPR_RECV; side++)
            if (message_begin(d, (cpr_side)side, a, d->ranks) != (a + 1) * d->rows)
                return law_fail(v, "splits do not add up to the rows",
                                "rank %" PRId64 " side %d: %" PRId64 ", rows %" PRId64, a, side,
                                message_begin(d, (cpr_side)side, a, d->ranks) - a * d->rows, d->rows);
    }
    return true;
}

static bool rows_in_range(const delivery *d, verdict *v) {
    for (int side = CPR_SEND; side <= CPR_RECV; side++)
        for (int64_t i = 0; i < d->ranks * d->rows; i++) {
            const int64_t row = d->tables.rows[side][i];
            if (row < 0 || row >= d->rows)
                return law_fail(v, "a row outside the rank",
                                "rank %" PRId64 " side %d entry %" PRId64 ": row %" PRId64 " of %" PRId64,
                                i / d->rows, side, i % d->rows, row, d->rows);
        }
    return true;
}

static void all_to_all(const delivery *d, const int64_t *sent, int64_t *received) {
    for (int64_t from = 0; from < d->ranks; from++)
        for (int64_t to = 0; to < d->ranks; to++)
            memcpy(received + message_begin(d, CPR_RECV, to, from),
                   sent + message_begin(d, CPR_SEND, from, to),
                   (size_t)d->tables.splits[CPR_SEND][from * d->ranks + to] * sizeof *sent);
}

static bool deliver_numbers(const delivery *d, scratch *s, verdict *v) {
    const int64_t total = d->ranks * d->rows;
    int64_t *sent = scratch_int64(s, total), *received = scratch_int64(s, total),
            *delivered = scratch_int64(s, total);
    if (!sent || !received || !delivered)
        return subject_no_memory(v);
    if (!collective_would_work(d, v) || !rows_in_range(d, v))
        return false;

    for (int64_t i = 0; i < total; i++) {
        const int64_t first_row = i - i % d->rows;
        sent[i] = d->source[first_row + d->tables.rows[CPR_SEND][i]];
        delivered[i] = -1;
    }
    all_to_all(d, sent, received);
    for (int64_t i = 0; i < total; i++) {
        const int64_t at = i - i % d->rows + d->tables.rows[CPR_RECV][i];
        if (delivered[at] != -1)
            return law_fail(v, "two tokens arrive at one row",
                            "rank %" PRId64 " row %" PRId64 ": tokens %" PRId64 " and %" PRId64, at / d->rows,
                            at % d->rows, delivered[at], received[i]);
        delivered[at] = received[i];
    }
    for (int64_t i = 0; i < total; i++)
        if (delivered[i] != d->target[i])
            return law_fail(v, "a row gets the wrong token",
                            "rank %" PRId64 " row %" PRId64 ": token %" PRId64
                            " arrives, the definition has %" PRId64,
                            i / d->rows, i % d->rows, delivered[i], d->target[i]);
    return true;
}

static bool painted_alike(const delivery *d, const uint8_t *got, const uint8_t *wanted, size_t row_bytes,
                          verdict *v) {
    const int64_t total = d->ranks * d->rows;
    const int64_t at = paint_first_difference(got, wanted, total, row_bytes);
    return at == total ||
           law_fail(v, "a row gets the wrong bytes",
                    "rank %" PRId64 " row %" PRId64 " of %zu bytes: first byte %d, should be %d",
                    at / d->rows, at % d->rows, row_bytes, got[(size_t)at * row_bytes],
                    wanted[(size_t)at * row_bytes]);
}

static void exchange_by_hand(const delivery *d, size_t row_bytes, const uint8_t *source, uint8_t *sent,
                             uint8_t *received, uint8_t *target) {
    const size_t rank_bytes = (size_t)d->rows * row_bytes;
    for (int64_t r = 0; r < d->ranks; r++)
        d->engine->pack(d->routes.routes[r], row_bytes, source + (size_t)r * rank_bytes,
                        sent + (size_t)r * rank_bytes);
    for (int64_t from = 0; from < d->ranks; from++)
        for (int64_t to = 0; to < d->ranks; to++)
            memcpy(received + (size_t)message_begin(d, CPR_RECV, to, from) * row_bytes,
                   sent + (size_t)message_begin(d, CPR_SEND, from, to) * row_bytes,
                   (size_t)d->tables.splits[CPR_SEND][from * d->ranks + to] * row_bytes);
    for (int64_t r = 0; r < d->ranks; r++)
        d->engine->scatter(d->routes.routes[r], row_bytes, received + (size_t)r * rank_bytes,
                           target + (size_t)r * rank_bytes);
}

/* Where rows have no bytes, there is nothing to point at. */
static void exchange_nothing(const delivery *d) {
    for (int64_t r = 0; r < d->ranks; r++) {
        d->engine->pack(d->routes.routes[r], 0, NULL, NULL);
        d->engine->scatter(d->routes.routes[r], 0, NULL, NULL);
    }
}

static bool deliver_paint(const delivery *d, uint64_t salt, scratch *s, verdict *v) {
    const size_t row_bytes = paint_row_bytes(salt);
    const int64_t total = d->ranks * d->rows;
    const size_t bytes = (size_t)total * row_bytes;
    uint8_t *source = scratch_bytes(s, bytes), *sent = scratch_bytes(s, bytes),
            *received = scratch_bytes(s, bytes), *target = scratch_bytes(s, bytes),
            *wanted = scratch_bytes(s, bytes);
    if (!source || !sent || !received || !target || !wanted)
        return subject_no_memory(v);
    paint_rows(d->source, total, row_bytes, source);
    paint_rows(d->target, total, row_bytes, wanted);
    memset(target, 0xff, bytes); /* no paint: 255 is above its period */
    memset(sent, 0xff, bytes);
    exchange_by_hand(d, row_bytes, source, sent, received, target);
    return painted_alike(d, target, wanted, row_bytes, v);
}

static bool list_definition(delivery *d, const route_case *c, scratch *s, verdict *v) {
    d->source = scratch_int64(s, d->ranks * d->rows);
    d->target = scratch_int64(s, d->ranks * d->rows);
    if (!d->source || !d->target)
        return subject_no_memory(v);
    for (int64_t r = 0; r < d->ranks; r++) {
        oracle_tokens(&d->pack, c->source, r, d->source + r * d->rows);
        oracle_tokens(&d->pack, c->target, r, d->target + r * d->rows);
    }
    return true;
}

void judge_delivery(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_listable(c, v))
        return;
    const cpr_route_request request = subject_request(c);
    delivery d = {.engine = engine, .pack = oracle_pack_of(c), .ranks = c->geometry.cp_size};
    d.rows = oracle_rows(&d.pack);
    if (!group_build(&d.routes, engine, &request, v))
        return;
    scratch s = {0};
    exchange_nothing(&d);
    if (list_definition(&d, c, &s, v) && group_expand(&d.routes, engine, &s, &d.tables, v) &&
        deliver_numbers(&d, &s, v))
        deliver_paint(&d, c->salt, &s, v);
    scratch_free(&s);
    group_free(&d.routes);
}
