/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled once per law of laws.def, with FUZZ_LAW set to its id. */
#include "fuzzed_law.h"

enum law_index {
#define LAW(id, family, meaning) LAW_INDEX_##id,
#include "laws/laws.def"
#undef LAW
    LAW_INDEX_COUNT
};

#define PASTE(a, b)  a##b
#define INDEX_OF(id) PASTE(LAW_INDEX_, id)

const law *fuzzed_law(void) {
    return &laws[INDEX_OF(FUZZ_LAW)];
}
