/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a text case that are about the layer that consumes routes. */
#ifndef CPROUTE_PROPS_TEXT_DELTA_H
#define CPROUTE_PROPS_TEXT_DELTA_H

#include "kit/delta_case.h"
#include <jansson.h>

/* Is it one of these operations? */
bool text_delta_knows(const char *name);

/* Takes an operation into *c, which is made by the first. False with a sentence in `mistake`. */
bool text_delta_read(delta_case **c, json_t *op, char *mistake, size_t size);

#endif
