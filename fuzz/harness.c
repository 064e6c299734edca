/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A law as a fuzz target, for libFuzzer and AFL++ alike; AFL++'s driver adds persistent mode and inputs in shared memory.
 *
 * The subject is made before the first input, so that an input runs through the same edges however often and in
 * whatever order it is run: anything less shows as instability in AFL++.
 */
#include "fuzzed_law.h"
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void *subject;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    subject = malloc(fuzzed_law()->family->size);
    if (!subject)
        abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    verdict v;
    law_judge_bytes(fuzzed_law(), bytes, length, subject, &v);
    if (v.outcome == LAW_FAILED) {
        fprintf(stderr, "law %s failed: %s\n%s\n", fuzzed_law()->id, v.reason, v.details);
        abort();
    }
    return 0;
}
