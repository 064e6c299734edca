/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "laws.h"
#include "oracle.h"
#include "real_lengths.h"
#include <inttypes.h>
#include <string.h>

typedef struct bookkeeping {
    const engine_under_test *engine;
    const route_case *c;
    cpr_padding padding;
    int64_t rows, total, real_total;
    int64_t *real_of, *next_of; /* of every padded token, as token by token says */
    int64_t *padded_of;         /* of every real token */
    scratch memory;
} bookkeeping;

static bool number_tokens(bookkeeping *b, const int64_t *real) {
    const route_case *c = b->c;
    int64_t count = 0;
    b->total = c->cu[c->entries - 1];
    b->real_total = real[c->entries - 1];
    b->real_of = scratch_int64(&b->memory, b->total);
    b->next_of = scratch_int64(&b->memory, b->total);
    b->padded_of = scratch_int64(&b->memory, b->real_total);
    if (!b->real_of || !b->next_of || !b->padded_of)
        return false;
    for (int64_t i = 0; i + 1 < c->entries; i++)
        for (int64_t token = c->cu[i]; token < c->cu[i + 1]; token++) {
            const int64_t offset = token - c->cu[i], length = real[i + 1] - real[i];
            b->real_of[token] = offset < length ? count : -1;
            b->next_of[token] = offset + 1 < length ? token + 1 : -1;
            if (offset < length)
                b->padded_of[count++] = token;
        }
    return true;
}

static bool maps_are_right(bookkeeping *b, verdict *v) {
    int64_t *real_of = scratch_int64(&b->memory, b->total);
    int64_t *padded_of = scratch_int64(&b->memory, b->real_total);
    cpr_error error;
    if (!real_of || !padded_of)
        return subject_no_memory(v);
    return call_ok(cpr_padding_map(&b->padding, real_of, b->total, padded_of, b->real_total, &error), &error,
                   "padding_map", v) &&
           same_numbers(real_of, "padding_map", b->real_of, "token by token", b->total, "padded token",
                        "a padded token is another real one", v) &&
           same_numbers(padded_of, "padding_map", b->padded_of, "token by token", b->real_total, "real token",
                        "a real token is another padded one", v);
}

static bool rows_are_right(bookkeeping *b, int64_t rank, const int64_t *tokens, verdict *v) {
    const cpr_geometry geometry = {b->c->geometry.cp_size, rank};
    int64_t *got = scratch_int64(&b->memory, b->rows), *wanted = scratch_int64(&b->memory, b->rows);
    int64_t counted = -1, real_rows = 0;
    cpr_error error;
    if (!got || !wanted)
        return subject_no_memory(v);
    for (int64_t row = 0; row < b->rows; row++) {
        wanted[row] = b->real_of[tokens[row]];
        real_rows += wanted[row] >= 0;
    }
    if (!call_ok(cpr_real_rows(&b->padding, geometry, b->c->source, NULL, &counted, &error), &error,
                 "real_rows", v) ||
        !same_numbers(&counted, "real_rows", &real_rows, "token by token", 1, "count",
                      "a rank has other real rows", v) ||
        !call_ok(b->engine->real_tokens(&b->padding, geometry, b->c->source, NULL, got, b->rows, &error),
                 &error, "real_tokens", v) ||
        !same_numbers(got, "real_tokens", wanted, "token by token", b->rows, "row",
                      "a row is another real token", v))
        return false;
    for (int64_t row = 0; row < b->rows; row++)
        wanted[row] = b->next_of[tokens[row]];
    return call_ok(b->engine->successors(&b->padding, geometry, b->c->source, NULL, got, b->rows, &error),
                   &error, "successors", v) &&
           same_numbers(got, "successors", wanted, "token by token", b->rows, "row",
                        "a row has another successor", v);
}

static bool offsets_are_right(bookkeeping *b, int64_t rank, const int64_t *tokens, verdict *v) {
    const int64_t entries = b->c->entries;
    int64_t *got = scratch_int64(&b->memory, entries), *wanted = scratch_int64(&b->memory, entries);
    cpr_error error;
    if (!got || !wanted)
        return subject_no_memory(v);
    for (int64_t i = 0; i < entries; i++) {
        wanted[i] = 0;
        for (int64_t row = 0; row < b->rows; row++)
            wanted[i] += tokens[row] < b->c->cu[i];
    }
    return call_ok(cpr_local_offsets(&b->padding.padded, (cpr_geometry){b->c->geometry.cp_size, rank},
                                     b->c->source, NULL, got, entries, &error),
                   &error, "local_offsets", v) &&
           same_numbers(got, "local_offsets", wanted, "token by token", entries, "boundary",
                        "a local offset is another one", v);
}

/* Sequences at the end that have no real token may be left out of the real boundaries, which then end where their block does. */
static bool unreached_have_none(bookkeeping *b, const int64_t *real, int64_t rank, const int64_t *tokens,
                                verdict *v) {
    const cpr_padding whole = b->padding;
    int64_t reached = b->c->entries;
    while (reached > 1 && real[reached - 1] == real[reached - 2])
        reached--;
    if (reached == b->c->entries)
        return true;
    int64_t *shorter = scratch_int64(&b->memory, reached);
    if (!shorter)
        return subject_no_memory(v);
    memcpy(shorter, real, (size_t)reached * sizeof *shorter);
    b->padding.real = cpr_cu_seqlens_int64(shorter, reached);
    const bool good = maps_are_right(b, v) && rows_are_right(b, rank, tokens, v);
    b->padding = whole;
    return good;
}

/* Where no real boundaries are given, every token is real. */
static bool all_are_real(bookkeeping *b, int64_t rank, const int64_t *tokens, verdict *v) {
    const bookkeeping whole = *b;
    b->padding.real = (cpr_cu_seqlens){0};
    const bool good = number_tokens(b, b->c->cu) ? maps_are_right(b, v) && rows_are_right(b, rank, tokens, v)
                                                 : subject_no_memory(v);
    const scratch memory = b->memory;
    *b = whole;
    b->memory = memory;
    return good;
}

static bool refuses_too_long(bookkeeping *b, int64_t *real, verdict *v) {
    const int64_t sequences = b->c->entries - 1;
    if (sequences == 0)
        return true;
    const int64_t i = (int64_t)salt_below(b->c->salt, 42, (uint64_t)sequences);
    const int64_t padded = b->c->cu[i + 1] - b->c->cu[i], more = padded + 1 - (real[i + 1] - real[i]);
    for (int64_t k = i + 1; k <= sequences; k++)
        real[k] += more;
    cpr_error error;
    return call_refused(cpr_padding_check(&b->padding, &error), &error,
                        (cpr_error){CPR_TOTAL_MISMATCH, i, padded + 1, padded},
                        "more real tokens than there are", v);
}

enum { WORK_MAX = 1 << 22 };

static void judge(bookkeeping *b, int64_t *real, verdict *v) {
    const oracle_pack pack = oracle_pack_of(b->c);
    int64_t *tokens = scratch_int64(&b->memory, b->rows);
    if (!tokens || !number_tokens(b, real)) {
        subject_no_memory(v);
        return;
    }
    if (!maps_are_right(b, v))
        return;
    const int64_t rank = b->c->geometry.cp_rank;
    oracle_tokens(&pack, b->c->source, rank, tokens);
    if (rows_are_right(b, rank, tokens, v) && offsets_are_right(b, rank, tokens, v) &&
        unreached_have_none(b, real, rank, tokens, v) && all_are_real(b, rank, tokens, v))
        refuses_too_long(b, real, v);
}

void judge_real_rows(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_listable(c, v))
        return;
    bookkeeping b = {.engine = engine, .c = c, .rows = route_case_tokens(c) / c->geometry.cp_size};
    int64_t *real = real_boundaries(c, &b.memory), *padded = scratch_int64(&b.memory, c->entries);
    /* The target layout may ask more of lengths, so what is legal for the case is legal for its source. */
    if (!real || !padded)
        subject_no_memory(v);
    else if (b.rows * c->entries > WORK_MAX)
        law_skip(v, "too many rows and boundaries to compare one by one");
    else {
        /* A block that ends where the boundaries do. */
        memcpy(padded, c->cu, (size_t)c->entries * sizeof *padded);
        b.padding =
            (cpr_padding){cpr_cu_seqlens_int64(padded, c->entries), cpr_cu_seqlens_int64(real, c->entries)};
        judge(&b, real, v);
    }
    scratch_free(&b.memory);
}
