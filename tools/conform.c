/* SPDX-License-Identifier: Apache-2.0 */
/* cproute conform: another implementation against the corpus and random cases. */
#include "arguments.h"
#include "conform_report.h"
#include "conform_shrink.h"
#include "files.h"
#include "interruption.h"
#include "kit/choice.h"
#include "printable.h"
#include "progress.h"
#include "text/text_outcome.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const double DEFAULT_TIMEOUT_S = 10, SHRINKING_S = 30;
static const char CORPUS_FOLDER[] = "corpus/cases";
enum { DEFAULT_RANDOM = 1000, DRAWS_PER_CASE = 20000 };

static bool take_path(const char **to, const char *value) {
    *to = value;
    return true;
}

static bool take_cases(arguments *a, const char *value, char *mistake, size_t size) {
    (void)mistake;
    (void)size;
    return take_path(&a->cases_path, value);
}

static bool take_known(arguments *a, const char *value, char *mistake, size_t size) {
    (void)mistake;
    (void)size;
    return take_path(&a->known_path, value);
}

static bool take_junit(arguments *a, const char *value, char *mistake, size_t size) {
    (void)mistake;
    (void)size;
    return take_path(&a->junit_path, value);
}

static bool take_update(arguments *a, const char *value, char *mistake, size_t size) {
    (void)mistake;
    (void)size;
    return take_nothing(value, &a->update_known);
}

static bool take_random(arguments *a, const char *value, char *mistake, size_t size) {
    a->random_given = true;
    if (parse_uint64(value, &a->cases) && a->cases < UINT64_C(1) << 40)
        return true;
    snprintf(mistake, size, "'%s' is not a number of cases", value);
    return false;
}

static const option_spec option_cases = {"cases", "PATH", "text cases: a file or a folder (corpus/cases)",
                                         take_cases};
static const option_spec option_random = {"random", "N", "so many random cases beside them (1000)",
                                          take_random};
static const option_spec option_known = {"known", "FILE", "differences that are accepted; others are new",
                                         take_known};
static const option_spec option_update = {"update-known", NULL, "write what differs into that file",
                                          take_update};
static const option_spec option_junit = {"junit", "FILE", "write a JUnit report too", take_junit};
static const option_spec option_timeout = {"timeout", "S", "seconds for an answer (10)", take_seconds};
static const option_spec option_found_json = {"json", NULL, "one JSON object a difference, then the counts",
                                              take_json};
static const option_spec *const options[] = {&option_cases, &option_random,     &option_seed,
                                             &option_known, &option_update,     &option_timeout,
                                             &option_junit, &option_found_json, NULL};

typedef struct conformance {
    const arguments *a;
    talk t;
    known k;
    outcome_counts counts;
    route_case *c;
    cache_case *script;
    bool going, mistaken;
    const char *stage;
    progress_line progress;
} conformance;

/* Asked by whoever waits for an answer. */
static bool goes_on(void *context) {
    conformance *f = context;
    const double silent = seconds_now() - f->t.p.heard;
    char waiting[40] = "";
    if (interrupted())
        return false;
    if (!progress_due(&f->progress))
        return true;
    if (silent > 1)
        snprintf(waiting, sizeof waiting, ", no answer for %.0f s", silent);
    progress_tell(&f->progress, "%s: %zu questions, %zu kinds of differences%s", f->stage, f->t.questions,
                  f->t.group_count, waiting);
    return true;
}

/* What is known to be lost does not keep the rest from being asked; nor what is about to be known. */
static bool accepts(void *context, const char *signature) {
    const conformance *f = context;
    return f->a->update_known || known_accepts(&f->k, signature);
}

/*------------------------------------------------------------------------------
 * Cases
 *----------------------------------------------------------------------------*/

static bool ask(conformance *f, question_op op, const origin *from) {
    f->going = f->going && talk_ask(&f->t, op, f->c, from);
    return f->going;
}

/* A target is a source of other cases, but in the corpus. */
static void ask_layouts(conformance *f, const origin *from) {
    const cpr_layout source = f->c->source;
    ask(f, ASK_LAYOUT, from);
    if (!from->corpus || source == f->c->target)
        return;
    f->c->source = f->c->target;
    subject_expect(f->c);
    ask(f, ASK_LAYOUT, from);
    f->c->source = source;
    subject_expect(f->c);
}

/* The case in other shapes, as far as it has them. What people wrote has no salt, but must not all be asked with the same group. */
static void ask_shapes(conformance *f, const origin *from) {
    const uint64_t salt = f->c->salt;
    if (salt == 0)
        f->c->salt = f->counts.corpus_cases * UINT64_C(1000003) + (uint64_t)f->c->geometry.cp_rank;
    for (question_op op = ASK_FLAT; op < ASK_OUTCOME && f->going; op++) {
        shape_case *c = f->t.h.ops[op] ? shape_case_of_route(op, f->c) : NULL;
        f->going = !c || talk_ask(&f->t, op, c, from);
        free(c);
    }
    f->c->salt = salt;
}

static void ask_case(conformance *f, const origin *from, bool exchange) {
    ask(f, ASK_ROUTE, from);
    ask_layouts(f, from);
    if (exchange && f->c->expected.status == CPR_OK)
        ask(f, ASK_EXCHANGE, from);
    ask_shapes(f, from);
}

static void ask_text(conformance *f, question_op op, const text_case *c, int64_t rank, const origin *from) {
    f->going = f->going && talk_ask_text(&f->t, op, c, rank, from);
}

/* A shape that the case is about by its own words. */
static void ask_own_shape(conformance *f, question_op op, const text_case *c, const origin *from) {
    const int64_t ranks = route_shape_ranks(c, (route_shape)(op - ASK_FLAT));
    if (!f->t.h.ops[op])
        return;
    for (int64_t rank = 0; rank < (ranks > 0 ? ranks : 1) && rank < JUDGED_RANKS_MAX; rank++)
        ask_text(f, op, c, rank, from);
}

static void ask_own_words(conformance *f, const text_case *c, const origin *from) {
    if (c->pad)
        ask_own_shape(f, ASK_PAD, c, from);
    if (c->fused)
        ask_own_shape(f, ASK_FUSED, c, from);
    if (c->fused && c->cu.list.count == 2)
        ask_own_shape(f, ASK_CHUNKS, c, from);
    if (c->real_given && c->expect == CPR_OK)
        ask_own_shape(f, ASK_REAL, c, from);
    if (text_case_has_outcome(c))
        ask_text(f, ASK_OUTCOME, c, 0, from);
}

/* Numbers with fractions, beyond 64 bits, or beyond the type that is given, have no place in a request. */
static bool is_expressible(const text_case *c) {
    const bool narrow =
        c->dtype_given && c->dtype == CPR_INT32 && offsets_smallest_dtype(&c->cu) != CPR_INT32;
    return c->cu.oversize < 0 && !c->cu.fractions && !narrow;
}

static bool ask_text_case(void *context, const text_entry *entry) {
    conformance *f = context;
    if (!entry->c) {
        fprintf(stderr, "cproute conform: %s:%d %s\n", entry->file, entry->line, entry->mistake);
        f->mistaken = true;
        return true;
    }
    const judged_ranks ranks = text_case_ranks(entry->c);
    const char *slash = strrchr(entry->file, '/');
    origin from = {.corpus = true};
    snprintf(from.name, sizeof from.name, "%.60s:%.90s", slash ? slash + 1 : entry->file, entry->c->id);
    make_printable(from.name);
    if (entry->c->cache) {
        f->going = f->going && talk_ask(&f->t, ASK_CACHE, entry->c->cache, &from);
        f->counts.corpus_cases++;
        return f->going;
    }
    if (!is_expressible(entry->c) || entry->c->cu.list.count > CASE_MAX_ENTRIES) {
        f->counts.skipped_cases++;
        return f->going;
    }
    ask_own_words(f, entry->c, &from);
    for (size_t i = 0; i < ranks.count && f->going && !entry->c->pad; i++) {
        text_case_to_route_case(entry->c, ranks.items[i], true, f->c);
        subject_expect(f->c);
        ask_case(f, &from, i == 0);
    }
    f->counts.corpus_cases++;
    return f->going;
}

static void ask_file(void *context, const char *path) {
    conformance *f = context;
    char mistake[4600];
    const char *slash = strrchr(path, '/');
    if (!f->going || !is_text_file(path))
        return;
    known_asked_file(&f->k, slash ? slash + 1 : path);
    if (text_file_visit(path, ask_text_case, f, mistake, sizeof mistake))
        return;
    fprintf(stderr, "cproute conform: %s\n", mistake);
    f->mistaken = true;
}

/* One script in so many cases: it asks much. */
enum { CASES_PER_SCRIPT = 8, DRAWS_PER_SCRIPT = 200 };

static void ask_script(conformance *f, uint64_t state, const origin *from) {
    for (int draws = 0; draws < DRAWS_PER_SCRIPT; draws++) {
        choices drawn = choices_from_seed(random_next(&state), NULL);
        cache_case_draw(&drawn, CACHE_ALPHABET_DRAWN, f->script);
        if (hello_allows_script(&f->t.h, f->script))
            break;
    }
    f->going = f->going && talk_ask(&f->t, ASK_CACHE, f->script, from);
}

/* Cases that the other side is not asked are drawn again: most implementations know two layouts of five. */
static bool draw_case(conformance *f, uint64_t *state) {
    for (int draws = 0; draws < DRAWS_PER_CASE; draws++) {
        choices from = choices_from_seed(random_next(state), NULL);
        route_case_draw(&from, &CASE_BOUNDS_DRAWN, f->c);
        for (question_op op = ASK_ROUTE; op < ASK_CACHE; op++)
            if (hello_allows(&f->t.h, op, f->c))
                return true;
    }
    return f->t.h.ops[ASK_CACHE]; /* scripts come with whatever case */
}

static void ask_random(conformance *f) {
    uint64_t state = f->a->seed;
    for (uint64_t i = 0; i < f->a->cases && f->going && draw_case(f, &state); i++) {
        origin from = {.corpus = false};
        snprintf(from.name, sizeof from.name, "random case %" PRIu64 " of seed %" PRIu64, i, f->a->seed);
        ask_case(f, &from, true);
        if (i % CASES_PER_SCRIPT == 0 && f->t.h.ops[ASK_CACHE])
            ask_script(f, state, &from);
        f->counts.random_cases++;
    }
}

static void ask_corpus(conformance *f) {
    if (!files_visit(f->a->cases_path, ask_file, f)) {
        fprintf(stderr, "cproute conform: %s: %s\n", f->a->cases_path, strerror(errno));
        f->mistaken = true;
    }
    if (f->going && !f->mistaken && f->counts.corpus_cases + f->counts.skipped_cases == 0) {
        fprintf(stderr, "cproute conform: --cases: %s: there is no case in it\n", f->a->cases_path);
        f->mistaken = true;
    }
    f->going = f->going && !f->mistaken;
}

static void ask_all(conformance *f) {
    f->stage = "known cases";
    f->going = known_ask(&f->k, &f->t);
    f->stage = "corpus";
    if (f->a->cases_path && f->going)
        ask_corpus(f);
    f->stage = "random cases";
    if (f->going)
        ask_random(f);
    talk_settle(&f->t);
}

/*------------------------------------------------------------------------------
 * Findings
 *----------------------------------------------------------------------------*/

/* The time is shared; a known difference has its minimal case. */
static void shrink_all(conformance *f) {
    const double deadline = seconds_now() + SHRINKING_S;
    size_t left = 0;
    for (size_t i = 0; i < f->t.group_count; i++)
        left += known_entry(&f->k, &f->t.groups[i]) == NULL;
    /* Asking again may find other differences, which are none of these cases. */
    const size_t groups = f->t.group_count;
    f->stage = "making cases small";
    talk_resume(&f->t);
    for (size_t i = 0; i < groups && !talk_is_over(&f->t); i++) {
        group *g = &f->t.groups[i];
        group_repeat(&f->t, i);
        if (known_entry(&f->k, g))
            continue;
        group_shrink(&f->t, g, (deadline - seconds_now()) / (double)left--);
    }
}

static size_t judged(const talk *t) {
    size_t answers = 0;
    for (size_t op = 0; op < QUESTION_OPS; op++)
        answers += t->judged[op];
    return answers;
}

/* Why what was found is no measure of what is known, NULL: it is one. */
static const char *incomplete(const conformance *f) {
    if (f->counts.interrupted)
        return "it was interrupted";
    if (f->t.h.skipped[0])
        return "it was skipped";
    if (f->mistaken)
        return "not all cases could be read";
    if (!judged(&f->t))
        return "nothing was judged";
    for (size_t i = 0; i < f->t.group_count; i++)
        if (talk_ended_by(f->t.groups[i].signature))
            return "not everything was asked";
    return NULL;
}

static void count_all(conformance *f) {
    for (size_t i = 0; i < f->t.group_count; i++) {
        const bool accepted = known_has(&f->k, &f->t.groups[i]);
        f->counts.accepted += accepted;
        f->counts.fresh += !accepted;
    }
    f->counts.not_met = known_not_met(&f->k, &f->t);
    f->counts.interrupted = interrupted();
    f->counts.seed = f->a->seed;
    f->counts.incomplete = incomplete(f);
}

static bool write_junit(const conformance *f) {
    const char *path = f->a->junit_path;
    if (!path || report_junit(&f->t, &f->k, &f->counts, path))
        return true;
    fprintf(stderr, "cproute conform: cannot write %s: %s\n", path, strerror(errno));
    return false;
}

/* Why what was found is not to be written down, NULL: it may be. */
static const char *not_to_be_known(const conformance *f) {
    const char *reason = f->counts.incomplete;
    for (size_t i = 0; i < f->t.group_count && !reason; i++)
        reason = known_refuses(&f->k, &f->t.groups[i]);
    return reason;
}

static bool write_known(const conformance *f) {
    const char *path = f->a->known_path, *reason = not_to_be_known(f);
    size_t gone;
    if (!f->a->update_known)
        return true;
    if (reason) {
        fprintf(stderr, "cproute conform: %s stays as it was: %s\n", path, reason);
        return false;
    }
    if (!known_write(&f->k, &f->t, path, &gone)) {
        fprintf(stderr, "cproute conform: cannot write %s: %s\n", path, strerror(errno));
        return false;
    }
    if (gone)
        fprintf(stderr, "cproute conform: %s: %zu differences were not met and are not in it any more\n",
                path, gone);
    return true;
}

/* An interrupted run, and one that judged nothing, found nothing to be good. */
static int tell(conformance *f) {
    count_all(f);
    progress_end(&f->progress);
    (f->a->json ? report_json : report_text)(&f->t, &f->k, &f->counts);
    const bool junit_written = write_junit(f), known_written = write_known(f);
    const bool accepted = f->a->update_known && known_written;
    if (!junit_written || f->mistaken)
        return EXIT_WRONG_USE;
    if (f->counts.fresh && !accepted)
        return EXIT_FINDINGS;
    if (f->counts.interrupted)
        return EXIT_INTERRUPTED;
    if (!judged(&f->t) && !f->t.h.skipped[0]) {
        fprintf(stderr,
                "cproute conform: nothing was judged: no question was asked that it has an answer for\n");
        return EXIT_WRONG_USE;
    }
    return known_written ? EXIT_GOOD : EXIT_WRONG_USE;
}

static int converse(conformance *f, char *const *words) {
    const double timeout = f->a->seconds > 0 ? f->a->seconds : DEFAULT_TIMEOUT_S;
    const talk_callbacks callbacks = {.go_on = goes_on, .accepts = accepts, .context = f};
    f->stage = "no hello yet";
    progress_begin(&f->progress);
    const bool open = talk_open(&f->t, words, timeout, &callbacks);
    if (!open && errno) {
        fprintf(stderr, "cproute conform: cannot run %s: %s\n", words[0], strerror(errno));
        return EXIT_WRONG_USE;
    }
    if (open && !f->t.h.skipped[0]) {
        f->t.wants_all = f->a->known_path != NULL;
        known_check_offers(&f->k, &f->t);
        ask_all(f);
        shrink_all(f);
        talk_close(&f->t);
    }
    return tell(f);
}

static int conform(arguments *a) {
    conformance f = {.a = a, .c = calloc(1, sizeof *f.c), .script = calloc(1, sizeof *f.script)};
    char mistake[4600];
    int code = EXIT_WRONG_USE;
    if (!f.c || !f.script)
        fprintf(stderr, "cproute conform: out of memory\n");
    else if (!known_read(&f.k, a->known_path, mistake, sizeof mistake))
        fprintf(stderr, "cproute conform: %s\n", mistake);
    else
        code = converse(&f, a->operands);
    talk_free(&f.t);
    known_free(&f.k);
    free(f.c);
    free(f.script);
    return finish_output(code);
}

static bool is_same_file(const char *a, const char *b) {
    struct stat one, other;
    return !strcmp(a, b) || (!stat(a, &one) && !stat(b, &other) && S_ISREG(one.st_mode) &&
                             one.st_dev == other.st_dev && one.st_ino == other.st_ino);
}

/* Before all the work. */
static int check_outputs(const arguments *a) {
    const char *const names[] = {"junit", "known"}, *const paths[] = {a->junit_path,
                                                                      a->update_known ? a->known_path : NULL};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (paths[i] && !file_may_be_written(paths[i]))
            return wrong_use(&conform_command, "--%s: cannot write %s: %s", names[i], paths[i],
                             strerror(errno));
    if (a->junit_path && a->known_path && is_same_file(a->junit_path, a->known_path))
        return wrong_use(&conform_command, "--junit and --known: both are %s", a->junit_path);
    return EXIT_GOOD;
}

static int choose_cases(arguments *a) {
    struct stat info;
    if (a->cases_path && stat(a->cases_path, &info))
        return wrong_use(&conform_command, "--cases: %s: %s", a->cases_path, strerror(errno));
    if (!a->cases_path && !stat(CORPUS_FOLDER, &info))
        a->cases_path = CORPUS_FOLDER;
    if (!a->cases_path)
        fprintf(stderr,
                "cproute conform: there is no %s here, so random cases are all: --cases names the corpus\n",
                CORPUS_FOLDER);
    return EXIT_GOOD;
}

static int conform_run(arguments *a) {
    if (!a->operand_count)
        return wrong_use(&conform_command, "a command is missing");
    if (a->update_known && !a->known_path)
        return wrong_use(&conform_command, "--update-known needs --known");
    if (choose_cases(a) || check_outputs(a))
        return EXIT_WRONG_USE;
    if (!a->random_given)
        a->cases = DEFAULT_RANDOM;
    if (!a->seed_given)
        a->seed = fresh_seed();
    interruption_watch();
    signal(
        SIGCHLD,
        SIG_DFL); /* a parent that ignores it hands that down, and then nobody is told how the command ended */
    return conform(a);
}

const command conform_command = {
    .name = "conform",
    .summary = "Holds another implementation to the corpus and to random cases.",
    .operands = "[options] -- COMMAND [ARGUMENT..]",
    .details = "The command says a line of JSON first, its hello, then answers every line of its\n"
               "input by one; docs/your-implementation.md tells what they look like, and\n"
               "tools/adapters has examples. Answers are compared with those of this library,\n"
               "grouped by what is wrong, and the simplest case of each group is shrunk.\n"
               "Exit status 1: a difference that --known does not hold; 2 also where nothing was\n"
               "judged. Ctrl-C ends early and tells what was found.",
    .options = options,
    .run = conform_run,
};
