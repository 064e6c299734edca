/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One case for a law about routes: a request, whole or with something wrong with it on purpose.
 *
 * Wrong cases are legal ones with one or two named corruptions, so which error is right, in every detail, is known
 * without asking the code under test.
 */
#ifndef CPROUTE_PROPS_ROUTE_CASE_H
#define CPROUTE_PROPS_ROUTE_CASE_H

#include "choice.h"
#include "cproute/cproute.h"

enum {
    /* Bump when the same bytes decode to another case; a golden test pins it. corpus/seeds is regenerated then. */
    CASE_FORMAT_VERSION = 2,
    CASE_MAX_ENTRIES = 4100,  /* entries of the largest text case */
    CASE_MAX_SEQUENCES = 64,  /* sequences that are drawn */
    CASE_MAX_TOKENS = 256,    /* tokens that are drawn; fuzzers live on cases per second */
    CASE_ENUMERABLE = 1 << 16 /* laws that list tokens do not apply above */
};

typedef struct route_case {
    int64_t cu[CASE_MAX_ENTRIES]; /* only the first `entries` are set */
    int64_t entries;
    int64_t stride; /* that the boundaries are handed over with */
    cpr_dtype dtype;
    cpr_device device;
    int64_t rows;
    cpr_geometry geometry;
    cpr_layout source, target;
    int64_t tp_size;
    uint64_t salt;       /* free choice for laws: where to insert, what to damage, how wide a row is */
    cpr_error expected;  /* what every builder must answer; CPR_OK when legal */
    bool expected_known; /* false: a text case that states no error detail, only expected.status */
} route_case;

/* How far drawing goes. The exhaustive source draws with small bounds, the others with CASE_BOUNDS_DRAWN. */
typedef struct case_bounds {
    int64_t max_cp_size;
    int64_t max_sequences;
    int64_t max_multiple; /* a sequence is up to this many times 2P long */
    bool dressing;        /* draw dtype, stride, row count, salt and ragged lengths too */
    bool corruptions;
} case_bounds;
extern const case_bounds CASE_BOUNDS_DRAWN;      /* P to 12, 64 sequences, everything */
extern const case_bounds CASE_BOUNDS_EXHAUSTIVE; /* P to 5, 4 slots with empty ones, no dressing */
extern const case_bounds CASE_BOUNDS_CORRUPTED;  /* P to 3, 2 slots, with corruptions */

/* Total: every stream of choices makes a case. */
void route_case_draw(choices *choices, const case_bounds *bounds, route_case *c);

/* The bytes that CASE_BOUNDS_DRAWN draws `c` from. False where there are none: a text case may be larger, or wrong in a way that no
 * corruption makes. The bytes are canonical: decoding and encoding them again gives the same bytes. */
bool route_case_encode(const route_case *c, uint8_t *bytes, size_t capacity, size_t *length);

/* Copies what is set, and no more: cases are large. */
void route_case_copy(route_case *to, const route_case *from);
bool route_case_equal(const route_case *a, const route_case *b);

/* Total tokens of a case with legal boundaries. */
int64_t route_case_tokens(const route_case *c);

/*
 * Boundaries in memory as the case says (dtype, stride), in a heap block of exactly the bytes that may be read, so that ASan sees
 * every overrun; gaps hold noise. int32 cases whose entries do not fit are handed over as int64.
 */
typedef struct boundaries {
    void *block; /* NULL for an empty array and if memory ran out */
    cpr_route_request request;
} boundaries;
boundaries boundaries_make(const route_case *c);
void boundaries_free(boundaries *b);

#endif
