/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_walk.h"
#include "laws.h"

void judge_cache_capture(const cache_case *c, const cache_engine *engine, verdict *v) {
    cache_walk(c, &(cache_walk_options){.engine = engine, .watch = WATCH_CAPTURES}, v);
}
