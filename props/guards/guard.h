/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guards as models under test: what published code keys a cached route on, beside the two guards of this library. Each is put
 * through cache scripts that allow one mutation only; what it serves is compared with the route of the true contents.
 */
#ifndef CPROUTE_PROPS_GUARD_H
#define CPROUTE_PROPS_GUARD_H

#include "kit/law.h"

typedef struct guard {
    const char *name;
    const char *meaning;
    cpr_guard ours;   /* of this library; CPR_GUARD_DEFAULT: a published key, as below */
    unsigned key;     /* what has to be the same */
    bool in_params;   /* kept in the parameters object, and copied with it; else in one table */
    bool one_route;   /* and only the latest of each direction */
    bool holds;       /* keeps the tensor alive */
    bool checks_rows; /* on hits, that is */
    bool checks_group;
} guard;

extern const guard guards[];
extern const size_t guard_count;

/* What a script may do beside asking for one route of tensors that stay as they are. */
typedef struct mutation {
    const char *name;
    cache_alphabet kinds;
    bool renews; /* other tensors take the place of the first */
    bool copies; /* the same, in copies of its parameters object */
    bool reuse, strides, dtypes, sizes, ranks, directions, rows, wraps, unversioned;
    bool grows; /* judged is how many routes are kept, not which is served */
} mutation;

extern const mutation mutations[];
extern const size_t mutation_count;

/* Scripts per guard and mutation that the table rests on. */
enum { GUARD_SCRIPTS = 6000 };

/* The most entries that a guard may keep where growth is judged. */
enum { GUARD_BOUND = 2 };

/* Puts the guard through a script. LAW_FAILED: it served a stale route, or grew. Returns how many lookups it refused though they
 * were legal. */
uint64_t guard_judge(const guard *g, const mutation *m, const cache_case *c, verdict *v);

/* What a guard answered to each operation of a script. */
typedef enum guard_outcome {
    GUARD_NOT_ASKED,
    GUARD_MISS,
    GUARD_HIT,
    GUARD_STALE,
    GUARD_REFUSES
} guard_outcome;

/* `outcomes` has room for every operation. For published keys: of ours, cache_walk tells more. */
void guard_trace(const guard *g, const cache_case *c, guard_outcome *outcomes);

/* Takes out of a script what the mutation does not allow. */
void mutation_restrict(const mutation *m, cache_case *c);

/* Looks for a script that the guard fails on, and shrinks it. */
typedef struct guard_finding {
    bool stale;
    uint64_t scripts; /* tried */
    uint64_t refused; /* legal lookups */
    double seconds;
    verdict verdict;
    cache_case script; /* the shortest that was found */
} guard_finding;
void guard_search(const guard *g, const mutation *m, uint64_t most_scripts, guard_finding *found);

/* docs/cache-guards.md. False without memory, or if writing fails. */
bool guards_write(FILE *out, uint64_t most_scripts);

#endif
