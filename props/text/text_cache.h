/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a text case that work on tensors and a cache: read into a script, judged, put to fuzzers. */
#ifndef CPROUTE_PROPS_TEXT_CACHE_H
#define CPROUTE_PROPS_TEXT_CACHE_H

#include "kit/cache_case.h"
#include <jansson.h>

/* The most entries that a text case may let a cache keep. */
enum { TEXT_CACHE_ENTRIES_MAX = 1 << 20 };

/* An empty script, under the version guard. NULL without memory. */
cache_case *text_cache_new(void);

/* Is it one of these operations? */
bool text_cache_knows(const char *name);

/* Appends an operation. False with a sentence in `mistake`. */
bool text_cache_read(cache_case *c, json_t *op, char *mistake, size_t size);

#endif
