/* SPDX-License-Identifier: Apache-2.0 */
#include "laws.h"

#define the_route_engine the_engine

#define LAW(id, family, meaning)                                                                             \
    void law_##id(const family##_case *c, verdict *v) {                                                      \
        judge_##id(c, &the_##family##_engine, v);                                                            \
    }
#include "laws.def"
#undef LAW
