/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "crossing.h"
#include "laws.h"
#include "oracle.h"
#include "real_lengths.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WORK_MAX = 1 << 21, UNTOUCHED = -77 };

typedef struct padding_trip {
    const engine_under_test *engine;
    const route_case *c;
    int64_t ranks, entries;
    int32_t *cu;                    /* of the packed buffer */
    int64_t *padded_cu;             /* of the zigzag side */
    int64_t real_rows, padded_rows; /* of a rank */
    cpr_padded_plan **plans;
    int64_t *contiguous, *zigzag; /* tokens of every rank, -1 for padding */
    crossing x;                   /* contiguous before, zigzag after */
    scratch memory;
} padding_trip;

/* Lengths of any size whose sum every rank gets an equal share of: the last sequence takes what is missing. */
static bool make_boundaries(padding_trip *t) {
    const int64_t *real = real_boundaries(t->c, &t->memory);
    t->cu = scratch_bytes(&t->memory, (size_t)t->entries * sizeof *t->cu);
    t->padded_cu = scratch_int64(&t->memory, t->entries);
    if (!real || !t->cu || !t->padded_cu)
        return false;
    for (int64_t i = 0; i < t->entries; i++)
        t->cu[i] = (int32_t)real[i];
    const int64_t over = t->cu[t->entries - 1] % t->ranks;
    if (t->entries > 1 && over != 0)
        t->cu[t->entries - 1] += (int32_t)(t->ranks - over);
    const int64_t multiple = 2 * t->ranks;
    t->padded_cu[0] = 0;
    for (int64_t i = 0; i + 1 < t->entries; i++) {
        int64_t length = t->cu[i + 1] - t->cu[i];
        while (length % multiple != 0)
            length++;
        t->padded_cu[i + 1] = t->padded_cu[i] + length;
    }
    t->real_rows = t->cu[t->entries - 1] / t->ranks;
    t->padded_rows = t->padded_cu[t->entries - 1] / t->ranks;
    return true;
}

/* The real token that a padded one is, or -1. */
static int64_t real_token(const padding_trip *t, int64_t padded) {
    int64_t i = 0;
    while (t->padded_cu[i + 1] <= padded)
        i++;
    const int64_t token = t->cu[i] + (padded - t->padded_cu[i]);
    return token < t->cu[i + 1] ? token : -1;
}

static bool list_tokens(padding_trip *t) {
    const oracle_pack padded = {t->padded_cu, t->entries, t->ranks};
    t->contiguous = scratch_int64(&t->memory, t->ranks * t->real_rows);
    t->zigzag = scratch_int64(&t->memory, t->ranks * t->padded_rows);
    if (!t->contiguous || !t->zigzag || !crossing_make(&t->x, t->ranks, t->ranks * t->real_rows, &t->memory))
        return false;
    for (int64_t token = 0; token < t->ranks * t->real_rows; token++)
        t->contiguous[token] = token;
    for (int64_t rank = 0; rank < t->ranks; rank++) {
        int64_t *own = t->zigzag + rank * t->padded_rows;
        oracle_tokens(&padded, CPR_ZIGZAG, rank, own);
        for (int64_t row = 0; row < t->padded_rows; row++)
            own[row] = real_token(t, own[row]);
        crossing_put(&t->x, CPR_SEND, rank, t->contiguous + rank * t->real_rows, t->real_rows);
        crossing_put(&t->x, CPR_RECV, rank, own, t->padded_rows);
    }
    return true;
}

static bool boundaries_are_right(const padding_trip *t, const cpr_padded_plan *plan, verdict *v) {
    int64_t longest = 0;
    bool pads = false;
    for (int64_t i = 0; i < t->entries; i++) {
        const int64_t entry = plan->padded_cu[i], before = i > 0 ? t->padded_cu[i - 1] : 0;
        if (!same_numbers(&entry, "the plan", &t->padded_cu[i], "rounded up", 1, "padded boundary",
                          "padded boundaries are other ones", v))
            return false;
        longest = t->padded_cu[i] - before > longest ? t->padded_cu[i] - before : longest;
        pads |= t->padded_cu[i] != t->cu[i];
    }
    return (plan->entries == t->entries && plan->longest == longest && plan->pads == pads &&
            plan->contiguous_rows == t->real_rows && plan->zigzag_rows == t->padded_rows) ||
           law_fail(v, "a plan is about other boundaries",
                    "longest %" PRId64 ", pads %d, rows %" PRId64 " and %" PRId64, plan->longest, plan->pads,
                    plan->contiguous_rows, plan->zigzag_rows);
}

static bool build_all(padding_trip *t, verdict *v) {
    const cpr_cu_seqlens cu = cpr_cu_seqlens_int32(t->cu, t->entries);
    for (int64_t rank = 0; rank < t->ranks; rank++) {
        cpr_error error;
        if (!call_ok(t->engine->padded_plan(&cu, t->cu[t->entries - 1], (cpr_geometry){t->ranks, rank}, NULL,
                                            &t->plans[rank], &error),
                     &error, "padded_plan", v) ||
            !boundaries_are_right(t, t->plans[rank], v))
            return false;
        if (t->plans[rank]->digest != t->plans[0]->digest)
            return law_fail(v, "ranks have other digests of one plan", "rank %" PRId64, rank);
    }
    return true;
}

/* Rows of both ranks that a run names hold the same tokens. */
static bool run_is_right(const padding_trip *t, int64_t rank, cpr_side side, const cpr_run *run, verdict *v) {
    const int64_t sender = side == CPR_SEND ? rank : run->peer,
                  receiver = side == CPR_SEND ? run->peer : rank;
    for (int64_t k = 0; k < run->length; k++) {
        const int64_t source = run->source_row + k, target = run->target_row + k;
        if (run->peer < 0 || run->peer >= t->ranks || source < 0 || source >= t->real_rows || target < 0 ||
            target >= t->padded_rows ||
            t->contiguous[sender * t->real_rows + source] != t->zigzag[receiver * t->padded_rows + target])
            return law_fail(v, "a run of a plan names rows of different tokens",
                            "rank %" PRId64 " side %d, peer %" PRId64 ": source row %" PRId64
                            ", target row %" PRId64,
                            rank, side, run->peer, source, target);
    }
    return true;
}

/* `rows`: the local rows in the order of the list. */
static bool list_is_right(const padding_trip *t, int64_t rank, cpr_side side, const int64_t *rows,
                          int64_t count, verdict *v) {
    const cpr_run_list *list = side == CPR_SEND ? &t->plans[rank]->contiguous : &t->plans[rank]->zigzag;
    bool identity = true;
    for (int64_t i = 0; i < count; i++)
        identity = identity && rows[i] == i;
    for (int64_t i = 0; i < list->count; i++)
        if (!run_is_right(t, rank, side, &list->runs[i], v))
            return false;
    return (list->rows == count && list->identity == identity) ||
           law_fail(v, "a list of a plan says of itself what is not so",
                    "rank %" PRId64 " side %d: %" PRId64 " rows of %" PRId64 ", identity %d", rank, side,
                    list->rows, count, list->identity);
}

static bool side_is_right(padding_trip *t, int64_t rank, cpr_side side, verdict *v) {
    const cpr_layout layout = side == CPR_SEND ? CPR_CONTIGUOUS : CPR_ZIGZAG;
    const int64_t most = side == CPR_SEND ? t->real_rows : t->padded_rows;
    int64_t *splits = scratch_int64(&t->memory, 2 * t->ranks), *rows = scratch_int64(&t->memory, 2 * most);
    int64_t *gather = scratch_int64(&t->memory, 2 * most);
    cpr_error error;
    if (!splits || !rows || !gather)
        return subject_no_memory(v);
    const int64_t count = crossing_list(&t->x, side, rank, splits, rows);
    for (int64_t row = 0; row < most; row++)
        gather[row] = -1;
    for (int64_t i = 0; i < count; i++)
        gather[rows[i]] = i;
    return call_ok(cpr_padded_splits(t->plans[rank], layout, splits + t->ranks, t->ranks, &error), &error,
                   "padded_splits", v) &&
           same_numbers(splits + t->ranks, "the plan", splits, "token by token", t->ranks, "split",
                        "a plan has other splits", v) &&
           call_ok(cpr_padded_send_rows(t->plans[rank], layout, rows + most, count, &error), &error,
                   "padded_send_rows", v) &&
           same_numbers(rows + most, "the plan", rows, "token by token", count, "row",
                        "a plan has other rows", v) &&
           call_ok(t->engine->padded_gather_index(t->plans[rank], layout, gather + most, most, &error),
                   &error, "padded_gather_index", v) &&
           same_numbers(gather + most, "the plan", gather, "token by token", most, "row",
                        "a plan gathers other rows", v) &&
           list_is_right(t, rank, side, rows, count, v);
}

/* What the plan packs, moved as an all-to-all-v would move it, must arrive as `wanted`, padding as zeros. Token numbers are
 * moved one higher, because a real row must differ from padding. */
static bool travels(padding_trip *t, cpr_layout from, const int64_t *held, int64_t held_rows,
                    const int64_t *wanted, int64_t wanted_rows, verdict *v) {
    const int64_t total = t->ranks * t->real_rows;
    const cpr_layout to = from == CPR_ZIGZAG ? CPR_CONTIGUOUS : CPR_ZIGZAG;
    int64_t *source = scratch_int64(&t->memory, held_rows), *sent = scratch_int64(&t->memory, total);
    int64_t *inbox = scratch_int64(&t->memory, total), *target = scratch_int64(&t->memory, wanted_rows);
    int64_t *splits = scratch_int64(&t->memory, t->ranks * t->ranks);
    int64_t *begins = scratch_int64(&t->memory, t->ranks + 1);
    if (!source || !sent || !inbox || !target || !splits || !begins)
        return subject_no_memory(v);
    begins[0] = 0;
    for (int64_t r = 0; r < t->ranks; r++) {
        for (int64_t row = 0; row < held_rows; row++)
            source[row] = held[r * held_rows + row] + 1;
        cpr_padded_splits(t->plans[r], from, splits + r * t->ranks, t->ranks, NULL);
        int64_t rows = 0;
        for (int64_t peer = 0; peer < t->ranks; peer++)
            rows += splits[r * t->ranks + peer];
        begins[r + 1] = begins[r] + rows;
        if (begins[r + 1] > total)
            return law_fail(v, "a plan sends rows twice", "rank %" PRId64, r);
        cpr_padded_pack(t->plans[r], from, sizeof *source, source, sent + begins[r]);
    }
    for (int64_t r = 0; r < t->ranks; r++) {
        int64_t arrived = 0;
        for (int64_t sender = 0; sender < t->ranks; sender++) {
            int64_t at = begins[sender];
            for (int64_t peer = 0; peer < r; peer++)
                at += splits[sender * t->ranks + peer];
            const int64_t rows = splits[sender * t->ranks + r];
            memcpy(inbox + arrived, sent + at, (size_t)rows * sizeof *sent);
            arrived += rows;
        }
        for (int64_t row = 0; row < wanted_rows; row++)
            target[row] = UNTOUCHED;
        t->engine->padded_receive(t->plans[r], to, sizeof *target, inbox, target);
        for (int64_t row = 0; row < wanted_rows; row++)
            if (target[row] != wanted[r * wanted_rows + row] + 1)
                return law_fail(v, "a plan moves rows wrongly",
                                "to %s, rank %" PRId64 " row %" PRId64 ": token %" PRId64
                                ", should be %" PRId64 " (-1: padding)",
                                cpr_layout_name(to), r, row, target[row] - 1, wanted[r * wanted_rows + row]);
    }
    return true;
}

static bool refuses_int64(padding_trip *t, verdict *v) {
    const cpr_cu_seqlens wide = cpr_cu_seqlens_int64(t->padded_cu, t->entries);
    cpr_padded_plan *plan = NULL;
    cpr_error error;
    const cpr_status status =
        t->engine->padded_plan(&wide, CPR_ROWS_UNCHECKED, (cpr_geometry){t->ranks, 0}, NULL, &plan, &error);
    cpr_padded_plan_free(plan);
    return call_refused(status, &error, (cpr_error){CPR_DTYPE, -1, CPR_INT64, CPR_INT32}, "int64 boundaries",
                        v);
}

static bool refuses_ragged_total(padding_trip *t, verdict *v) {
    const int64_t total = t->cu[t->entries - 1] + 1;
    if (t->ranks == 1 || t->entries == 1)
        return true;
    t->cu[t->entries - 1]++;
    const cpr_cu_seqlens cu = cpr_cu_seqlens_int32(t->cu, t->entries);
    cpr_padded_plan *plan = NULL;
    cpr_error error;
    const cpr_status status =
        t->engine->padded_plan(&cu, CPR_ROWS_UNCHECKED, (cpr_geometry){t->ranks, 0}, NULL, &plan, &error);
    cpr_padded_plan_free(plan);
    return call_refused(status, &error, (cpr_error){CPR_NOT_DIVISIBLE_CP, -1, total, t->ranks},
                        "tokens that ranks cannot share", v);
}

static void judge(padding_trip *t, verdict *v) {
    if (!build_all(t, v))
        return;
    for (int64_t rank = 0; rank < t->ranks; rank++)
        if (!side_is_right(t, rank, CPR_SEND, v) || !side_is_right(t, rank, CPR_RECV, v))
            return;
    if (travels(t, CPR_CONTIGUOUS, t->contiguous, t->real_rows, t->zigzag, t->padded_rows, v) &&
        travels(t, CPR_ZIGZAG, t->zigzag, t->padded_rows, t->contiguous, t->real_rows, v) &&
        refuses_int64(t, v))
        refuses_ragged_total(t, v);
}

void judge_padded(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_listable(c, v))
        return;
    padding_trip t = {.engine = engine, .c = c, .ranks = c->geometry.cp_size, .entries = c->entries};
    t.plans = calloc((size_t)t.ranks, sizeof *t.plans);
    if ((route_case_tokens(c) + 2 * t.ranks * t.entries) * t.ranks * t.ranks > WORK_MAX)
        law_skip(v, "too many tokens and ranks to look at one by one");
    else if (!t.plans || !make_boundaries(&t) || !list_tokens(&t))
        subject_no_memory(v);
    else
        judge(&t, v);
    for (int64_t rank = 0; t.plans && rank < t.ranks; rank++)
        cpr_padded_plan_free(t.plans[rank]);
    free(t.plans);
    scratch_free(&t.memory);
}
