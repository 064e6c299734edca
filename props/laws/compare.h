/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparisons that put both answers and the first place where they differ into the verdict. Each returns
 * whether they are the same, and fails the law with `reason` if not. Names say who answered what.
 */
#ifndef CPROUTE_PROPS_COMPARE_H
#define CPROUTE_PROPS_COMPARE_H

#include "kit/law.h"

bool same_error(const cpr_error *a, const char *a_name, const cpr_error *b, const char *b_name,
                const char *reason, verdict *v);

/* Did the call that returned `status` and wrote *error say what the case expects? Where a case knows no
 * details, only the status counts. */
bool as_expected(const route_case *c, cpr_status status, const cpr_error *error, const char *name,
                 verdict *v);

bool same_numbers(const int64_t *a, const char *a_name, const int64_t *b, const char *b_name, int64_t count,
                  const char *what, const char *reason, verdict *v);

/* Runs, rows and the identity flag. */
bool same_run_list(const cpr_run_list *a, const char *a_name, const cpr_run_list *b, const char *b_name,
                   const char *reason, verdict *v);

/* Every field but the allocator. */
bool same_route(const cpr_route *a, const char *a_name, const cpr_route *b, const char *b_name,
                const char *reason, verdict *v);

/* Fails unless the call succeeded, and its status and error agree. */
bool call_ok(cpr_status status, const cpr_error *error, const char *what, verdict *v);

/* Fails unless the call was refused with exactly this. */
bool call_refused(cpr_status status, const cpr_error *error, cpr_error wanted, const char *what, verdict *v);

#endif
