/* SPDX-License-Identifier: Apache-2.0 */
/* What laws about flat tensors share. */
#ifndef CPROUTE_PROPS_FLAT_FORM_H
#define CPROUTE_PROPS_FLAT_FORM_H

#include "engine_under_test.h"
#include "kit/law.h"
#include "scratch.h"

/* Does the decoder say `wanted`, with the view untouched, or give a view that describes exactly this tensor? */
bool flat_decodes_as(const engine_under_test *engine, const int64_t *flat, int64_t count,
                     cpr_geometry geometry, cpr_error wanted, scratch *s, verdict *v);

#endif
