/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzz target judges: each target links harness.c and one file that says which law that is. */
#ifndef CPROUTE_FUZZ_FUZZED_LAW_H
#define CPROUTE_FUZZ_FUZZED_LAW_H

#include "kit/law.h"

const law *fuzzed_law(void);

#endif
