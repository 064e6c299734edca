/* SPDX-License-Identifier: Apache-2.0 */
#include "conform_talk.h"
#include "printable.h"
#include "progress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LEAST_PATIENCE_S = 0.5, TIMES_SLOWER = 20;
static const char TOO_MANY_GROUPS[] = "more kinds of differences than can be told apart",
                  NO_HELLO[] = "no hello: ", BAD_HELLO[] = "a hello that is not understood",
                  NO_START[] = "it cannot be started again", TOO_OFTEN[] = "the command was lost too often";

/*------------------------------------------------------------------------------
 * Groups
 *----------------------------------------------------------------------------*/

static char *line_copy(const char *line) {
    char *copy = line ? strndup(line, strcspn(line, "\r\n")) : NULL;
    if (copy)
        make_printable(copy);
    return copy;
}

static void replace(char **text, const char *line) {
    char *copy = line_copy(line);
    free(*text);
    *text = copy;
}

void group_show(group *g, const question *q, const void *c, const char *got, const char *details) {
    void *copy = subject_copy(q->op, c);
    if (!copy)
        return;
    free(g->c);
    g->c = copy;
    g->op = q->op;
    replace(&g->request, q->request);
    replace(&g->want, q->want);
    replace(&g->got, got);
    snprintf(g->details, sizeof g->details, "%s", details);
}

static group *group_there(const talk *t, const char *signature) {
    for (size_t i = 0; i < t->group_count; i++)
        if (!strcmp(t->groups[i].signature, signature))
            return &t->groups[i];
    return NULL;
}

/* Whoever makes up kinds of differences without end gets one for all that are too many. */
static group *group_named(talk *t, const char *signature) {
    group *const there = group_there(t, signature);
    const bool full = t->group_count + 1 >= TALK_MAX_GROUPS;
    if (!there && full && strcmp(signature, TOO_MANY_GROUPS) != 0)
        return group_named(t, TOO_MANY_GROUPS);
    if (there)
        return there;
    if (!t->groups) /* all at once, so that a group stays where it is */
        t->groups = calloc(TALK_MAX_GROUPS, sizeof *t->groups);
    if (!t->groups)
        return NULL;
    group *g = &t->groups[t->group_count++];
    snprintf(g->signature, sizeof g->signature, "%s", signature);
    return g;
}

/* Cases of the corpus come in order, so a case that was there was the last. */
static void add_name(group *g, const origin *from) {
    if (!from->corpus || (g->name_count && !strcmp(g->names[g->name_count - 1], from->name)))
        return;
    char **larger = realloc(g->names, (g->name_count + 1) * sizeof *larger);
    if (!larger)
        return;
    g->names = larger;
    g->names[g->name_count] = strdup(from->name);
    g->name_count += g->names[g->name_count] != NULL;
}

static void record(talk *t, const difference *d, const asked *a, const char *got) {
    group *g = group_named(t, d->signature);
    if (!g)
        return;
    g->answers++;
    add_name(g, &a->from);
    if (g->c && !subject_is_simpler(g->op, a->c, g->c))
        return;
    g->from = a->from;
    group_show(g, &a->q, a->c, got, d->details);
}

void talk_blame(talk *t, const char *what, const char *details) {
    group *g = group_named(t, what);
    t->wrong++;
    if (!g)
        return;
    g->answers++;
    snprintf(g->details, sizeof g->details, "%s", details);
    make_printable(g->details);
}

/* What nothing can be asked after. */
static void record_end(talk *t, const char *what, const char *details) {
    talk_blame(t, what, details);
    t->over = true;
}

static void group_free(group *g) {
    free(g->c);
    free(g->request);
    free(g->want);
    free(g->got);
    for (size_t i = 0; i < g->name_count; i++)
        free(g->names[i]);
    free(g->names);
}

static void asked_free(asked *a) {
    question_free(&a->q);
    free(a->c);
}

static void drop_first(talk *t) {
    asked_free(&t->ring[t->first]);
    t->first = (t->first + 1) % TALK_WINDOW;
    t->waiting--;
}

/*------------------------------------------------------------------------------
 * Beginning and ending
 *----------------------------------------------------------------------------*/

/* What it says about itself, the first time; later it says the same again. */
static bool hear_hello(talk *t) {
    char mistake[200];
    hello h;
    size_t length;
    const char *line = peer_line(&t->p, PEER_PATIENCE * t->p.timeout_s, &length);
    if (!line) {
        char what[SIGNATURE_LENGTH];
        snprintf(what, sizeof what, "%s%s", NO_HELLO, t->p.loss);
        if (!t->p.stopped)
            record_end(t, what, t->p.details);
        return false;
    }
    if (!hello_parse(&h, line, length, mistake, sizeof mistake)) {
        peer_give_up(&t->p, BAD_HELLO, mistake);
        record_end(t, t->p.loss, mistake);
        return false;
    }
    if (!t->h.name[0])
        t->h = h;
    return true;
}

bool talk_open(talk *t, char *const *command, double timeout_s, const talk_callbacks *callbacks) {
    *t = (talk){.p = {.command = command,
                      .timeout_s = timeout_s,
                      .in = -1,
                      .out = -1,
                      .err = -1,
                      .go_on = callbacks->go_on,
                      .context = callbacks->context},
                .accepts = callbacks->accepts};
    if (!peer_start(&t->p))
        return false;
    errno = 0;
    const bool good = hear_hello(t);
    errno = 0;
    return good;
}

/* True if there is a command to speak to. */
static bool revive(talk *t) {
    if (t->p.process)
        return true;
    if (talk_is_over(t))
        return false;
    if (!peer_start(&t->p)) {
        record_end(t, NO_START, strerror(errno));
        return false;
    }
    return hear_hello(t);
}

bool talk_ended_by(const char *signature) {
    static const char *const ends[] = {TOO_MANY_GROUPS, BAD_HELLO, NO_START, TOO_OFTEN};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (!strcmp(signature, ends[i]))
            return true;
    return !strncmp(signature, NO_HELLO, sizeof NO_HELLO - 1);
}

bool talk_is_over(const talk *t) {
    return t->over || t->p.stopped;
}

void talk_resume(talk *t) {
    t->questions -= t->waiting;
    t->not_asked += t->waiting;
    while (t->waiting)
        drop_first(t);
    t->over = t->over && !t->tired;
}

void talk_close(talk *t) {
    if (t->p.process && !peer_finish(&t->p) && !t->p.stopped)
        talk_blame(t, t->p.loss, t->p.details);
}

void talk_free(talk *t) {
    peer_stop(&t->p);
    for (size_t i = 0; i < t->waiting; i++)
        asked_free(&t->ring[(t->first + i) % TALK_WINDOW]);
    for (size_t i = 0; i < t->group_count; i++)
        group_free(&t->groups[i]);
    free(t->groups);
    free(t->p.to_send.items);
    free(t->p.arrived.items);
}

/*------------------------------------------------------------------------------
 * One question
 *----------------------------------------------------------------------------*/

static judgement lost(const talk *t, const question *q, difference *d) {
    if (talk_is_over(t))
        return ANSWER_NOT_AWAITED;
    snprintf(d->signature, sizeof d->signature, "%s: %s", question_op_names[q->op], t->p.loss);
    snprintf(d->details, sizeof d->details, "%s", t->p.details);
    make_printable(d->details);
    return ANSWER_NONE;
}

double talk_short_patience(const talk *t) {
    const double enough = TIMES_SLOWER * t->slowest_s;
    const double least = enough > LEAST_PATIENCE_S ? enough : LEAST_PATIENCE_S;
    return least < t->p.timeout_s ? least : t->p.timeout_s;
}

static bool is_accepted(const talk *t, const char *signature) {
    return t->accepts && t->accepts(t->p.context, signature);
}

double talk_patience(const talk *t, question_op op) {
    char hang[SIGNATURE_LENGTH];
    snprintf(hang, sizeof hang, "%s: %s", question_op_names[op], PEER_HANGS);
    return group_there(t, hang) && is_accepted(t, hang) ? talk_short_patience(t) : t->p.timeout_s;
}

static void took(talk *t, double seconds) {
    if (seconds > t->slowest_s)
        t->slowest_s = seconds;
}

judgement talk_ask_alone(talk *t, const question *q, double timeout_s, difference *d, char **got) {
    size_t length = 0;
    *got = NULL;
    *d = (difference){0};
    if (t->p.process && peer_has_more(&t->p)) {
        talk_blame(t, PEER_SAYS_MORE, "");
        peer_give_up(&t->p, PEER_SAYS_MORE, "");
    }
    if (!revive(t) || !peer_put(&t->p, q->request, q->request_length))
        return ANSWER_NOT_AWAITED;
    const double begun = seconds_now();
    const char *line = peer_line(&t->p, timeout_s, &length);
    if (!line)
        return lost(t, q, d);
    const judgement result = answer_judge(q, &t->h, line, length, d);
    *got = line_copy(line);
    if (result == ANSWER_NONE)
        peer_give_up(&t->p, "an answer that is not JSON", "");
    else
        took(t, seconds_now() - begun);
    return result;
}

/*------------------------------------------------------------------------------
 * Many questions
 *----------------------------------------------------------------------------*/

/* What is accepted ends nothing, unless there is nothing else. */
static void count_loss(talk *t, const char *signature) {
    enum { HANG = 10, BARREN_MAX = 200 };
    char details[120];
    const bool hang = t->p.loss == PEER_HANGS, accepted = is_accepted(t, signature);
    t->losses += !accepted;
    t->hangs += hang && !accepted;
    t->barren += hang ? HANG : 1;
    if (t->losses < TALK_MAX_LOSSES && t->hangs < TALK_MAX_HANGS && t->barren < BARREN_MAX)
        return;
    snprintf(details, sizeof details, "%zu times, %zu of them by hanging; what is left was not asked",
             t->losses, t->hangs);
    t->tired = true;
    record_end(t, TOO_OFTEN, details);
}

static void count(talk *t, const asked *a, judgement result, const difference *d, const char *got) {
    const bool unsupported = result == ANSWER_UNSUPPORTED;
    const bool is_wrong = result == ANSWER_WRONG || result == ANSWER_NONE;
    if (is_wrong || (unsupported && t->wants_all))
        record(t, d, a, got);
    t->wrong += is_wrong;
    t->unsupported += unsupported;
    if (result == ANSWER_NONE) {
        count_loss(t, d->signature);
        return;
    }
    t->judged[a->q.op] += !unsupported;
    t->barren = 0;
}

/* The command was lost while several questions were on their way: which one is to blame shows when each is asked alone. */
static void ask_each_alone(talk *t, const char *loss, const char *details) {
    bool again = false;
    while (t->waiting && !talk_is_over(t)) {
        const asked *a = &t->ring[t->first];
        difference d;
        char *got;
        const judgement result = talk_ask_alone(t, &a->q, talk_patience(t, a->q.op), &d, &got);
        if (result != ANSWER_NOT_AWAITED) {
            again = again || result == ANSWER_NONE;
            count(t, a, result, &d, got);
            drop_first(t);
        }
        free(got);
    }
    if (again || talk_is_over(t))
        return;
    char what[SIGNATURE_LENGTH];
    snprintf(what, sizeof what, "%s, but not again", loss);
    talk_blame(t, what, details);
    count_loss(t, what);
}

static void settle_one(talk *t) {
    const asked *a = &t->ring[t->first];
    difference d;
    size_t length;
    const double begun = seconds_now();
    const char *line = peer_line(&t->p, talk_patience(t, a->q.op), &length);
    const judgement result = line ? answer_judge(&a->q, &t->h, line, length, &d) : lost(t, &a->q, &d);
    if (result == ANSWER_NOT_AWAITED)
        return;
    if (result == ANSWER_NONE) {
        if (line)
            peer_give_up(&t->p, "an answer that is not JSON", d.details);
        ask_each_alone(t, t->p.loss, d.details);
        return;
    }
    took(t, seconds_now() - begun);
    count(t, a, result, &d, line);
    drop_first(t);
}

void talk_settle(talk *t) {
    while (t->waiting && !talk_is_over(t))
        settle_one(t);
}

bool talk_ask(talk *t, question_op op, const void *c, const origin *from) {
    asked a = {.from = *from};
    if (!peer_goes_on(&t->p) || talk_is_over(t))
        return false;
    if (!question_make(&a.q, &t->h, op, c)) {
        t->not_asked++;
        return true;
    }
    if (t->waiting == TALK_WINDOW)
        settle_one(t);
    a.c = revive(t) ? subject_copy(op, c) : NULL;
    if (!a.c || !peer_put(&t->p, a.q.request, a.q.request_length)) {
        asked_free(&a);
        return false;
    }
    t->questions++;
    t->ring[(t->first + t->waiting++) % TALK_WINDOW] = a;
    return true;
}

bool talk_ask_text(talk *t, question_op op, const text_case *c, int64_t rank, const origin *from) {
    shape_case *copy = shape_case_of_text(c, rank);
    const bool more = !copy || talk_ask(t, op, copy, from);
    free(copy);
    return more;
}

bool group_family(const group *g, char name[FAMILY_LENGTH]) {
    const char *accepted = strstr(g->signature, " is accepted"),
               *refused = strstr(g->signature, " is refused as ");
    const char *end = accepted ? accepted : refused;
    const bool of_wrong_request = end && !strstr(g->signature, ": what is legal ");
    if (of_wrong_request)
        snprintf(name, FAMILY_LENGTH, "%.*s is *", (int)(end - g->signature), g->signature);
    else
        snprintf(name, FAMILY_LENGTH, "%s", g->signature);
    return of_wrong_request;
}

bool family_has(const char *name, const char *signature) {
    const size_t length = strlen(name);
    return length > 0 && name[length - 1] == '*' ? !strncmp(name, signature, length - 1)
                                                 : !strcmp(name, signature);
}

/* The signature of the answer to the group's question, asked alone. ANSWER_NONE: the command was lost. */
static judgement group_ask(talk *t, const group *g, difference *d) {
    question q;
    char *got;
    *d = (difference){0};
    if (!g->c || !question_make(&q, &t->h, g->op, g->c))
        return ANSWER_UNSUPPORTED;
    const judgement result = talk_ask_alone(t, &q, talk_patience(t, g->op), d, &got);
    free(got);
    question_free(&q);
    return result;
}

bool group_hangs(const group *g) {
    const size_t length = strlen(g->signature), tail = strlen(PEER_HANGS);
    return length > tail && !strcmp(g->signature + length - tail, PEER_HANGS);
}

void group_repeat(talk *t, size_t number) {
    enum { REPEATS = 4 };
    group *g = &t->groups[number];
    for (size_t i = 1;
         i <= REPEATS && g->c && !g->unstable && !group_hangs(g) && !talk_ended_by(g->signature); i++) {
        difference d;
        const judgement result = group_ask(t, g, &d);
        if (result == ANSWER_NOT_AWAITED)
            break;
        g->unstable = strcmp(d.signature, g->signature) != 0;
        /* What was lost takes time, and is nothing new. Otherwise memory is left as another question leaves it. */
        const group *other = &t->groups[(number + i) % t->group_count];
        if (result == ANSWER_NONE || group_hangs(other) || group_ask(t, other, &d) == ANSWER_NONE)
            break;
    }
}
