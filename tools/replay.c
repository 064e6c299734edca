/* SPDX-License-Identifier: Apache-2.0 */
/* cproute replay: text cases and byte inputs, judged. */
#include "arguments.h"
#include "byte_inputs.h"
#include "files.h"
#include "findings.h"
#include "text/text_replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool take_verbose(arguments *a, const char *value, char *mistake, size_t size) {
    (void)mistake;
    (void)size;
    return take_nothing(value, &a->verbose);
}

static const option_spec option_verbose = {
    "verbose", NULL, "a line for everything that is judged, not for failures alone", take_verbose};
static const option_spec *const options[] = {&option_law, &option_verbose, NULL};

typedef struct replay {
    const arguments *a;
    const law *law; /* for byte inputs, NULL: as their folder says */
    route_case *subject;
    long passed, failed, skipped;
} replay;

static void tell_failure(const char *place, const char *id, const verdict *v) {
    printf("%s%s%s: %s (%s)\n", place, *id ? " " : "", id, v->reason, v->details);
}

/* Failures have been told. */
static void count(replay *r, const char *place, const char *id, const verdict *v) {
    switch (v->outcome) {
    case LAW_PASSED:
        r->passed++;
        if (r->a->verbose)
            printf("%s%s%s: passed\n", place, *id ? " " : "", id);
        break;
    case LAW_NOT_APPLICABLE:
        r->skipped++;
        if (r->a->verbose)
            printf("%s%s%s: skipped: %s\n", place, *id ? " " : "", id,
                   v->reason ? v->reason : "no law applies");
        break;
    case LAW_FAILED:
        r->failed++;
        break;
    }
}

/*------------------------------------------------------------------------------
 * Text cases
 *----------------------------------------------------------------------------*/

static bool replay_case(void *context, const text_entry *entry) {
    replay *r = context;
    char place[4200];
    snprintf(place, sizeof place, "%s:%d", entry->file, entry->line);
    if (!entry->c) {
        r->failed++;
        printf("%s %s\n", place, entry->mistake);
        return true;
    }
    verdict v;
    const law *broken;
    text_case_judge(entry->c, &v, &broken, r->subject);
    if (v.outcome == LAW_FAILED)
        tell_failure(place, entry->c->id, &v);
    count(r, place, entry->c->id, &v);
    if (broken) {
        finding_show(broken, &v, text_case_subject(entry->c, broken, r->subject));
        printf("  replay: %s replay %s\n", r->a->program, entry->file);
    }
    return true;
}

static void replay_text(replay *r, const char *path) {
    char mistake[4600];
    if (text_file_visit(path, replay_case, r, mistake, sizeof mistake))
        return;
    r->failed++;
    printf("%s\n", mistake);
}

/*------------------------------------------------------------------------------
 * Byte inputs
 *----------------------------------------------------------------------------*/

static void tell_broken_law(void *context, const law *broken, const char *path, const uint8_t *bytes,
                            size_t length, const verdict *v) {
    const replay *r = context;
    void *subject = subject_from_bytes(broken, bytes, length);
    tell_failure(path, broken->id, v);
    finding_show(broken, v, subject);
    printf("  replay: %s replay --law %s %s\n", r->a->program, broken->id, path);
    free(subject);
}

static void replay_bytes(replay *r, const char *path) {
    verdict v;
    byte_input_judge(path, r->law, tell_broken_law, r, &v);
    count(r, path, "", &v);
}

static void replay_file(void *context, const char *path) {
    if (is_text_file(path))
        replay_text(context, path);
    else if (!is_answers_file(path))
        replay_bytes(context, path);
}

static int replay_paths(arguments *a, const law *only) {
    replay r = {.a = a, .law = only, .subject = malloc(sizeof(route_case))};
    bool missing = false;
    for (int i = 0; i < a->operand_count && r.subject && !missing; i++) {
        missing = !files_visit(a->operands[i], replay_file, &r);
        if (missing)
            fprintf(stderr, "cproute replay: %s: %s\n", a->operands[i], strerror(errno));
    }
    free(r.subject);
    printf("%ld passed, %ld failed, %ld skipped\n", r.passed, r.failed, r.skipped);
    bool nothing = r.passed + r.failed + r.skipped == 0;
    if (nothing && !missing)
        fprintf(stderr, "cproute replay: nothing to replay was found\n");
    return finish_output(missing || nothing ? EXIT_WRONG_USE : (r.failed ? EXIT_FINDINGS : EXIT_GOOD));
}

static int replay_run(arguments *a) {
    const law *only = a->law ? law_named(a->law) : NULL;
    if (!a->operand_count)
        return wrong_use(&replay_command, "a file or folder is missing");
    if (a->law && !only)
        return wrong_use(&replay_command, "there is no law '%s'", a->law);
    return replay_paths(a, only);
}

const command replay_command = {
    .name = "replay",
    .summary = "Judges text cases and byte inputs by builders, answers and laws.",
    .operands = "[options] PATH...",
    .details = "Folders are searched. *.jsonl and *.json hold text cases, one a line, with right\n"
               "answers in the case or in X.expected.jsonl beside X.jsonl; all three builders\n"
               "must give them, and every law that fits must hold. Any other file but README*\n"
               "is a byte input, judged by --law, by the law that its folder is named after, or\n"
               "by all laws. The last line counts: N passed, M failed, K skipped.",
    .options = options,
    .run = replay_run,
};
