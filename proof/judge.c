/* SPDX-License-Identifier: Apache-2.0 */
/*
 * judge VERB ...: an engine in one program that stops at the first thing that is wrong with it. Mutants and planted faults are
 * linked into it, so it is small, quick to link, and leaves isolation and limits to whoever runs it.
 *
 *     judge replay FOLDER          every text case of the folder, by all laws
 *     judge props SEED ROUNDS      every law about the engine in turn on random cases; ROUNDS 0: until something is wrong
 *     judge law LAW FILE           what the bytes of a file decode to, by one law
 *     judge find LAW SEED OUT      the bytes of a random case that breaks the law, not shrunk
 *     judge shrink LAW FILE OUT    shrinks them; any failure will do, as to other tools that shrink
 *     judge size LAW FILE          how many bytes are drawn from, and these bytes
 *     judge smallest LAW SECONDS   the smallest bytes, of those with few that are not 0, that break the law
 *     judge unit                   three packs, there and back: the tests that implementations come with
 *
 * Exit code 0: nothing is wrong, 1: something is, and the last line says what, 2: wrong use. A crash is a crash.
 */
#include "all_laws.h"
#include "board.h"
#include "kit/isolate.h"
#include "text/text_replay.h"
#include "unit_style.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_GOOD, EXIT_WRONG, EXIT_USAGE };
enum {
    HANG_SECONDS = 2,   /* of processor time, for a few cases of every law, or one text case */
    SHRINK_SECONDS = 1, /* for one attempt */
    ROUNDS_PER_LIMIT = 16,
    MOST_SHRINKING = 20000,
    MOST_BYTES = 64,
    MOST_NONZERO = 4,
    MOST_VALUE = 24
};

/* What takes longer is killed by SIGPROF. By processor time, so that a busy machine makes no hangs; who waits for ever is a matter
 * for the caller's limit. */
static void expect_no_hang(void) {
    const struct itimerval limit = {.it_value.tv_sec = HANG_SECONDS};
    setitimer(ITIMER_PROF, &limit, NULL);
}

static int tell_wrong(const char *where, const law *l, const verdict *v) {
    if (l)
        board_detected(l);
    printf("%s%s%s: %s (%s)\n", where, *where && l ? " " : "", l ? l->id : "", v->reason, v->details);
    return EXIT_WRONG;
}

static int wrong_use(const char *what) {
    fprintf(stderr, "judge: %s; the head of proof/judge.c tells how it is used\n", what);
    return EXIT_USAGE;
}

/*==============================================================================
 * MARK: - Text cases
 *============================================================================*/

typedef struct replay {
    route_case *subject;
    long judged;
    int code;
} replay;

static bool replay_case(void *context, const text_entry *entry) {
    replay *r = context;
    verdict v;
    const law *broken;
    char where[256];
    if (!entry->c) {
        printf("%s:%d %s\n", entry->file, entry->line, entry->mistake);
        r->code = EXIT_USAGE;
        return false;
    }
    expect_no_hang();
    text_case_judge(entry->c, NULL, &v, &broken, r->subject);
    r->judged++;
    if (v.outcome == LAW_FAILED) {
        snprintf(where, sizeof where, "case %s", entry->c->id);
        r->code = tell_wrong(where, broken, &v);
    }
    return r->code == EXIT_GOOD;
}

static int replay_folder(const char *folder) {
    replay r = {.subject = malloc(sizeof(route_case))};
    struct dirent **entries;
    const int files = r.subject ? scandir(folder, &entries, NULL, alphasort) : -1;
    if (files < 0) {
        const int code = wrong_use(strerror(errno));
        free(r.subject);
        return code;
    }
    for (int i = 0; i < files; i++) {
        char path[4096], mistake[4600];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (r.code == EXIT_GOOD && is_text_file(path) &&
            !text_file_visit(path, replay_case, &r, mistake, sizeof mistake))
            r.code = wrong_use(mistake);
        free(entries[i]);
    }
    free(entries);
    free(r.subject);
    return r.judged > 0 ? r.code : wrong_use("no case in that folder");
}

/*==============================================================================
 * MARK: - Random cases
 *============================================================================*/

/* Room for a case of any family. */
static void *new_subject(void) {
    size_t size = 1;
    for (size_t i = 0; i < law_count; i++)
        size = laws[i].family->size > size ? laws[i].family->size : size;
    return calloc(1, size);
}

/* Each case of each law is drawn from a seed of its own. */
static uint64_t seed_of(uint64_t seed, uint64_t round, size_t number) {
    uint64_t state = seed;
    state = random_next(&state) + round * law_count + number;
    return random_next(&state);
}

static bool law_holds(const law *l, uint64_t seed, void *subject, choice_log *log, verdict *v) {
    choices from = choices_from_seed(seed, log);
    l->family->draw(&from, subject);
    law_judge(l, subject, v);
    return v->outcome != LAW_FAILED;
}

static int judge_laws(uint64_t seed, uint64_t rounds) {
    void *subject = new_subject();
    verdict v;
    int code = subject ? EXIT_GOOD : wrong_use("no memory");
    for (uint64_t round = 0; code == EXIT_GOOD && (rounds == 0 || round < rounds); round++) {
        if (round % ROUNDS_PER_LIMIT == 0)
            expect_no_hang();
        for (size_t i = 0; i < law_count && code == EXIT_GOOD; i++)
            if (law_has_turn(&laws[i], round) &&
                !law_holds(&laws[i], seed_of(seed, round, i), subject, NULL, &v))
                code = tell_wrong("", &laws[i], &v);
    }
    free(subject);
    return code;
}

/*==============================================================================
 * MARK: - Bytes of one law
 *============================================================================*/

static bool read_bytes(const char *path, uint8_t bytes[CHOICE_LOG_BYTES], size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    *length = fread(bytes, 1, CHOICE_LOG_BYTES, file);
    return fclose(file) == 0;
}

static bool write_bytes(const char *path, const uint8_t *bytes, size_t length) {
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    const bool written = fwrite(bytes, 1, length, file) == length;
    return fclose(file) == 0 && written;
}

static void print_bytes(const uint8_t *bytes, size_t length) {
    printf("%zu ", length);
    for (size_t i = 0; i < length; i++)
        printf("%02x", bytes[i]);
    printf("\n");
}

static int judge_file(const law *l, const char *path) {
    uint8_t bytes[CHOICE_LOG_BYTES];
    size_t length;
    verdict v;
    if (!read_bytes(path, bytes, &length))
        return wrong_use(strerror(errno));
    law_judge_bytes(l, bytes, length, NULL, &v);
    return v.outcome == LAW_FAILED ? tell_wrong("", l, &v) : EXIT_GOOD;
}

/* What a process that may crash leaves behind. */
typedef struct trace {
    choice_log log;
    verdict v;
} trace;

static void draw_until_wrong(const law *l, uint64_t seed, trace *t) {
    void *subject = new_subject();
    for (uint64_t round = 0; subject; round++) {
        t->log.length = t->log.record_count = 0;
        t->log.full = false;
        expect_no_hang();
        if (!law_holds(l, seed_of(seed, round, 0), subject, &t->log, &t->v) && !t->log.full)
            break;
    }
    _exit(EXIT_WRONG);
}

static int find(const law *l, uint64_t seed, const char *out) {
    trace *t = shared_memory(sizeof *t);
    if (!t)
        return wrong_use("no memory");
    t->v = (verdict){.outcome = LAW_PASSED, .reason = "crash"};
    const pid_t process = fork();
    if (process == 0)
        draw_until_wrong(l, seed, t);
    wait_for(process);
    if (!write_bytes(out, t->log.bytes, t->log.length))
        return wrong_use(strerror(errno));
    print_bytes(t->log.bytes, t->log.length);
    return EXIT_WRONG;
}

static bool fails_somehow(void *context, const uint8_t *bytes, size_t length, choice_log *log) {
    workshop *w = context;
    choices from = choices_from_bytes(bytes, length, log);
    w->l->family->draw(&from, w->subject);
    return workshop_judge(w)->outcome == LAW_FAILED;
}

/* Apart, because a simpler case may crash where this one did not. */
static int shrink_file(const law *l, const char *path, const char *out) {
    uint8_t bytes[CHOICE_LOG_BYTES];
    size_t length;
    workshop w;
    if (!read_bytes(path, bytes, &length))
        return wrong_use(strerror(errno));
    if (!workshop_open(&w, l, SHRINK_SECONDS))
        return wrong_use("no memory");
    const shrink_report report = shrink(bytes, &length, fails_somehow, &w, MOST_SHRINKING);
    workshop_close(&w);
    if (!write_bytes(out, bytes, length))
        return wrong_use(strerror(errno));
    print_bytes(bytes, length);
    return report.attempts > 0 ? EXIT_GOOD : EXIT_WRONG;
}

/* What is drawn from these bytes, zeros past their end included. */
static void draw_logged(const law *l, const uint8_t *bytes, size_t length, void *subject, choice_log *log) {
    log->length = log->record_count = 0;
    log->full = false;
    choices from = choices_from_bytes(bytes, length, log);
    l->family->draw(&from, subject);
}

static int size_of_file(const law *l, const char *path) {
    uint8_t bytes[CHOICE_LOG_BYTES];
    size_t length;
    void *subject = new_subject();
    choice_log *log = malloc(sizeof *log);
    int code = EXIT_GOOD;
    if (subject && log && read_bytes(path, bytes, &length)) {
        draw_logged(l, bytes, length, subject, log);
        print_bytes(log->bytes, log->length);
    } else
        code = wrong_use(strerror(errno));
    free(subject);
    free(log);
    return code;
}

/*==============================================================================
 * MARK: - The smallest
 *============================================================================*/

typedef struct smallest {
    workshop w;
    choice_log log;
    uint8_t trial[MOST_BYTES], best[CHOICE_LOG_BYTES];
    size_t best_length;
    struct timespec end;
    bool ended;
} smallest;

static bool time_is_over(smallest *s) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    s->ended = s->ended || now.tv_sec > s->end.tv_sec;
    return s->ended;
}

/* Returns how many bytes were drawn from; only canonical bytes are judged, so that each case is judged once. */
static size_t try_bytes(smallest *s, size_t used) {
    draw_logged(s->w.l, s->trial, MOST_BYTES, s->w.subject, &s->log);
    const bool canonical = s->log.length >= used && memcmp(s->log.bytes, s->trial, used) == 0;
    const bool smaller = s->log.length < s->best_length || (s->log.length == s->best_length &&
                                                            memcmp(s->log.bytes, s->best, s->log.length) < 0);
    if (canonical && smaller && !s->log.full && workshop_judge(&s->w)->outcome == LAW_FAILED) {
        memcpy(s->best, s->log.bytes, s->log.length);
        s->best_length = s->log.length;
    }
    return s->log.length;
}

/* All ways to set `more` further bytes, from place `from` on. */
static void set_more(smallest *s, size_t from, int more) {
    const size_t drawn = try_bytes(s, from);
    for (size_t i = from; more > 0 && i < drawn && i < MOST_BYTES && i < s->best_length && !time_is_over(s);
         i++) {
        for (unsigned value = 1; value <= MOST_VALUE; value++) {
            s->trial[i] = (uint8_t)value;
            set_more(s, i + 1, more - 1);
        }
        s->trial[i] = 0;
    }
}

static int find_smallest(const law *l, long seconds) {
    smallest *s = calloc(1, sizeof *s);
    if (!s || !workshop_open(&s->w, l, SHRINK_SECONDS))
        return wrong_use("no memory");
    s->best_length = sizeof s->best;
    clock_gettime(CLOCK_MONOTONIC, &s->end);
    s->end.tv_sec += seconds;
    int nonzero = 0;
    while (nonzero <= MOST_NONZERO && !s->ended)
        set_more(s, 0, nonzero++);
    const bool found = s->best_length < sizeof s->best;
    printf("%s: up to %d bytes that are not 0\n", s->ended ? "time is over" : "all tried",
           nonzero - (s->ended ? 2 : 1));
    if (found)
        print_bytes(s->best, s->best_length);
    workshop_close(&s->w);
    free(s);
    return found ? EXIT_WRONG : EXIT_GOOD;
}

/*==============================================================================
 * MARK: - Verbs
 *============================================================================*/

static int about_law(int argc, char **argv, const law *l) {
    if (!strcmp(argv[1], "law") && argc == 4)
        return judge_file(l, argv[3]);
    if (!strcmp(argv[1], "size") && argc == 4)
        return size_of_file(l, argv[3]);
    if (!strcmp(argv[1], "smallest") && argc == 4)
        return find_smallest(l, strtol(argv[3], NULL, 0));
    if (!strcmp(argv[1], "find") && argc == 5)
        return find(l, strtoull(argv[3], NULL, 0), argv[4]);
    if (!strcmp(argv[1], "shrink") && argc == 5)
        return shrink_file(l, argv[3], argv[4]);
    return wrong_use("no such verb, or not these arguments");
}

int main(int argc, char **argv) {
    verdict v = {.outcome = LAW_PASSED};
    board_open();
    if (argc == 2 && !strcmp(argv[1], "unit")) {
        unit_style_tests(&v);
        return v.outcome == LAW_FAILED ? tell_wrong("", NULL, &v) : EXIT_GOOD;
    }
    if (argc == 3 && !strcmp(argv[1], "replay"))
        return replay_folder(argv[2]);
    if (argc == 4 && !strcmp(argv[1], "props"))
        return judge_laws(strtoull(argv[2], NULL, 0), strtoull(argv[3], NULL, 0));
    const law *l = argc > 2 ? law_named(argv[2]) : NULL;
    return l ? about_law(argc, argv, l) : wrong_use("no such verb or law");
}
