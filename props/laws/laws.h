/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laws. law_<id> judges the library; judge_<id> judges any engine, so that engines with a bug planted on
 * purpose prove that the law can fail. `family` in laws.def names the types of a case and of an engine:
 * cache -> cache_case, cache_engine.
 */
#ifndef CPROUTE_PROPS_LAWS_H
#define CPROUTE_PROPS_LAWS_H

#include "cache_engine.h"
#include "delta_engine.h"
#include "engine_under_test.h"
#include "kit/law.h"

typedef engine_under_test route_engine, tensor_engine;

#define LAW(id, family, meaning)                                                                             \
    void law_##id(const family##_case *c, verdict *v);                                                       \
    void judge_##id(const family##_case *c, const family##_engine *engine, verdict *v);
#include "laws.def"
#undef LAW

#endif
