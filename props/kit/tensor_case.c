/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor_case.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    MAX_RANKS = 4,
    MAX_ROWS = 8,
    MAX_EDITS = 3,
    MAX_CUT = 31,
    ANY_NUMBERS = 7, /* the one choice out of 0 .. ANY_NUMBERS that is not a tensor in form */
    SOURCE_ROWS = 2, /* entries of the header */
    TARGET_ROWS = 3,
    HEADER = 6
};

/*==============================================================================
 * MARK: - Drawing
 *============================================================================*/

static void append(tensor_case *c, int64_t entry) {
    if (c->count < TENSOR_MAX_ENTRIES)
        c->entries[c->count++] = entry;
}

static void draw_splits(choices *from, tensor_case *c, int64_t own, int64_t rows) {
    int64_t left = rows - own;
    for (int64_t peer = 0; peer < c->geometry.cp_size; peer++) {
        const int64_t last = c->geometry.cp_rank == c->geometry.cp_size - 1 ? c->geometry.cp_size - 2
                                                                            : c->geometry.cp_size - 1;
        const int64_t split = peer == c->geometry.cp_rank ? own
                              : peer == last              ? left
                                                          : (int64_t)choose(from, (uint64_t)left);
        left -= peer == c->geometry.cp_rank ? 0 : split;
        append(c, split);
    }
}

/* Each row is the one of those left that was chosen, so that zeros are the identity. */
static void draw_rows(choices *from, tensor_case *c, int64_t rows) {
    int64_t left[MAX_ROWS];
    for (int64_t i = 0; i < rows; i++)
        left[i] = i;
    for (int64_t count = rows; count > 0; count--) {
        const int64_t at = (int64_t)choose(from, (uint64_t)count - 1);
        append(c, left[at]);
        for (int64_t i = at; i + 1 < count; i++)
            left[i] = left[i + 1];
    }
}

static void draw_form(choices *from, tensor_case *c) {
    const int64_t rows = (int64_t)choose(from, MAX_ROWS);
    const int64_t own = c->geometry.cp_size == 1 ? rows : (int64_t)choose(from, (uint64_t)rows);
    const bool written[] = {choose(from, 1) != 0, choose(from, 1) != 0};
    append(c, c->geometry.cp_size);
    append(c, c->geometry.cp_rank);
    append(c, rows);
    append(c, rows);
    append(c, written[0] ? rows : 0);
    append(c, written[1] ? rows : 0);
    draw_splits(from, c, own, rows);
    draw_splits(from, c, own, rows);
    for (int list = 0; list < 2; list++)
        if (written[list])
            draw_rows(from, c, rows);
}

static void draw_edit(choices *from, tensor_case *c) {
    static const int64_t values[] = {0,
                                     1,
                                     -1,
                                     2,
                                     3,
                                     4,
                                     7,
                                     8,
                                     INT64_MAX,
                                     INT64_MIN,
                                     INT32_MAX,
                                     INT64_C(1) << 30,
                                     1 << 20,
                                     9,
                                     INT64_MAX - 6,
                                     INT64_C(1) << 62};
    const int64_t at = (int64_t)choose(from, (uint64_t)c->count - 1);
    const int64_t value = values[choose(from, sizeof values / sizeof *values - 1)];
    c->entries[at] = value;
    /* Else almost all of it ends where the two numbers of rows are compared. */
    if (at == SOURCE_ROWS && c->count > TARGET_ROWS && choose(from, 1) == 0)
        c->entries[TARGET_ROWS] = value;
}

static void draw_numbers(choices *from, tensor_case *c) {
    for (uint64_t left = choose(from, TENSOR_MAX_ENTRIES); left > 0; left--)
        append(c, (int64_t)choose(from, UINT64_MAX));
}

static void draw_edits(choices *from, tensor_case *c) {
    for (uint64_t left = choose(from, MAX_EDITS); left > 0; left--)
        draw_edit(from, c);
    const int64_t cut = choose(from, 3) == 3 ? (int64_t)choose(from, MAX_CUT) : 0;
    c->count -= cut < c->count ? cut : c->count;
    if (choose(from, 3) == 3)
        append(c, 0);
}

void tensor_case_draw(choices *from, tensor_case *c) {
    c->geometry.cp_size = 1 + (int64_t)choose(from, MAX_RANKS - 1);
    c->geometry.cp_rank = (int64_t)choose(from, (uint64_t)c->geometry.cp_size - 1);
    c->count = 0;
    if (choose(from, ANY_NUMBERS) == ANY_NUMBERS) {
        draw_numbers(from, c);
        return;
    }
    draw_form(from, c);
    if (choose(from, 2) != 0)
        draw_edits(from, c);
}

bool tensor_case_encode(const tensor_case *c, uint8_t *bytes, size_t capacity, size_t *length) {
    const size_t wanted = 4 + 8 * (size_t)c->count;
    if (c->geometry.cp_size > MAX_RANKS || c->count > TENSOR_MAX_ENTRIES || wanted > capacity)
        return false;
    *length = wanted;
    *bytes++ = (uint8_t)(c->geometry.cp_size - 1);
    *bytes++ = (uint8_t)c->geometry.cp_rank;
    *bytes++ = ANY_NUMBERS;
    *bytes++ = (uint8_t)c->count;
    for (int64_t i = 0; i < c->count; i++)
        for (unsigned shift = 64; shift > 0; shift -= 8)
            *bytes++ = (uint8_t)((uint64_t)c->entries[i] >> (shift - 8));
    return true;
}

/*==============================================================================
 * MARK: - The right answer
 *============================================================================*/

static cpr_error expect(cpr_status status, int64_t index, int64_t got, int64_t wanted) {
    return (cpr_error){status, index, got, wanted};
}

/* header + 2P + n_send + n_recv, INT64_MAX if that is too much. */
static int64_t whole_length(const int64_t *flat) {
    const int64_t left = INT64_MAX - HEADER - 2 * flat[0];
    return flat[4] > left || flat[5] > left - flat[4] ? INT64_MAX : HEADER + 2 * flat[0] + flat[4] + flat[5];
}

static cpr_error expected_of_header(const int64_t *flat, int64_t count, cpr_geometry geometry) {
    if (count < HEADER)
        return expect(CPR_TOTAL_MISMATCH, -1, count, HEADER);
    if (flat[0] != geometry.cp_size)
        return expect(CPR_BAD_CP_SIZE, 0, flat[0], geometry.cp_size);
    if (flat[1] != geometry.cp_rank)
        return expect(CPR_BAD_RANK, 1, flat[1], geometry.cp_rank);
    if (flat[2] < 0)
        return expect(CPR_TOTAL_MISMATCH, 2, flat[2], 0);
    if (flat[3] != flat[2])
        return expect(CPR_TOTAL_MISMATCH, 3, flat[3], flat[2]);
    for (int64_t i = 4; i < HEADER; i++)
        if (flat[i] != 0 && flat[i] != flat[2])
            return expect(CPR_TOTAL_MISMATCH, i, flat[i], flat[2]);
    if (count != whole_length(flat))
        return expect(CPR_TOTAL_MISMATCH, -1, count, whole_length(flat));
    return expect(CPR_OK, -1, 0, 0);
}

static cpr_error expected_of_splits(const int64_t *flat, int64_t first) {
    const int64_t ranks = flat[0];
    int64_t given = 0;
    for (int64_t i = first; i < first + ranks; i++) {
        if (flat[i] < 0 || flat[i] > flat[2] - given)
            return expect(CPR_SPLIT_MISMATCH, i, flat[i], flat[2] - given);
        given += flat[i];
    }
    const int64_t last = first + ranks - 1;
    if (given != flat[2])
        return expect(CPR_SPLIT_MISMATCH, last, flat[last], flat[last] + (flat[2] - given));
    return expect(CPR_OK, -1, 0, 0);
}

static cpr_error expected_of_rows(const int64_t *flat, int64_t first, int64_t header_entry) {
    const int64_t count = flat[header_entry];
    int64_t in_place = 0;
    for (int64_t i = 0; i < count; i++)
        in_place += flat[first + i] == i;
    if (count > 0 && in_place == count)
        return expect(CPR_TOTAL_MISMATCH, header_entry, count, 0);
    unsigned char *there = calloc((size_t)count + 1, 1);
    if (!there)
        return expect(CPR_NO_MEMORY, -1, 0, 0);
    cpr_error answer = expect(CPR_OK, -1, 0, 0);
    for (int64_t i = first; i < first + count && answer.status == CPR_OK; i++)
        if (flat[i] < 0 || flat[i] >= count || there[flat[i]]++)
            answer = expect(CPR_BAD_ROW, i, flat[i], count);
    free(there);
    return answer;
}

cpr_error flat_expected(const int64_t *flat, int64_t count, cpr_geometry geometry) {
    cpr_error answer = expected_of_header(flat, count, geometry);
    const int64_t ranks = geometry.cp_size, output = HEADER + ranks, rows = output + ranks;
    if (answer.status == CPR_OK)
        answer = expected_of_splits(flat, HEADER);
    if (answer.status == CPR_OK)
        answer = expected_of_splits(flat, output);
    if (answer.status == CPR_OK && flat[output + flat[1]] != flat[HEADER + flat[1]])
        answer = expect(CPR_SPLIT_MISMATCH, output + flat[1], flat[output + flat[1]], flat[HEADER + flat[1]]);
    if (answer.status == CPR_OK)
        answer = expected_of_rows(flat, rows, 4);
    if (answer.status == CPR_OK)
        answer = expected_of_rows(flat, rows + flat[4], 5);
    return answer;
}

/*==============================================================================
 * MARK: - For people
 *============================================================================*/

static void write_list(FILE *out, const int64_t *items, int64_t count) {
    fputc('[', out);
    for (int64_t i = 0; i < count; i++)
        fprintf(out, "%s%" PRId64, i ? "," : "", items[i]);
    fputc(']', out);
}

void tensor_case_show(FILE *out, const tensor_case *c) {
    fprintf(out, "flat tensor of %" PRId64 " entries for rank %" PRId64 " of %" PRId64 "\n", c->count,
            c->geometry.cp_rank, c->geometry.cp_size);
    for (int64_t i = 0; i < c->count; i++)
        fprintf(out, "%s%" PRId64, i % 12 == 0 ? "\n  " : " ", c->entries[i]);
    const cpr_error answer = flat_expected(c->entries, c->count, c->geometry);
    char text[200];
    cpr_error_format(&answer, text, sizeof text);
    fprintf(out, "\n\n%s: %s\n", cpr_status_name(answer.status), text);
}

static uint64_t hash_of(const tensor_case *c) {
    uint64_t state = (uint64_t)c->geometry.cp_size * 64 + (uint64_t)c->geometry.cp_rank;
    for (int64_t i = 0; i < c->count; i++)
        state = random_next(&state) ^ (uint64_t)c->entries[i];
    return random_next(&state);
}

void tensor_case_write_text(FILE *out, const tensor_case *c, const char *law, const char *note) {
    const cpr_error answer = flat_expected(c->entries, c->count, c->geometry);
    fprintf(out,
            "{\"id\":\"%s-%016" PRIx64
            "\",\"law\":\"%s\",\"tag\":\"found\",\"cu_seqlens\":[0],\"cp_size\":%" PRId64 ",\"rank\":%" PRId64
            ",\"ops\":[{\"op\":\"flat_form\",\"rank\":%" PRId64 ",\"t\":",
            law, hash_of(c), law, c->geometry.cp_size, c->geometry.cp_rank, c->geometry.cp_rank);
    write_list(out, c->entries, c->count);
    fprintf(out, "}],\"expect\":\"%s%s\"",
            answer.status == CPR_OK ? "" : "error:", cpr_status_name(answer.status));
    if (answer.status != CPR_OK)
        fprintf(out,
                ",\"expected\":{\"error\":{\"index\":%" PRId64 ",\"got\":%" PRId64 ",\"want\":%" PRId64 "}}",
                answer.index, answer.got, answer.wanted);
    fprintf(out, ",\"note\":\"%s\"}\n", note);
}
