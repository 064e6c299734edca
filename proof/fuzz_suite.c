/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every law about the engine as one fuzz target: what a campaign over all laws finds needs no choice of a law beforehand.
 * PROOF_LAW=id fixes the law.
 */
#include "all_laws.h"
#include "board.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    all_laws_open();
    board_open();
    return 0;
}

static bool draw_case(const family *f, const uint8_t *bytes, size_t length, void *subject) {
    choices from = choices_from_bytes(bytes, length, NULL);
    f->draw(&from, subject);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    all_laws_judge(draw_case, bytes, length);
    return 0;
}
