/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_walk.h"
#include "laws.h"

/* All else is watched too: what a failure changed unseen shows in later steps. */
void judge_cache_no_memory(const cache_case *c, const cache_engine *engine, verdict *v) {
    cache_walk(c, &(cache_walk_options){.engine = engine, .watch = WATCH_ALL | WATCH_NO_MEMORY}, v);
}
