/* SPDX-License-Identifier: Apache-2.0 */
/* cproute replay: text cases and byte inputs, judged. */
#include "arguments.h"
#include "byte_inputs.h"
#include "files.h"
#include "findings.h"
#include "kit/isolate.h"
#include "text/text_replay.h"
#include "text_choice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool take_verbose(arguments *a, const char *value, char *mistake, size_t size) {
    (void)mistake;
    (void)size;
    return take_nothing(value, &a->verbose);
}

static const option_spec option_verbose = {
    "verbose", NULL, "a line for everything that is judged, not for failures alone", take_verbose};
static const option_spec *const options[] = {&option_law, &option_verbose, NULL};

/*
 * Cases are judged by a worker, one after the other. What crashes or hangs takes the worker along; then that case has
 * failed, and another worker goes on behind it. This is what they share.
 */
typedef struct tally {
    long passed, failed, skipped;
    long judged; /* cases and files that are done with */
    bool missing;
    char place[4600]; /* of what is being judged, empty between two of them */
} tally;

enum { TIMEOUT_SECONDS = 60 };

typedef struct replay {
    const arguments *a;
    const law *law; /* NULL: byte inputs by the law that their folder says, text cases by all that fit */
    const text_choice *choice; /* of the cases in the text file that is replayed */
    long chosen;
    route_case *subject;
    tally *t;
    long seen;
} replay;

/* False for what an earlier worker has judged. */
static bool begin(replay *r, const char *place, const char *id) {
    if (r->seen++ < r->t->judged)
        return false;
    snprintf(r->t->place, sizeof r->t->place, "%s%s%s", place, *id ? " " : "", id);
    alarm(TIMEOUT_SECONDS);
    return true;
}

static void end(replay *r) {
    alarm(0);
    fflush(stdout); /* or it would be lost with the worker */
    r->t->judged = r->seen;
    r->t->place[0] = '\0';
}

/* One line on standard output; pictures are for people and go to standard error, behind it. */
static void tell_failure(const char *place, const char *id, const verdict *v) {
    printf("%s%s%s: %s (%s)\n", place, *id ? " " : "", id, v->reason, v->details);
    fflush(stdout);
}

/* Failures have been told. */
static void count(replay *r, const char *place, const char *id, const verdict *v) {
    switch (v->outcome) {
    case LAW_PASSED:
        r->t->passed++;
        if (r->a->verbose)
            printf("%s%s%s: passed\n", place, *id ? " " : "", id);
        break;
    case LAW_NOT_APPLICABLE:
        r->t->skipped++;
        if (r->a->verbose)
            printf("%s%s%s: skipped: %s\n", place, *id ? " " : "", id,
                   v->reason ? v->reason : "no law applies");
        break;
    case LAW_FAILED:
        r->t->failed++;
        break;
    }
}

/*------------------------------------------------------------------------------
 * Text cases
 *----------------------------------------------------------------------------*/

static void tell_mistake(replay *r, const char *place, const char *mistake) {
    r->t->failed++;
    printf("%s%s%s\n", place, *place ? " " : "", mistake);
}

static void judge_case(replay *r, const char *place, const text_entry *entry) {
    verdict v;
    const law *broken;
    text_case_judge(entry->c, r->law, &v, &broken, r->subject);
    if (v.outcome == LAW_FAILED)
        tell_failure(place, entry->c->id, &v);
    count(r, place, entry->c->id, &v);
    if (broken) {
        finding_show(stderr, broken, &v, text_case_subject(entry->c, broken, r->subject));
        finding_tell_replay(stderr, r->a->program, broken, entry->file, entry->line);
    }
}

static bool replay_case(void *context, const text_entry *entry) {
    replay *r = context;
    char place[4200];
    if (!text_choice_takes(r->choice, entry))
        return true;
    r->chosen++;
    snprintf(place, sizeof place, "%s:%d", entry->file, entry->line);
    if (!begin(r, place, entry->c ? entry->c->id : ""))
        return true;
    if (entry->c)
        judge_case(r, place, entry);
    else
        tell_mistake(r, place, entry->mistake);
    end(r);
    return true;
}

static void replay_text(replay *r, const char *path) {
    char mistake[4600];
    if (text_file_visit(path, replay_case, r, mistake, sizeof mistake))
        return;
    if (!begin(r, path, ""))
        return;
    tell_mistake(r, "", mistake);
    end(r);
}

/*------------------------------------------------------------------------------
 * Byte inputs
 *----------------------------------------------------------------------------*/

static void tell_broken_law(void *context, const law *broken, const char *path, const uint8_t *bytes,
                            size_t length, const verdict *v) {
    const replay *r = context;
    void *subject = subject_from_bytes(broken, bytes, length);
    tell_failure(path, broken->id, v);
    finding_show(stderr, broken, v, subject);
    finding_tell_replay(stderr, r->a->program, broken, path, 0);
    free(subject);
}

static void replay_bytes(replay *r, const char *path) {
    verdict v;
    if (!begin(r, path, ""))
        return;
    byte_input_judge(path, r->law, tell_broken_law, r, &v);
    count(r, path, "", &v);
    end(r);
}

static void replay_file(void *context, const char *path) {
    if (is_text_file(path))
        replay_text(context, path);
    else if (!is_answers_file(path))
        replay_bytes(context, path);
}

/*------------------------------------------------------------------------------
 * Workers
 *----------------------------------------------------------------------------*/

/* False if it is not there, which is told. */
static bool replay_chosen(replay *r, const text_choice *choice) {
    r->choice = choice;
    r->chosen = 0;
    if (!files_visit(choice->path, replay_file, r)) {
        fprintf(stderr, "cproute replay: %s: %s\n", choice->path, strerror(errno));
        return false;
    }
    if (choice->id && !r->chosen)
        fprintf(stderr, "cproute replay: %s has no case %s\n", choice->path, choice->id);
    return !choice->id || r->chosen;
}

static bool replay_operand(replay *r, const char *operand) {
    text_choice choice;
    if (!text_choice_open(&choice, operand)) {
        fprintf(stderr, "cproute replay: out of memory\n");
        return false;
    }
    const bool there = replay_chosen(r, &choice);
    text_choice_close(&choice);
    return there;
}

static void judge_all(const arguments *a, tally *t) {
    replay r = {.a = a, .law = a->law, .subject = malloc(sizeof(route_case)), .t = t};
    for (int i = 0; i < a->operand_count && r.subject && !t->missing; i++)
        t->missing = !replay_operand(&r, a->operands[i]);
    if (!r.subject)
        fprintf(stderr, "cproute replay: out of memory\n");
    free(r.subject);
}

/* Returns why the worker was lost, or NULL. Without a process to spare, this one does the work. */
static const char *run_worker(const arguments *a, tally *t) {
    fflush(NULL);
    const pid_t worker = fork();
    if (worker <= 0)
        judge_all(a, t);
    if (worker == 0)
        exit(EXIT_GOOD);
    return worker > 0 ? failure_of_exit(wait_for(worker)) : NULL;
}

static int replay_paths(const arguments *a, tally *t) {
    const char *lost;
    do {
        t->place[0] = '\0';
        lost = run_worker(a, t);
        if (lost) {
            t->failed++;
            t->judged++;
            printf("%s: %s\n", t->place[0] ? t->place : "the replay itself", lost);
        }
    } while (lost && t->place[0]);
    printf("%ld passed, %ld failed, %ld skipped\n", t->passed, t->failed, t->skipped);
    bool nothing = t->passed + t->failed + t->skipped == 0;
    if (nothing && !t->missing)
        fprintf(stderr, "cproute replay: nothing to replay was found\n");
    return finish_output(t->missing || nothing ? EXIT_WRONG_USE : (t->failed ? EXIT_FINDINGS : EXIT_GOOD));
}

static int replay_run(arguments *a) {
    if (!a->operand_count)
        return wrong_use(&replay_command, "a file or folder is missing");
    tally *t = shared_memory(sizeof *t);
    if (!t) {
        fprintf(stderr, "cproute replay: out of memory\n");
        return EXIT_FINDINGS;
    }
    int code = replay_paths(a, t);
    shared_memory_free(t, sizeof *t);
    return code;
}

const command replay_command = {
    .name = "replay",
    .summary = "Judges text cases and byte inputs by builders, answers and laws.",
    .operands = "[options] PATH|FILE:ID|FILE:LINE...",
    .details = "Folders are searched. *.jsonl and *.json hold text cases, one a line, with right\n"
               "answers in the case or in X.expected.jsonl beside X.jsonl; all three builders\n"
               "must give them, and every law that fits must hold; with --law that law alone,\n"
               "and cases that are not of its kind are skipped. Any other file but README* is\n"
               "a byte input, judged by --law, by the law that its folder is named after, or by\n"
               "all laws. The last line counts: N passed, M failed, K skipped.",
    .options = options,
    .run = replay_run,
};
