/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs as long as numbers go and groups as large as they may be. The shape of the case gives the
 * proportions of the sequences and its salt the limit; routes are looked at run by run, never token by
 * token.
 */
#include "compare.h"
#include "laws.h"
#include "ledger.h"
#include "oracle.h"
#include "subject.h"
#include <inttypes.h>

enum {
    SEQUENCES_MAX = 8,
    PROPORTION_MAX = 8,
    ENTRIES_MAX = SEQUENCES_MAX + 1,
    SPOTS = 4,
    TRANSPORT_RANKS_MAX = 16,
    /* What a builder may take for each entry and each run, with room to grow by doubling, and for the rest. */
    BYTES_A_PIECE = 1024,
    BYTES_FOR_THE_REST = 1 << 14
};

/* One case of this law, made from the subject. */
typedef struct giant {
    const engine_under_test *engine;
    uint64_t salt;
    int64_t cu[ENTRIES_MAX];
    int32_t narrow[ENTRIES_MAX];
    int64_t entries;
    oracle_pack pack;
    cpr_route_request request;
} giant;

static int64_t total_limit(uint64_t salt) {
    static const int64_t limits[] = {
        INT32_MAX, INT64_MAX, INT64_C(1) << 31, (INT64_C(1) << 32) - 1, INT64_C(1) << 53, INT64_C(1) << 62,
    };
    return limits[salt_below(salt, 0, sizeof limits / sizeof *limits)];
}

static int64_t group_size(uint64_t salt, int64_t of_the_case) {
    const int64_t sizes[] = {of_the_case, 1, 3, 5, CPR_CP_SIZE_MAX, CPR_CP_SIZE_MAX - 1, 1 << 15};
    return sizes[salt_below(salt, 1, sizeof sizes / sizeof *sizes)];
}

static int64_t proportion(const route_case *c, int64_t sequence) {
    const uint64_t length = (uint64_t)c->cu[sequence + 1] - (uint64_t)c->cu[sequence];
    return (int64_t)(length % (PROPORTION_MAX + 1)); /* 0: an empty sequence */
}

/*
 * The longest pack of these proportions within `limit` whose lengths `unit` divides. The last sequence that
 * has tokens takes what is left, so that the total comes within one unit of the limit. Proportions are
 * bounded, because runs are as many as the smallest chunk fits in what a rank holds.
 */
static void fill_to_limit(giant *g, const route_case *c, int64_t limit, int64_t unit) {
    const int64_t sequences = c->entries - 1 < SEQUENCES_MAX ? c->entries - 1 : SEQUENCES_MAX;
    int64_t units[SEQUENCES_MAX] = {0}, sum = 0, last = 0;
    for (int64_t i = 0; i < sequences; i++) {
        units[i] = proportion(c, i);
        sum += units[i];
        last = units[i] > 0 ? i : last;
    }
    const int64_t each = sum == 0 ? 0 : limit / unit / sum;
    g->entries = sequences + 1;
    for (int64_t i = 0; i < sequences; i++) {
        const int64_t left = i == last ? limit / unit - sum * each : 0;
        g->cu[i + 1] = g->cu[i] + (units[i] * each + left) * unit;
    }
}

static bool cuts_chunks(cpr_layout layout) {
    return layout != CPR_CONTIGUOUS;
}

static giant make_giant(const route_case *c, const engine_under_test *engine) {
    giant g = {.engine = engine, .salt = c->salt};
    const int64_t ranks = group_size(c->salt, c->geometry.cp_size);
    const bool chunked = cuts_chunks(c->source) || cuts_chunks(c->target);
    const int64_t unit = ranks == 1 ? 1 : chunked ? 2 * ranks : ranks;
    fill_to_limit(&g, c, total_limit(c->salt), unit);

    const int64_t ends[] = {0, ranks - 1, (int64_t)salt_below(c->salt, 2, (uint64_t)ranks)};
    g.request = (cpr_route_request){
        .rows = CPR_ROWS_UNCHECKED,
        .geometry = {ranks, ends[salt_below(c->salt, 3, 3)]},
        .source = c->source,
        .target = c->target,
    };
    return g;
}

static int64_t total_of(const giant *g) {
    return g->cu[g->entries - 1];
}

/* Views point into the giant itself, so this comes after its last move. */
static void aim_views(giant *g) {
    g->pack = (oracle_pack){g->cu, g->entries, g->request.geometry.cp_size};
    g->request.cu_seqlens = cpr_cu_seqlens_int64(g->cu, g->entries);
    if (total_of(g) > INT32_MAX)
        return;
    for (int64_t i = 0; i < g->entries; i++)
        g->narrow[i] = (int32_t)g->cu[i];
    g->request.cu_seqlens = cpr_cu_seqlens_int32(g->narrow, g->entries);
}

/* Both ends of a run are where the formulas have them, and so is its last row. */
static bool run_is_right(const giant *g, cpr_side side, const cpr_run *run, verdict *v) {
    const int64_t own = g->request.geometry.cp_rank;
    const int64_t sender = side == CPR_SEND ? own : run->peer;
    const int64_t receiver = side == CPR_SEND ? run->peer : own;
    const int64_t offsets[] = {0, run->length - 1};
    for (int i = 0; i < 2; i++) {
        const oracle_place from = {sender, run->source_row + offsets[i]};
        const int64_t token = oracle_token_at(&g->pack, g->request.source, from);
        const oracle_place to = oracle_place_of(&g->pack, g->request.target, token);
        if (to.rank != receiver || to.row != run->target_row + offsets[i])
            return law_fail(v, "a run is not where the formula has it",
                            "token %" PRId64 " of %" PRId64 ", rank %" PRId64 " row %" PRId64
                            ": to rank %" PRId64 " row %" PRId64 ", formula: rank %" PRId64 " row %" PRId64,
                            token, total_of(g), from.rank, from.row, receiver, run->target_row + offsets[i],
                            to.rank, to.row);
    }
    return true;
}

static bool list_is_right(const giant *g, cpr_side side, const cpr_run_list *list, verdict *v) {
    const int64_t rows = oracle_rows(&g->pack);
    if (list->rows != rows)
        return law_fail(v, "a rank has not T/P rows", "%" PRId64 ", should be %" PRId64, list->rows, rows);
    if (list->count == 0)
        return rows == 0 || law_fail(v, "a rank has rows and no runs", "%" PRId64 " rows", rows);
    for (unsigned spot = 0; spot < SPOTS; spot++) {
        const int64_t at = (int64_t)salt_below(g->salt, 4 + spot, (uint64_t)list->count);
        if (!run_is_right(g, side, &list->runs[at], v))
            return false;
    }
    return run_is_right(g, side, &list->runs[0], v) && run_is_right(g, side, &list->runs[list->count - 1], v);
}

static bool is_frugal(const ledger *books, int64_t pieces, const char *what, verdict *v) {
    const size_t most = BYTES_FOR_THE_REST + (size_t)pieces * BYTES_A_PIECE;
    return books->peak_bytes <= most ||
           law_fail(v, "memory does not follow the runs",
                    "%s takes %zu bytes for %" PRId64 " entries and runs", what, books->peak_bytes, pieces);
}

/* Tables of a wrong size or dtype, and int32 where rows go beyond: refused before anything is written, so
 * that no real table is needed. */
static bool refuses_tables(const giant *g, const cpr_route *route, cpr_side side, verdict *v) {
    const int64_t count = oracle_rows(&g->pack);
    int64_t table = 0x5a5a5a5a;
    cpr_error error;
    cpr_status status = g->engine->rows(route, side, CPR_INT64, &table, count - 1, &error);
    if (!call_refused(status, &error, (cpr_error){CPR_TOTAL_MISMATCH, error.index, count - 1, count},
                      "rows of a wrong count", v))
        return false;
    status = g->engine->rows(route, side, CPR_FLOAT32, &table, count, &error);
    if (!call_refused(status, &error, (cpr_error){CPR_DTYPE, -1, CPR_FLOAT32, CPR_INT64}, "rows in float32",
                      v))
        return false;
    if (count - 1 > INT32_MAX) {
        status = g->engine->rows(route, side, CPR_INT32, &table, count, &error);
        if (!call_refused(status, &error, (cpr_error){CPR_OVERFLOW, -1, error.got, INT32_MAX},
                          "rows in int32", v))
            return false;
    }
    return table == 0x5a5a5a5a || law_fail(v, "an output is touched on failure", "rows wrote its table");
}

static bool judge_route(const giant *g, const cpr_route *route, const ledger *books, verdict *v) {
    const char *why = "";
    if (route->total_tokens != total_of(g))
        return law_fail(v, "a route miscounts the tokens", "%" PRId64 ", should be %" PRId64,
                        route->total_tokens, total_of(g));
    return is_frugal(books, g->entries + route->send.count + route->recv.count, "the builder", v) &&
           list_is_right(g, CPR_SEND, &route->send, v) && list_is_right(g, CPR_RECV, &route->recv, v) &&
           (g->engine->validate(route, NULL, &why) ||
            law_fail(v, "a built route does not validate", "%s", why)) &&
           refuses_tables(g, route, CPR_SEND, v) && refuses_tables(g, route, CPR_RECV, v);
}

static bool builds(const giant *g, verdict *v) {
    ledger books = {0};
    const cpr_allocator allocator = ledger_allocator(&books);
    cpr_route *route = NULL;
    cpr_error error;
    const cpr_status status = g->engine->build[BY_INTERVALS](&g->request, &allocator, &route, &error);
    const bool good = call_ok(status, &error, "the builder", v) && judge_route(g, route, &books, v);
    if (status == CPR_OK)
        cpr_route_free(route);
    return ledger_settled(&books, "the builder", v) && good;
}

static bool intervals_are_right(const giant *g, cpr_layout layout, const cpr_intervals *list, verdict *v) {
    if (list->rows != oracle_rows(&g->pack))
        return law_fail(v, "a rank has not T/P rows", "%" PRId64 ", should be %" PRId64, list->rows,
                        oracle_rows(&g->pack));
    int64_t row = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const oracle_place place = {g->request.geometry.cp_rank, row};
        const int64_t token = oracle_token_at(&g->pack, layout, place);
        if (list->items[i].begin != token)
            return law_fail(v, "an interval is not where the formula has it",
                            "%s interval %" PRId64 ": token %" PRId64 ", formula %" PRId64,
                            cpr_layout_name(layout), i, list->items[i].begin, token);
        row += list->items[i].end - list->items[i].begin;
    }
    return row == list->rows ||
           law_fail(v, "intervals and rows disagree", "%" PRId64 " and %" PRId64, row, list->rows);
}

static bool lists_intervals(const giant *g, cpr_layout layout, verdict *v) {
    ledger books = {0};
    const cpr_allocator allocator = ledger_allocator(&books);
    cpr_intervals *list = NULL;
    cpr_error error;
    const cpr_status status = g->engine->layout_intervals(
        &g->request.cu_seqlens, total_of(g), g->request.geometry, layout, &allocator, &list, &error);
    const bool good = call_ok(status, &error, "intervals of a layout", v) &&
                      is_frugal(&books, g->entries + list->count, "layout_intervals", v) &&
                      intervals_are_right(g, layout, list, v);
    if (status == CPR_OK)
        cpr_intervals_free(list);
    return ledger_settled(&books, "layout_intervals", v) && good;
}

static bool oracle_declines(const giant *g, builder by, verdict *v) {
    const cpr_error wanted = {CPR_OVERFLOW, -1, total_of(g), CPR_ENUMERATION_MAX_TOKENS};
    ledger books = {0};
    const cpr_allocator allocator = ledger_allocator(&books);
    cpr_route *route = NULL;
    cpr_error error;
    const cpr_status status = g->engine->build[by](&g->request, &allocator, &route, &error);
    bool good = call_refused(status, &error, wanted, builder_names[by], v);
    if (good && books.allocations != 0)
        good = law_fail(v, "an oracle allocates before it declines", "%s: %" PRIu64 " times",
                        builder_names[by], books.allocations);
    return ledger_settled(&books, builder_names[by], v) && good;
}

static bool oracles_decline(const giant *g, verdict *v) {
    return total_of(g) <= CPR_ENUMERATION_MAX_TOKENS ||
           (oracle_declines(g, BY_DEFINITION, v) && oracle_declines(g, PER_TOKEN, v));
}

/* Every builder refuses a request with exactly this; larger than the oracles take or not. */
static bool all_refuse(const giant *g, const cpr_route_request *request, cpr_error wanted, const char *what,
                       verdict *v) {
    for (int by = 0; by < BUILDER_COUNT; by++) {
        cpr_route *route = NULL;
        cpr_error error;
        const cpr_status status = g->engine->build[by](request, NULL, &route, &error);
        if (status == CPR_OK)
            cpr_route_free(route);
        if (!call_refused(status, &error, wanted, what, v))
            return false;
    }
    return true;
}

static bool refuses_wrong_totals(const giant *g, verdict *v) {
    const int64_t total = total_of(g), wrong[] = {total - 1, total == INT64_MAX ? 0 : total + 1,
                                                  INT64_MAX - (total == INT64_MAX), -1};
    cpr_route_request request = g->request;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        request.rows = wrong[i];
        if (wrong[i] != total &&
            !all_refuse(g, &request, (cpr_error){CPR_TOTAL_MISMATCH, -1, wrong[i], total},
                        "a wrong row count", v))
            return false;
    }
    return true;
}

static bool cuts_sequences(cpr_layout layout) {
    return layout != CPR_CONTIGUOUS && layout != CPR_FLAT_ZIGZAG;
}

/* The last token dropped: the last sequence that has tokens, or the whole stream, does not divide. */
static bool refuses_ragged(const giant *g, verdict *v) {
    const int64_t ranks = g->request.geometry.cp_size, total = total_of(g);
    if (ranks == 1 || total == 0)
        return true;
    giant ragged = *g;
    int64_t last = g->entries - 1;
    while (g->cu[last - 1] == total)
        last--;
    for (int64_t i = last; i < g->entries; i++)
        ragged.cu[i]--;
    aim_views(&ragged);

    cpr_error wanted = {CPR_NOT_DIVISIBLE_CP, -1, total - 1, ranks};
    if (cuts_sequences(g->request.source) || cuts_sequences(g->request.target))
        wanted = (cpr_error){CPR_NOT_DIVISIBLE_2CP, last - 1, total - 1 - g->cu[last - 1], 2 * ranks};
    else if (cuts_chunks(g->request.source) || cuts_chunks(g->request.target))
        wanted = (cpr_error){CPR_NOT_DIVISIBLE_2CP, -1, total - 1, 2 * ranks};
    return all_refuse(&ragged, &ragged.request, wanted, "a length one short of divisible", v);
}

/* n rows in n - 1 parts leave one over. */
static bool refuses_ragged_windows(const giant *g, verdict *v) {
    const int64_t rows = oracle_rows(&g->pack);
    if (g->request.geometry.cp_size == 1 || rows < 3)
        return true;
    cpr_route_request request = g->request;
    request.tp_size = rows - 1;
    return all_refuse(g, &request, (cpr_error){CPR_NOT_DIVISIBLE_CP_TP, -1, rows, rows - 1},
                      "rows that tensor parallelism does not divide", v);
}

static int64_t largest_message(const cpr_run_list *list) {
    int64_t largest = 0, message = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const bool begins = i == 0 || list->runs[i].peer != list->runs[i - 1].peer;
        message = (begins ? 0 : message) + list->runs[i].length;
        largest = message > largest ? message : largest;
    }
    return largest;
}

static bool largest_of_all(const giant *g, int64_t *largest, verdict *v) {
    *largest = 0;
    for (int64_t rank = 0; rank < g->request.geometry.cp_size; rank++) {
        const cpr_route_request request = request_of_rank(&g->request, rank);
        cpr_route *route;
        if (!engine_builds(g->engine, &request, &route, v))
            return false;
        const int64_t message = largest_message(&route->send);
        *largest = message > *largest ? message : *largest;
        cpr_route_free(route);
    }
    return true;
}

static int64_t product_or_max(int64_t a, int64_t b) {
    return b != 0 && a > INT64_MAX / b ? INT64_MAX : a * b;
}

static bool checks_counts(const giant *g, verdict *v) {
    static const int bits[] = {8, 31, 32, 33, 63, 64};
    static const int64_t widths[] = {1, 2, 4096, INT64_MAX};
    int64_t rows;
    if (g->request.geometry.cp_size > TRANSPORT_RANKS_MAX)
        return true;
    if (!largest_of_all(g, &rows, v))
        return false;
    const int64_t width = widths[salt_below(g->salt, 10, sizeof widths / sizeof *widths)];
    const int64_t elements = product_or_max(rows, width);
    const bool beyond = rows > 0 && width > INT64_MAX / rows;
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        const int64_t largest = (int64_t)(UINT64_MAX >> (65 - bits[i]));
        cpr_error error;
        const cpr_status status = g->engine->transport_check(&g->request, width, bits[i], NULL, &error);
        const bool good = elements > largest || beyond
                              ? call_refused(status, &error, (cpr_error){CPR_OVERFLOW, -1, elements, largest},
                                             "transport_check", v)
                              : call_ok(status, &error, "transport_check", v);
        if (!good)
            return false;
    }
    return true;
}

void judge_limits(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_legal(c, v))
        return;
    giant g = make_giant(c, engine);
    aim_views(&g);
    if (builds(&g, v) && lists_intervals(&g, c->source, v) && lists_intervals(&g, c->target, v) &&
        oracles_decline(&g, v) && refuses_wrong_totals(&g, v) && refuses_ragged(&g, v) &&
        refuses_ragged_windows(&g, v))
        checks_counts(&g, v);
}
