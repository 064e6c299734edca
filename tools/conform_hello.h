/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an implementation says about itself in its first line, and so which questions it is asked:
 *   {"hello":NAME, "ops":["route","layout","exchange","cache"],
 *    "layouts":[NAME,..]        those that it knows; zigzag and contiguous if left out
 *    "routes":[[FROM,TO],..]    between these only; between all of its layouts, and refusing others, if left out
 *    "options":[..]             fields of a request that it reads: "dtype", "device", "rows", "tp"
 *    "operations":[..]          of a script on tensors and a cache: those that it knows; all, if left out
 *    "errors":"details"|"kind"|"any"   how exactly its errors are compared
 *    "max_tokens":N, "max_cp_size":N,
 *    "skipped":REASON}          it cannot be asked here
 */
#ifndef CPROUTE_TOOLS_CONFORM_HELLO_H
#define CPROUTE_TOOLS_CONFORM_HELLO_H

#include "kit/cache_case.h"
#include "kit/route_case.h"

typedef enum question_op { ASK_ROUTE, ASK_LAYOUT, ASK_EXCHANGE, ASK_CACHE, QUESTION_OPS } question_op;
extern const char *const question_op_names[QUESTION_OPS];

typedef enum error_grade { ERRORS_DETAILS, ERRORS_KIND, ERRORS_ANY, ERROR_GRADES } error_grade;

typedef struct hello {
    char name[80], skipped[240]; /* empty: it can be asked */
    bool ops[QUESTION_OPS];
    bool layouts[CPR_LAYOUT_COUNT];
    bool routes_listed, routes[CPR_LAYOUT_COUNT][CPR_LAYOUT_COUNT];
    bool reads_dtype, reads_device, reads_rows, reads_tp;
    bool knows_operation[CACHE_OP_KINDS];
    error_grade errors;
    int64_t max_tokens, max_cp_size;
} hello;

/* False with a sentence in `mistake`: reading is strict, so that a field that is misspelt is no field without effect. */
bool hello_parse(hello *h, const char *line, size_t length, char *mistake, size_t size);

/* May the case be put to it as that question? */
bool hello_allows(const hello *h, question_op op, const route_case *c);

/* May the script be put to it? */
bool hello_allows_script(const hello *h, const cache_case *c);

#endif
