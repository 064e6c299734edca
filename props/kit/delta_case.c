/* SPDX-License-Identifier: Apache-2.0 */
#include "delta_case.h"
#include "show.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum {
    MOST_MORE = 5,  /* one value in six ends the list of sequences */
    MOST_ANEW = 7,  /* the last value begins a micro-batch like the one before, the one below it any other */
    MOST_RANKS = 7, /* P less one */
    MOST_MULTIPLE = 3,
    MOST_RAGGED = 3, /* one rank takes any length */
    SHAPE_BYTES = 6,
    RECORD_BYTES = 6,
    COLUMNS = 80
};

/* One less, as choices: what heads have in sizes above 2 tells nothing new. */
enum { MOST_HEADS = 7, MOST_KEYS = 1, MOST_VALUES = 1, MOST_TAPS = 3 };

/*==============================================================================
 * MARK: - Drawing
 *============================================================================*/

static delta_pack *begin_batch(delta_case *c, uint64_t mode, uint64_t ranks_less_one) {
    delta_pack *pack = &c->batch[c->batches++];
    pack->mode = (delta_mode)mode;
    pack->cp_size = (int64_t)ranks_less_one + 1;
    while (pack->mode == DELTA_HEADWISE && c->shape.heads % pack->cp_size != 0)
        pack->cp_size--;
    pack->entries = 1;
    pack->cu[0] = 0;
    return pack;
}

static void add_sequence(delta_pack *pack, uint64_t multiple, uint64_t ragged) {
    const int64_t tokens = pack->cu[pack->entries - 1];
    const int64_t length = (int64_t)multiple * 2 * pack->cp_size + (pack->cp_size == 1 ? (int64_t)ragged : 0);
    if (pack->entries == DELTA_ENTRIES)
        return;
    pack->cu[pack->entries++] = tokens + length <= DELTA_TOKENS ? tokens + length : tokens;
}

void delta_case_draw(choices *from, delta_case *c) {
    c->shape.heads = 1 + (int64_t)choose(from, MOST_HEADS);
    c->shape.keys = 1 + (int64_t)choose(from, MOST_KEYS);
    c->shape.values = 1 + (int64_t)choose(from, MOST_VALUES);
    c->shape.taps = 1 + (int64_t)choose(from, MOST_TAPS);
    c->salt = choose(from, UINT16_MAX);
    c->batches = 0;
    const uint64_t mode = choose(from, DELTA_MODE_COUNT - 1), ranks = choose(from, MOST_RANKS);
    delta_pack *pack = begin_batch(c, mode, ranks);
    for (bool more = true; more;) {
        choice_record_begin(from);
        more = choose(from, MOST_MORE) != 0;
        if (more) {
            const uint64_t anew = choose(from, MOST_ANEW);
            const uint64_t its_mode = choose(from, DELTA_MODE_COUNT - 1),
                           its_ranks = choose(from, MOST_RANKS);
            const uint64_t multiple = choose(from, MOST_MULTIPLE), ragged = choose(from, MOST_RAGGED);
            if (anew == MOST_ANEW && c->batches < DELTA_BATCHES)
                pack = begin_batch(c, pack->mode, (uint64_t)pack->cp_size - 1);
            else if (anew == MOST_ANEW - 1 && c->batches < DELTA_BATCHES)
                pack = begin_batch(c, its_mode, its_ranks);
            add_sequence(pack, multiple, ragged);
        }
        choice_record_end(from);
    }
}

static void put_batch(const delta_pack *pack, uint8_t *to) {
    to[0] = (uint8_t)pack->mode;
    to[1] = (uint8_t)(pack->cp_size - 1);
}

static void put_sequence(const delta_pack *pack, int64_t i, bool anew, uint8_t *to) {
    const int64_t length = pack->cu[i + 1] - pack->cu[i], chunks = 2 * pack->cp_size;
    const int64_t multiple = length / chunks < MOST_MULTIPLE ? length / chunks : MOST_MULTIPLE;
    to[0] = 1;
    to[1] = anew ? MOST_ANEW - 1 : 0;
    memset(to + 2, 0, 2);
    if (anew)
        put_batch(pack, to + 2);
    to[4] = (uint8_t)multiple;
    to[5] = (uint8_t)(length - multiple * chunks);
}

static bool same_case(const delta_case *a, const delta_case *b) {
    if (memcmp(&a->shape, &b->shape, sizeof a->shape) != 0 || a->salt != b->salt || a->batches != b->batches)
        return false;
    for (int64_t i = 0; i < a->batches; i++) {
        const delta_pack *p = &a->batch[i], *q = &b->batch[i];
        if (p->mode != q->mode || p->cp_size != q->cp_size || p->entries != q->entries ||
            memcmp(p->cu, q->cu, (size_t)p->entries * sizeof *p->cu) != 0)
            return false;
    }
    return true;
}

/* Writes what comes nearest, and looks whether that draws the case. */
bool delta_case_encode(const delta_case *c, uint8_t *bytes, size_t capacity, size_t *length) {
    size_t sequences = 0;
    for (int64_t i = 0; i < c->batches; i++)
        sequences += (size_t)c->batch[i].entries - 1;
    const size_t wanted = SHAPE_BYTES + 2 + sequences * RECORD_BYTES + 1;
    if (wanted > capacity || c->batches < 1 || c->salt > UINT16_MAX)
        return false;
    bytes[0] = (uint8_t)(c->shape.heads - 1);
    bytes[1] = (uint8_t)(c->shape.keys - 1);
    bytes[2] = (uint8_t)(c->shape.values - 1);
    bytes[3] = (uint8_t)(c->shape.taps - 1);
    bytes[4] = (uint8_t)(c->salt >> 8);
    bytes[5] = (uint8_t)c->salt;
    put_batch(&c->batch[0], bytes + SHAPE_BYTES);
    uint8_t *at = bytes + SHAPE_BYTES + 2;
    for (int64_t i = 0; i < c->batches; i++)
        for (int64_t k = 0; k + 1 < c->batch[i].entries; k++, at += RECORD_BYTES)
            put_sequence(&c->batch[i], k, i > 0 && k == 0, at);
    *at = 0;
    delta_case again;
    choices from = choices_from_bytes(bytes, wanted, NULL);
    delta_case_draw(&from, &again);
    *length = wanted;
    return same_case(c, &again);
}

delta_batch delta_batch_of(const delta_pack *pack) {
    return (delta_batch){pack->mode, pack->cp_size, pack->cu, pack->entries};
}

/*==============================================================================
 * MARK: - The right answer
 *============================================================================*/

static cpr_error expected_of_boundaries(const delta_pack *pack) {
    if (pack->cp_size < 1)
        return (cpr_error){CPR_BAD_CP_SIZE, -1, pack->cp_size, 1};
    if (pack->entries == 0)
        return (cpr_error){CPR_EMPTY_CU_SEQLENS, -1, 0, 1};
    if (pack->cu[0] != 0)
        return (cpr_error){CPR_NONZERO_START, 0, pack->cu[0], 0};
    for (int64_t i = 1; i < pack->entries; i++)
        if (pack->cu[i] < pack->cu[i - 1])
            return (cpr_error){CPR_DECREASING, i, pack->cu[i], pack->cu[i - 1]};
    for (int64_t i = 0; pack->cp_size > 1 && i + 1 < pack->entries; i++)
        if ((pack->cu[i + 1] - pack->cu[i]) % (2 * pack->cp_size) != 0)
            return (cpr_error){CPR_NOT_DIVISIBLE_2CP, i, pack->cu[i + 1] - pack->cu[i], 2 * pack->cp_size};
    return (cpr_error){.status = CPR_OK};
}

delta_error delta_expected(const delta_shape *shape, const delta_pack *pack) {
    const int64_t sizes[] = {shape->heads, shape->keys, shape->values, shape->taps};
    if ((int)pack->mode < 0 || (int)pack->mode >= DELTA_MODE_COUNT)
        return (delta_error){.status = DELTA_BAD_MODE, .got = (int)pack->mode, .wanted = DELTA_MODE_COUNT};
    for (size_t i = 0; i < COUNT(sizes); i++)
        if (sizes[i] < 1)
            return (delta_error){.status = DELTA_BAD_SHAPE, .got = sizes[i], .wanted = 1};
    if (shape->keys > DELTA_MOST_KEYS)
        return (delta_error){.status = DELTA_BAD_SHAPE, .got = shape->keys, .wanted = DELTA_MOST_KEYS};
    const cpr_error route = expected_of_boundaries(pack);
    if (route.status != CPR_OK)
        return (delta_error){.status = DELTA_NOT_ROUTED, .route = route};
    if (pack->mode == DELTA_HEADWISE && shape->heads % pack->cp_size != 0)
        return (delta_error){
            .status = DELTA_NOT_DIVISIBLE_HEADS, .got = shape->heads, .wanted = pack->cp_size};
    return (delta_error){.status = DELTA_OK};
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

static void show_layouts(FILE *out, const delta_pack *pack) {
    route_case *c = calloc(1, sizeof *c);
    if (!c)
        return;
    memcpy(c->cu, pack->cu, (size_t)pack->entries * sizeof *c->cu);
    c->entries = pack->entries;
    c->stride = 1;
    c->dtype = CPR_INT64;
    c->geometry.cp_size = pack->cp_size;
    show_layout(out, c, CPR_ZIGZAG, -1, false, COLUMNS);
    show_layout(out, c, CPR_CONTIGUOUS, -1, false, COLUMNS);
    free(c);
}

void delta_case_show(FILE *out, const delta_case *c) {
    fprintf(out,
            "heads %" PRId64 "  keys %" PRId64 "  values %" PRId64 "  taps %" PRId64 "  salt %" PRIu64 "\n",
            c->shape.heads, c->shape.keys, c->shape.values, c->shape.taps, c->salt);
    for (int64_t i = 0; i < c->batches; i++) {
        const delta_pack *pack = &c->batch[i];
        const delta_error answer = delta_expected(&c->shape, pack);
        fprintf(out, "\nmicro-batch %" PRId64 ": %s on %" PRId64 " ranks, %s\n  cu_seqlens ", i,
                delta_mode_name(pack->mode), pack->cp_size, delta_error_name(&answer));
        write_list(out, pack->cu, pack->entries);
        fputc('\n', out);
        if (answer.status != DELTA_OK)
            continue;
        show_layouts(out, pack);
    }
}

static uint64_t hash_of(const delta_case *c) {
    uint64_t state = c->salt;
    const int64_t sizes[] = {c->shape.heads, c->shape.keys, c->shape.values, c->shape.taps};
    for (size_t i = 0; i < COUNT(sizes); i++)
        state = random_next(&state) ^ (uint64_t)sizes[i];
    for (int64_t i = 0; i < c->batches; i++) {
        state = random_next(&state) ^ ((uint64_t)c->batch[i].mode << 32) ^ (uint64_t)c->batch[i].cp_size;
        for (int64_t k = 0; k < c->batch[i].entries; k++)
            state = random_next(&state) ^ (uint64_t)c->batch[i].cu[k];
    }
    return random_next(&state);
}

void delta_case_write_text(FILE *out, const delta_case *c, const char *law, const char *note) {
    fprintf(out,
            "{\"id\":\"%s-%016" PRIx64 "\",\"law\":\"%s\",\"tag\":\"found\",\"cu_seqlens\":[0],\"cp_size\":1,"
            "\"ops\":[{\"op\":\"delta\",\"heads\":%" PRId64 ",\"keys\":%" PRId64 ",\"values\":%" PRId64
            ",\"taps\":%" PRId64 "}",
            law, hash_of(c), law, c->shape.heads, c->shape.keys, c->shape.values, c->shape.taps);
    for (int64_t i = 0; i < c->batches; i++) {
        fprintf(out, ",{\"op\":\"micro_batch\",\"mode\":\"%s\",\"cp\":%" PRId64 ",\"cu\":",
                delta_mode_name(c->batch[i].mode), c->batch[i].cp_size);
        write_list(out, c->batch[i].cu, c->batch[i].entries);
        fputc('}', out);
    }
    if (c->salt)
        fprintf(out, ",{\"op\":\"salt\",\"n\":%" PRIu64 "}", c->salt);
    fprintf(out, "],\"expect\":\"ok\",\"note\":");
    write_json_string(out, note);
    fputs("}\n", out);
}
