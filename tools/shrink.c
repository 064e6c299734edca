/* SPDX-License-Identifier: Apache-2.0 */
/* cproute shrink: makes a failing byte input small. Crashes and hangs count as failures. */
#include "arguments.h"
#include "files.h"
#include "findings.h"
#include "kit/isolate.h"

#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_SECONDS = 10, MAX_ATTEMPTS = 20000 };

static const option_spec *const options[] = {&option_law, &option_out, NULL};

/* What the bytes decode to, judged where a crash or a hang does no harm; NULL without memory. The caller frees it. */
static void *judged(const law *l, const uint8_t *bytes, size_t length, verdict *v) {
    void *subject = subject_from_bytes(l, bytes, length);
    if (subject)
        judge_isolated(l, subject, TIMEOUT_SECONDS, v);
    else
        fprintf(stderr, "cproute shrink: out of memory\n");
    return subject;
}

static int keep_shrunk(const arguments *a, const law *l, const uint8_t *bytes, size_t length) {
    verdict v;
    void *subject = judged(l, bytes, length, &v);
    if (subject) {
        finding_show(l, &v, subject);
        finding_keep(a->program, a->out, l, &v, bytes, length, subject);
    }
    free(subject);
    return EXIT_FINDINGS;
}

static int shrink_input(const arguments *a, const law *l, const uint8_t *input, size_t length) {
    verdict v;
    void *subject = judged(l, input, length, &v);
    if (!subject)
        return EXIT_FINDINGS;
    free(subject);
    if (v.outcome != LAW_FAILED) {
        printf("%s holds for %s\n", l->id, a->operands[0]);
        return EXIT_GOOD;
    }
    /* What is drawn never needs more, and more is never drawn from. */
    uint8_t bytes[CHOICE_LOG_BYTES];
    size_t used = length < sizeof bytes ? length : sizeof bytes;
    if (used)
        memcpy(bytes, input, used);
    shrink_report report = shrink_law(l, bytes, &used, true, TIMEOUT_SECONDS, MAX_ATTEMPTS);
    printf("%s fails for %s: %zu bytes shrunk to %zu in %zu attempts\n", l->id, a->operands[0], length, used,
           report.attempts);
    return keep_shrunk(a, l, bytes, used);
}

static int shrink_run(arguments *a) {
    const law *l = a->law ? law_named(a->law) : NULL;
    char mistake[4600];
    size_t length;
    if (!a->law)
        return wrong_use(&shrink_command, "--law is missing");
    if (!l)
        return wrong_use(&shrink_command, "there is no law '%s'", a->law);
    if (a->operand_count != 1)
        return wrong_use(&shrink_command, "one file is wanted");
    char *input = read_whole(a->operands[0], &length, mistake, sizeof mistake);
    if (!input) {
        fprintf(stderr, "cproute shrink: %s\n", mistake);
        return EXIT_WRONG_USE;
    }
    int code = shrink_input(a, l, (const uint8_t *)input, length);
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
