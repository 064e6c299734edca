/* SPDX-License-Identifier: Apache-2.0 */
/* Packed batches to be moved, legal for every layout at the cp_size that they are made for. */
#ifndef CPROUTE_GPU_TESTS_PACK_H
#define CPROUTE_GPU_TESTS_PACK_H

#include "kit/route_case.h"
#include "report.h"

typedef struct pack {
    char name[NAME_BYTES];
    int64_t entries;
    int64_t cu[CASE_MAX_ENTRIES];
} pack;

/* Small ones that differ in kind. */
typedef enum pack_kind {
    PACK_RAGGED,
    PACK_ONE_SEQUENCE, /* from P = 3 on, half of the split sizes are zero */
    PACK_SHORTEST,     /* every chunk is one token */
    PACK_EMPTY_SLOTS,
    PACK_NO_TOKENS,
    PACK_4096_SEQUENCES,
    PACK_KINDS
} pack_kind;
void pack_make(pack_kind kind, int64_t cp_size, pack *p);

/* `sequences` of unequal lengths, `tokens` in all or a little less. */
void pack_spread(int64_t tokens, int64_t sequences, int64_t cp_size, pack *p);

/* The boundaries of a case, scaled so that they are legal for cp_size. False if that is too large, or they are wrong. */
bool pack_of_case(const route_case *c, int64_t cp_size, pack *p);

/* Twelve sequences of 96 times `unit` tokens in all, which it divides; drawn anew each time, so that entries and tokens stay. The
 * same on every rank for the same *random. */
void pack_redraw(pack *p, const char *name, int64_t unit, uint64_t *random);

/* Drawn; the same on every rank for the same numbers. */
void pack_draw(uint64_t seed, int64_t number, int64_t cp_size, pack *p);

/* A whole legal and listable case of the corpus, drawn or not, as laws take it. */
bool corpus_case(int64_t number, route_case *c);
int64_t corpus_count(void);
const char *corpus_id(int64_t number);

int64_t pack_tokens(const pack *p);

#endif
