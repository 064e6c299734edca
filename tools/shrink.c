/* SPDX-License-Identifier: Apache-2.0 */
/* cproute shrink: makes a failing byte input small. Crashes and hangs count as failures. */
#include "arguments.h"
#include "files.h"
#include "findings.h"
#include "kit/isolate.h"

#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_SECONDS = 10, MAX_ATTEMPTS = 20000 };

static const option_spec *const options[] = {&option_law, &option_findings, NULL};

/* Judges what the bytes decode to, where a crash or a hang does no harm. */
static const verdict *judge_apart(workshop *w, const uint8_t *bytes, size_t length) {
    choices from = choices_from_bytes(bytes, length, NULL);
    w->l->family->draw(&from, w->subject);
    return workshop_judge(w);
}

static int shrink_input(const arguments *a, workshop *w, const uint8_t *input, size_t length) {
    if (judge_apart(w, input, length)->outcome != LAW_FAILED) {
        printf("%s holds for %s\n", w->l->id, a->operands[0]);
        return EXIT_GOOD;
    }
    /* What is drawn never needs more, and more is never drawn from. */
    uint8_t bytes[CHOICE_LOG_BYTES];
    size_t used = length < sizeof bytes ? length : sizeof bytes;
    if (used)
        memcpy(bytes, input, used);
    shrink_report report = shrink_law(w->l, bytes, &used, true, TIMEOUT_SECONDS, MAX_ATTEMPTS);
    printf("%s fails for %s: %zu bytes shrunk to %zu in %zu attempts\n", w->l->id, a->operands[0],
           report.drawn, used, report.attempts);
    const verdict *v = judge_apart(w, bytes, used);
    finding_show(stdout, w->l, v, w->subject);
    finding_keep(a->program, a->out, w->l, v, bytes, used, w->subject);
    return EXIT_FINDINGS;
}

static int shrink_file(const arguments *a, const law *l, const uint8_t *input, size_t length) {
    workshop w;
    if (!workshop_open(&w, l, TIMEOUT_SECONDS)) {
        fprintf(stderr, "cproute shrink: out of memory\n");
        return EXIT_FINDINGS;
    }
    const int code = shrink_input(a, &w, input, length);
    workshop_close(&w);
    return code;
}

static int shrink_run(arguments *a) {
    char mistake[4600];
    size_t length;
    if (!a->law)
        return wrong_use(&shrink_command, "--law is missing");
    if (a->operand_count != 1)
        return wrong_use(&shrink_command, "one file is wanted");
    char *input = read_whole(a->operands[0], &length, mistake, sizeof mistake);
    if (!input) {
        fprintf(stderr, "cproute shrink: %s\n", mistake);
        return EXIT_WRONG_USE;
    }
    int code = shrink_file(a, a->law, (const uint8_t *)input, length);
    free(input);
    return finish_output(code);
}

const command shrink_command = {
    .name = "shrink",
    .summary = "Makes a byte input that breaks a law small. For scripts.",
    .operands = "--law LAW [--out DIR] FILE",
    .details = "The input is drawn and kept as a text case. Exit status 1 says that it breaks\n"
               "the law, by a crash too; 0 that the law holds.",
    .options = options,
    .run = shrink_run,
};
