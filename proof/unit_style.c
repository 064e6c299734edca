/* SPDX-License-Identifier: Apache-2.0 */
#include "unit_style.h"

#include <inttypes.h>
#include <string.h>

enum { RANKS_MOST = 4, TOKENS_MOST = 64, ENTRIES_MOST = 5 };

static const struct {
    int64_t count;
    int32_t entries[ENTRIES_MOST];
} packs[] = {{2, {0, 32}}, {3, {0, 16, 32}}, {4, {0, 8, 24, 64}}};

typedef struct exchange {
    int64_t ranks;
    cpr_route *routes[RANKS_MOST];
} exchange;

static void free_routes(exchange *x) {
    for (int64_t r = 0; r < x->ranks; r++)
        cpr_route_free(x->routes[r]);
}

static bool build_routes(exchange *x, const cpr_cu_seqlens *cu, cpr_layout source, cpr_layout target,
                         verdict *v) {
    for (int64_t r = 0; r < x->ranks; r++) {
        const cpr_route_request request = {.cu_seqlens = *cu,
                                           .rows = CPR_ROWS_UNCHECKED,
                                           .geometry = {.cp_size = x->ranks, .cp_rank = r},
                                           .source = source,
                                           .target = target};
        cpr_error error;
        if (cpr_route_build(&request, NULL, &x->routes[r], &error) != CPR_OK)
            return law_fail(v, "a route is not built", "rank %" PRId64 ": %s", r,
                            cpr_status_name(error.status));
    }
    return true;
}

static bool move_rows(const exchange *x, int64_t rows, cpr_layout source, cpr_layout target,
                      int32_t from[RANKS_MOST][TOKENS_MOST], int32_t to[RANKS_MOST][TOKENS_MOST],
                      verdict *v) {
    cpr_shard sources[RANKS_MOST], targets[RANKS_MOST];
    cpr_error error;
    for (int64_t r = 0; r < x->ranks; r++) {
        sources[r] = (cpr_shard){from[r], rows, source};
        targets[r] = (cpr_shard){to[r], rows, target};
    }
    if (cpr_exchange_host((const cpr_route *const *)x->routes, x->ranks, sizeof(int32_t), sources, targets,
                          NULL, &error) != CPR_OK)
        return law_fail(v, "rows are not exchanged", "%s", cpr_status_name(error.status));
    return true;
}

static void there_and_back(const cpr_cu_seqlens *cu, int64_t tokens, int64_t ranks, verdict *v) {
    static const cpr_layout ends[] = {CPR_ZIGZAG, CPR_CONTIGUOUS};
    int32_t start[RANKS_MOST][TOKENS_MOST], away[RANKS_MOST][TOKENS_MOST], home[RANKS_MOST][TOKENS_MOST];
    const int64_t rows = tokens / ranks;
    exchange there = {.ranks = ranks}, back = {.ranks = ranks};
    for (int64_t r = 0; r < ranks; r++)
        for (int64_t i = 0; i < rows; i++)
            start[r][i] = (int32_t)(r * rows + i);
    if (build_routes(&there, cu, ends[0], ends[1], v) && build_routes(&back, cu, ends[1], ends[0], v) &&
        move_rows(&there, rows, ends[0], ends[1], start, away, v) &&
        move_rows(&back, rows, ends[1], ends[0], away, home, v))
        for (int64_t r = 0; r < ranks; r++)
            if (memcmp(home[r], start[r], (size_t)rows * sizeof home[r][0]) != 0)
                law_fail(v, "there and back is not the same", "rank %" PRId64, r);
    free_routes(&there);
    free_routes(&back);
}

void unit_style_tests(verdict *v) {
    for (size_t i = 0; i < sizeof packs / sizeof *packs; i++) {
        const cpr_cu_seqlens cu = cpr_cu_seqlens_int32(packs[i].entries, packs[i].count);
        for (int64_t ranks = 2; ranks <= RANKS_MOST; ranks += 2)
            there_and_back(&cu, packs[i].entries[packs[i].count - 1], ranks, v);
    }
}
