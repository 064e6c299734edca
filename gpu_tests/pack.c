/* SPDX-License-Identifier: Apache-2.0 */
#include "pack.h"
#include "corpus_table.h"

#include <stdio.h>
#include <string.h>

enum { LARGEST_TOKENS = 1 << 16, MANY_SEQUENCES = 4096, REDRAWN_SEQUENCES = 12, REDRAWN_UNITS = 96 };

static void pack_start(pack *p, const char *name) {
    snprintf(p->name, sizeof p->name, "%s", name);
    p->entries = 1;
    p->cu[0] = 0;
}

static void pack_add(pack *p, int64_t length) {
    p->cu[p->entries] = p->cu[p->entries - 1] + length;
    p->entries++;
}

int64_t pack_tokens(const pack *p) {
    return p->cu[p->entries - 1];
}

/* Lengths as multiples of 2P. */
static void pack_list(pack *p, const char *name, int64_t cp_size, const int64_t *multiples, size_t count) {
    pack_start(p, name);
    for (size_t i = 0; i < count; i++)
        pack_add(p, 2 * cp_size * multiples[i]);
}
#define PACK_LIST(p, name, cp_size, ...)                                                                     \
    pack_list(p, name, cp_size, (const int64_t[]){__VA_ARGS__},                                              \
              sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

void pack_make(pack_kind kind, int64_t cp_size, pack *p) {
    switch (kind) {
    case PACK_RAGGED:
        PACK_LIST(p, "ragged", cp_size, 1, 7, 2, 31, 3, 1, 1, 64, 5);
        break;
    case PACK_ONE_SEQUENCE:
        PACK_LIST(p, "one-sequence", cp_size, 37);
        break;
    case PACK_SHORTEST:
        PACK_LIST(p, "shortest", cp_size, 1, 1, 1);
        break;
    case PACK_EMPTY_SLOTS:
        PACK_LIST(p, "empty-slots", cp_size, 0, 0, 3, 0, 5, 0, 0, 2, 0);
        break;
    case PACK_NO_TOKENS:
        PACK_LIST(p, "no-tokens", cp_size, 0);
        break;
    case PACK_4096_SEQUENCES:
        pack_start(p, "4096-sequences");
        for (int64_t i = 0; i < MANY_SEQUENCES; i++)
            pack_add(p, 2 * cp_size * (1 + i % 3));
        break;
    case PACK_KINDS:
        break;
    }
}

/* Sequence i is as long as 1 + i % 7 parts; chunks stay whole. */
void pack_spread(int64_t tokens, int64_t sequences, int64_t cp_size, pack *p) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "S=%lld", (long long)sequences);
    pack_start(p, name);
    int64_t parts = 0;
    for (int64_t i = 0; i < sequences; i++)
        parts += 1 + i % 7;
    const int64_t chunks = tokens / (2 * cp_size);
    int64_t before = 0;
    for (int64_t i = 0, seen = 0; i < sequences; i++) {
        seen += 1 + i % 7;
        const int64_t until = chunks * seen / parts;
        pack_add(p, 2 * cp_size * (until - before));
        before = until;
    }
}

void pack_redraw(pack *p, const char *name, int64_t unit, uint64_t *random) {
    bool cut[REDRAWN_UNITS] = {false};
    for (int64_t cuts = 0; cuts < REDRAWN_SEQUENCES - 1;) {
        const uint64_t at = 1 + random_next(random) % (REDRAWN_UNITS - 1);
        cuts += !cut[at];
        cut[at] = true;
    }
    pack_start(p, name);
    int64_t last = 0;
    for (int64_t at = 1; at < REDRAWN_UNITS; at++)
        if (cut[at]) {
            pack_add(p, (at - last) * unit);
            last = at;
        }
    pack_add(p, (REDRAWN_UNITS - last) * unit);
}

static bool multiples_of(const pack *p, int64_t divisor) {
    for (int64_t i = 0; i < p->entries; i++)
        if (p->cu[i] % divisor != 0)
            return false;
    return true;
}

bool pack_of_case(const route_case *c, int64_t cp_size, pack *p) {
    if (c->entries < 1 || c->entries > CASE_MAX_ENTRIES || c->cu[0] != 0)
        return false;
    pack_start(p, "case");
    for (int64_t i = 1; i < c->entries; i++) {
        if (c->cu[i] < c->cu[i - 1] || c->cu[i] > LARGEST_TOKENS)
            return false;
        pack_add(p, c->cu[i] - c->cu[i - 1]);
    }
    if (multiples_of(p, 2 * cp_size))
        return true;
    for (int64_t i = 0; i < p->entries; i++)
        p->cu[i] *= 2 * cp_size;
    return pack_tokens(p) <= LARGEST_TOKENS;
}

void pack_draw(uint64_t seed, int64_t number, int64_t cp_size, pack *p) {
    static route_case c; /* large; one thread */
    uint64_t state = seed ^ ((uint64_t)number << 32);
    do {
        choices from = choices_from_seed(random_next(&state), NULL);
        route_case_draw(&from, &CASE_BOUNDS_DRAWN, &c);
    } while (c.expected.status != CPR_OK || !pack_of_case(&c, cp_size, p));
    snprintf(p->name, sizeof p->name, "drawn %lld of seed %llu", (long long)number, (unsigned long long)seed);
}

int64_t corpus_count(void) {
    return corpus_row_count;
}

const char *corpus_id(int64_t number) {
    return corpus_rows[number].id;
}

bool corpus_case(int64_t number, route_case *c) {
    const corpus_row *row = &corpus_rows[number];
    memset((char *)c + offsetof(route_case, entries), 0, sizeof *c - offsetof(route_case, entries));
    if (row->entries > CASE_MAX_ENTRIES)
        return false;
    memcpy(c->cu, row->cu, (size_t)row->entries * sizeof *row->cu);
    c->entries = row->entries;
    c->stride = 1;
    c->dtype = CPR_INT64;
    c->rows = CPR_ROWS_UNCHECKED;
    c->geometry = (cpr_geometry){row->cp_size, 0};
    c->salt = (uint64_t)number;
    c->expected_known = true;
    return cpr_layout_from_name(row->source, &c->source) && cpr_layout_from_name(row->target, &c->target);
}
