/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_bytes PATH...: byte inputs through the law that their folder is named after, or through all. It
 * needs nothing but the engine and the laws, for builds in which every library must be instrumented.
 */
#include "byte_inputs.h"
#include "files.h"
#include "kit/law.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct counts {
    long passed, failed, skipped;
} counts;

static void tell(void *context, const law *broken, const char *path, const uint8_t *bytes, size_t length,
                 const verdict *v) {
    (void)context;
    (void)bytes;
    (void)length;
    printf("%s %s: %s (%s)\n", path, broken->id, v->reason, v->details);
}

static void replay(void *context, const char *path) {
    counts *c = context;
    verdict v;
    const size_t length = strlen(path);
    if (length > 5 && (!strcmp(path + length - 5, ".json") || !strcmp(path + length - 6, ".jsonl"))) {
        c->skipped++;
        return;
    }
    byte_input_judge(path, NULL, tell, NULL, &v);
    c->passed += v.outcome == LAW_PASSED;
    c->failed += v.outcome == LAW_FAILED;
    c->skipped += v.outcome == LAW_NOT_APPLICABLE;
}

int main(int argc, char **argv) {
    counts c = {0};
    bool missing = argc < 2;
    for (int i = 1; i < argc; i++) {
        if (files_visit(argv[i], replay, &c))
            continue;
        fprintf(stderr, "replay_bytes: %s: %s\n", argv[i], strerror(errno));
        missing = true;
    }
    printf("%ld passed, %ld failed, %ld skipped\n", c.passed, c.failed, c.skipped);
    if (missing || c.passed + c.failed + c.skipped == 0)
        return 2;
    return c.failed ? 1 : 0;
}
