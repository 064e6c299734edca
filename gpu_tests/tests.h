/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPROUTE_GPU_TESTS_TESTS_H
#define CPROUTE_GPU_TESTS_TESTS_H

#include "stage.h"

typedef enum where { SIMULATED, REAL, FAULT, LOST, BOTH, ONCE, BOTH_ONCE } where;

/* False, with the failure told, or true. A test that does not apply here calls test_skip. */
typedef bool test_function(stage *s);

#define TEST(name, where, least_ranks, seconds, meaning) test_function test_##name;
#include "tests.def"
#undef TEST

/* Returns true: nothing failed. */
bool test_skip(const stage *s, const char *reason);

#endif
