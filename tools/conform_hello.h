/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an implementation says about itself in its first line, and so which questions it is asked:
 *   {"hello":NAME, "ops":["route","layout","exchange","flat","two_view","fused","chunks","pad","real","outcome","cache"],
 *    "layouts":[NAME,..]        those that it knows; zigzag and contiguous if left out
 *    "routes":[[FROM,TO],..]    between these only; between all of its layouts, and refusing others, if left out
 *    "options":[..]             fields of a request that it reads: "dtype", "device", "rows", "tp"
 *    "operations":[..]          of scripts on tensors and a cache, and of outcomes: those that it knows; all, if left out
 *    "errors":"details"|"kind"|"any"   how exactly its errors are compared
 *    "max_tokens":N, "max_cp_size":N,
 *    "skipped":REASON}          it cannot be asked here
 */
#ifndef CPROUTE_TOOLS_CONFORM_HELLO_H
#define CPROUTE_TOOLS_CONFORM_HELLO_H

#include "kit/cache_case.h"
#include "kit/route_case.h"
#include "text/text_case.h"

#include <jansson.h>

typedef enum question_op {
    ASK_ROUTE,
    ASK_LAYOUT,
    ASK_EXCHANGE,
    ASK_FLAT, /* from here on as route_shape has them */
    ASK_TWO_VIEW,
    ASK_FUSED,
    ASK_CHUNKS,
    ASK_PAD,
    ASK_REAL,
    ASK_OUTCOME,
    ASK_CACHE,
    QUESTION_OPS
} question_op;
extern const char *const question_op_names[QUESTION_OPS];

/* Is it put as a text case? */
static inline bool asks_with_text(question_op op) {
    return op >= ASK_FLAT && op <= ASK_OUTCOME;
}

typedef enum error_grade { ERRORS_DETAILS, ERRORS_KIND, ERRORS_ANY, ERROR_GRADES } error_grade;

typedef struct hello {
    char name[80], skipped[240]; /* empty: it can be asked */
    bool ops[QUESTION_OPS];
    bool layouts[CPR_LAYOUT_COUNT];
    bool routes_listed, routes[CPR_LAYOUT_COUNT][CPR_LAYOUT_COUNT];
    bool reads_dtype, reads_device, reads_rows, reads_tp;
    bool knows_operation[CACHE_OP_KINDS], knows_case_operation[TEXT_CASE_OPS];
    error_grade errors;
    int64_t max_tokens, max_cp_size;
} hello;

/* False with a sentence in `mistake`: reading is strict, so that a field that is misspelt is no field without effect. */
bool hello_parse(hello *h, const char *line, size_t length, char *mistake, size_t size);

/* What it can be asked, as the fields of a hello. The caller gives it back. */
json_t *hello_offers(const hello *h);

/* The same read again, false with a sentence in `mistake`. */
bool hello_parse_offers(hello *h, json_t *offers, char *mistake, size_t size);

/* Can everything be asked of `now` that could be asked `before`? False with what cannot in `lost`. */
bool hello_offers_all(const hello *before, const hello *now, char *lost, size_t size);

/* May the case be put to it as that question? */
bool hello_allows(const hello *h, question_op op, const route_case *c);

/* Does it know what an operation of a text case means? Those that are options and layouts are not asked for here. */
bool hello_knows_operation(const hello *h, const char *name);

/* May the script be put to it? */
bool hello_allows_script(const hello *h, const cache_case *c);

#endif
