/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One case for a law about the validity cache: a script of operations on a few named tensors. Every script is legal: an
 * operation on a tensor that is not there does nothing.
 *
 * A name stands for a parameters object that refers to a tensor: `new` on a name in use replaces the tensor in the
 * object, `clone` makes another object that refers to the same tensor.
 */
#ifndef CPROUTE_PROPS_CACHE_CASE_H
#define CPROUTE_PROPS_CACHE_CASE_H

#include "choice.h"
#include "cproute/cproute.h"

enum {
    /* Bump when the same bytes decode to another script; a golden test pins it. */
    CACHE_CASE_FORMAT_VERSION = 4,
    CACHE_OPS_DRAWN = 48,
    CACHE_OPS_MAX = 512, /* of a text case */
    CACHE_NAMES_DRAWN = 4,
    CACHE_NAMES_MAX = 64,
    CACHE_NAME_BYTES = 16,
    CACHE_ENTRIES_MAX = 32, /* of a tensor */
    CACHE_NO_NAME = 255,
    CACHE_SAME_DTYPE = 100 /* view: that of the tensor viewed */
};

typedef enum cache_op_kind {
    CACHE_GET,
    CACHE_WRITE,     /* counted by the version */
    CACHE_RAW_WRITE, /* not counted */
    CACHE_NEW,
    CACHE_VIEW,
    CACHE_FREE,
    CACHE_REBIND,
    CACHE_SET_VERSION,
    CACHE_CLONE,
    CACHE_INVALIDATE,
    CACHE_CAP,
    CACHE_CAPTURE,
    CACHE_REPLAY,
    CACHE_RELEASE,
    CACHE_PREBUILD,
    CACHE_RESOLVE,
    CACHE_CLEAR,
    CACHE_COUNT,
    CACHE_OP_KINDS
} cache_op_kind;

typedef enum cache_want {
    CACHE_WANT_ANYTHING,
    CACHE_WANT_HIT,
    CACHE_WANT_MISS,
    CACHE_WANT_OK,
    CACHE_WANT_ERROR,
    CACHE_WANT_CASE /* of a text case that says nothing of this step: what fails here is what the case ends in */
} cache_want;

typedef struct cache_op {
    cache_op_kind kind;
    uint8_t name;
    uint8_t
        other; /* view, clone: of that; new: reuses what that one had before it was freed, or CACHE_NO_NAME */
    bool inference, blind;
    uint8_t q_padded, kv, kv_padded; /* resolve: names or CACHE_NO_NAME */
    cpr_dtype dtype;                 /* new, view */
    cpr_device device;               /* new */
    int64_t device_index;
    int64_t data[CACHE_ENTRIES_MAX]; /* new, rebind */
    int64_t count;                   /* of data */
    int64_t low, high, stride;       /* view: [low, high) by stride */
    int64_t index, value;            /* writes; set_version, cap, count: value */
    cpr_geometry geometry;           /* lookups */
    cpr_layout source, target;       /* resolve: source */
    int64_t rows, tp_size;
    cache_want want;
    cpr_status want_status;
} cache_op;

typedef struct cache_case {
    cpr_guard guard;
    int64_t max_entries, max_bytes;
    int64_t op_count;
    cache_op ops[CACHE_OPS_MAX]; /* only the first op_count are set */
    char names[CACHE_NAMES_MAX][CACHE_NAME_BYTES];
} cache_case;

/* A set of kinds, as a bit each: draws nothing else. */
typedef uint32_t cache_alphabet;
extern const cache_alphabet CACHE_ALPHABET_DRAWN;

/* Total: every stream of choices makes a script. */
void cache_case_draw(choices *from, cache_alphabet alphabet, cache_case *c);

/* The canonical bytes that CACHE_ALPHABET_DRAWN draws `c` from. False where there are none: a text case may say more.
 * What a case wants of its steps is not in the bytes. */
bool cache_case_encode(const cache_case *c, uint8_t *bytes, size_t capacity, size_t *length);

void cache_case_copy(cache_case *to, const cache_case *from);
bool cache_case_equal(const cache_case *a, const cache_case *b);

/* As in text cases: "get", "raw_write", ... */
const char *cache_op_name(cache_op_kind kind);
bool cache_op_from_name(const char *name, cache_op_kind *kind);

/* "default", "version", "content". */
const char *cache_guard_name(cpr_guard guard);
bool cache_guard_from_name(const char *name, cpr_guard *guard);

/* A line for a person, without the newline: get B  cp 2 rank 0  zigzag->contiguous. */
int cache_op_format(const cache_case *c, const cache_op *op, char *text, size_t size);

/* A JSON object, as in text cases. */
int cache_op_format_json(const cache_case *c, const cache_op *op, char *text, size_t size);

#endif
