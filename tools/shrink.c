/* SPDX-License-Identifier: Apache-2.0 */
/* cproute shrink: makes a failing byte input small. Crashes and hangs count as failures. */
#include "kit/shrink.h"
#include "arguments.h"
#include "files.h"
#include "findings.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_SECONDS = 10, MAX_ATTEMPTS = 20000 };

static const option_spec *const options[] = {&option_law, &option_out, NULL};

/* In a process of its own, whose verdict comes back through a pipe: the input may end the process instead. */
static void judge_apart(const law *l, const uint8_t *bytes, size_t length, verdict *v) {
    int ends[2], status = 0;
    *v = (verdict){.outcome = LAW_NOT_APPLICABLE, .reason = "it cannot be judged"};
    if (pipe(ends))
        return;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        verdict opinion;
        alarm(TIMEOUT_SECONDS);
        law_judge_bytes(l, bytes, length, NULL, &opinion);
        bool sent = write(ends[1], &opinion, sizeof opinion) == (ssize_t)sizeof opinion;
        _exit(sent ? 0 : 1);
    }
    close(ends[1]);
    bool received = read(ends[0], v, sizeof *v) == (ssize_t)sizeof *v; /* reasons are static: good here too */
    close(ends[0]);
    if (child > 0 && waitpid(child, &status, 0) == child && !received)
        *v = (verdict){.outcome = LAW_FAILED,
                       .reason = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "it does not end"
                                                                                    : "it crashes"};
}

static int shrink_input(const arguments *a, const law *l, const uint8_t *input, size_t length) {
    /* What is drawn never needs more, and more is never drawn from. */
    uint8_t bytes[CHOICE_LOG_BYTES];
    size_t used = length < sizeof bytes ? length : sizeof bytes;
    verdict v;
    judge_apart(l, input, length, &v);
    if (v.outcome != LAW_FAILED) {
        printf("%s holds for %s\n", l->id, a->operands[0]);
        return EXIT_GOOD;
    }
    memcpy(bytes, input, used);
    shrink_report report = shrink_law(l, bytes, &used, true, TIMEOUT_SECONDS, MAX_ATTEMPTS);
    judge_apart(l, bytes, used, &v);
    printf("%s fails for %s: %zu bytes shrunk to %zu in %zu attempts\n", l->id, a->operands[0], length, used,
           report.attempts);
    void *subject = subject_from_bytes(l, bytes, used);
    finding_show(l, &v, subject);
    if (subject)
        finding_keep(a->program, a->out, l, &v, bytes, used, subject);
    free(subject);
    return EXIT_FINDINGS;
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
    .summary = "Makes a byte input that breaks a law small, draws it and keeps it. For scripts.",
    .operands = "--law LAW [--out DIR] FILE",
    .details = "Exit status 1 says that the input breaks the law, by a crash too; 0 that the law holds.",
    .options = options,
    .run = shrink_run,
};
