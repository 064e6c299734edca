/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One law as a fuzz target, for libFuzzer and AFL++ alike: compiled once per law of laws.def, with FUZZ_LAW set to its id.
 *
 * The subject is made before the first input, so that an input runs through the same edges however often and in
 * whatever order it is run: anything less shows as instability in AFL++.
 */
#include "kit/law.h"
#include <stdio.h>
#include <stdlib.h>

enum law_index {
#define LAW(id, family, meaning) LAW_INDEX_##id,
#include "laws/laws.def"
#undef LAW
    LAW_INDEX_COUNT
};

#define PASTE(a, b)   a##b
#define INDEX_OF(id)  PASTE(LAW_INDEX_, id)

static const law *const target = &laws[INDEX_OF(FUZZ_LAW)];
static void *subject;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    subject = malloc(target->family->size);
    return subject ? 0 : -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    verdict v;
    law_judge_bytes(target, bytes, length, subject, &v);
    if (v.outcome == LAW_FAILED) {
        fprintf(stderr, "law %s failed: %s\n%s\n", target->id, v.reason, v.details);
        abort();
    }
    return 0;
}
