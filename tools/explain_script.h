/* SPDX-License-Identifier: Apache-2.0 */
/* A cache script, step by step, with what each guard did. */
#ifndef CPROUTE_TOOLS_EXPLAIN_SCRIPT_H
#define CPROUTE_TOOLS_EXPLAIN_SCRIPT_H

#include "kit/cache_case.h"

/* True if the laws hold. */
bool explain_script(const cache_case *c);

#endif
