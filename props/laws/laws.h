/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laws. law_<id> judges the library; judge_<id> judges any engine, so that engines with a bug planted on purpose
 * prove that the law can fail. `family` in laws.def names the type of a case: route -> route_case.
 */
#ifndef CPROUTE_PROPS_LAWS_H
#define CPROUTE_PROPS_LAWS_H

#include "engine_under_test.h"
#include "kit/law.h"

#define LAW(id, family, meaning)                                                                             \
    void law_##id(const family##_case *c, verdict *v);                                                       \
    void judge_##id(const family##_case *c, const engine_under_test *engine, verdict *v);
#include "laws.def"
#undef LAW

#endif
