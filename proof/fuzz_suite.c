/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every law about the engine as one fuzz target: the first byte says which law, the others make its case. What a campaign over all laws finds
 * needs no choice of a law beforehand. PROOF_LAW=id fixes the law, and all bytes make its case.
 */
#include "board.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void *subject;
static const law *fixed;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    size_t size = 0;
    for (size_t i = 0; i < law_count; i++)
        size = laws[i].family->size > size ? laws[i].family->size : size;
    subject = malloc(size);
    const char *id = getenv("PROOF_LAW");
    fixed = id ? law_named(id) : NULL;
    if (!subject || (id && !fixed))
        abort();
    board_open();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    const law *l = fixed ? fixed : &laws[length > 0 ? bytes[0] % law_count : 0];
    const size_t named = !fixed && length > 0;
    verdict v;
    if (!is_about_engine(l))
        return 0;
    law_judge_bytes(l, bytes + named, length - named, subject, &v);
    if (v.outcome == LAW_FAILED) {
        board_detected(l);
        fprintf(stderr, "law %s failed: %s\n%s\n", l->id, v.reason, v.details);
        abort();
    }
    return 0;
}
