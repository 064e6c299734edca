/* SPDX-License-Identifier: Apache-2.0 */
#include "conform_talk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double HELLO_PATIENCE = 6; /* a command may take so many times longer to begin than to answer */

/*------------------------------------------------------------------------------
 * Groups
 *----------------------------------------------------------------------------*/

static char *line_copy(const char *line) {
    return line ? strndup(line, strcspn(line, "\r\n")) : NULL;
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

static group *group_named(talk *t, const char *signature) {
    for (size_t i = 0; i < t->group_count; i++)
        if (!strcmp(t->groups[i].signature, signature))
            return &t->groups[i];
    group *larger = realloc(t->groups, (t->group_count + 1) * sizeof *larger);
    if (!larger)
        return NULL;
    t->groups = larger;
    group *g = &t->groups[t->group_count++];
    *g = (group){0};
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
    t->wrong++;
    if (!g)
        return;
    g->answers++;
    add_name(g, &a->from);
    if (g->c && !subject_is_simpler(g->op, a->c, g->c))
        return;
    g->from = a->from;
    group_show(g, &a->q, a->c, got, d->details);
}

/* What no case is to blame for. */
static void record_behaviour(talk *t, const char *what, const char *details) {
    group *g = group_named(t, what);
    t->wrong++;
    if (!g)
        return;
    g->answers++;
    snprintf(g->details, sizeof g->details, "%s", details);
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

/*------------------------------------------------------------------------------
 * Beginning and ending
 *----------------------------------------------------------------------------*/

/* What it says about itself, the first time; later it says the same again. */
static bool hear_hello(talk *t) {
    char mistake[200];
    hello h;
    size_t length;
    const char *line = peer_line(&t->p, HELLO_PATIENCE * t->p.timeout_s, &length);
    if (!line) {
        char what[SIGNATURE_LENGTH];
        snprintf(what, sizeof what, "no hello: %s", t->p.loss);
        record_behaviour(t, what, t->p.details);
        return false;
    }
    if (!hello_parse(&h, line, length, mistake, sizeof mistake)) {
        peer_give_up(&t->p, "a hello that is not understood", mistake);
        record_behaviour(t, t->p.loss, mistake);
        return false;
    }
    if (!t->h.name[0])
        t->h = h;
    return true;
}

bool talk_open(talk *t, char *const *command, double timeout_s) {
    *t = (talk){.p = {.command = command, .timeout_s = timeout_s, .in = -1, .out = -1, .err = -1}};
    if (!peer_start(&t->p))
        return false;
    errno = 0;
    const bool good = hear_hello(t);
    errno = 0;
    return good;
}

static void lose_too_often(talk *t) {
    char details[80];
    snprintf(details, sizeof details, "it was started again %zu times; what is left was not asked",
             t->restarts);
    if (!t->gave_up)
        record_behaviour(t, "the command was lost too often", details);
    t->gave_up = true;
}

/* True if there is a command to speak to. */
static bool revive(talk *t) {
    if (t->p.process)
        return true;
    if (t->gave_up)
        return false;
    if (t->restarts >= TALK_MAX_RESTARTS) {
        lose_too_often(t);
        return false;
    }
    t->restarts++;
    if (peer_start(&t->p) && hear_hello(t))
        return true;
    t->gave_up = true;
    return false;
}

void talk_close(talk *t) {
    talk_settle(t);
    if (t->p.process && peer_has_more(&t->p))
        record_behaviour(t, "an answer that nobody asked for", "");
    if (t->p.process && !peer_finish(&t->p))
        record_behaviour(t, t->p.loss, t->p.details);
}

static void asked_free(asked *a) {
    question_free(&a->q);
    free(a->c);
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

static judgement lost(talk *t, const question *q, difference *d) {
    snprintf(d->signature, sizeof d->signature, "%s: %s", question_op_names[q->op],
             t->p.loss ? t->p.loss : "it cannot be started again");
    snprintf(d->details, sizeof d->details, "%s", t->p.details);
    return ANSWER_NONE;
}

judgement talk_ask_alone(talk *t, const question *q, double timeout_s, difference *d, char **got) {
    size_t length = 0;
    *got = NULL;
    *d = (difference){0};
    if (t->p.process && peer_has_more(&t->p))
        peer_give_up(&t->p, "an answer that nobody asked for", "");
    if (!revive(t))
        return lost(t, q, d);
    const double begun = seconds_now();
    const char *line =
        peer_put(&t->p, q->request, q->request_length) ? peer_line(&t->p, timeout_s, &length) : NULL;
    if (!line)
        return lost(t, q, d);
    const judgement result = answer_judge(q, &t->h, line, length, d);
    const double took = seconds_now() - begun;
    *got = line_copy(line);
    if (result == ANSWER_NONE)
        peer_give_up(&t->p, "an answer that is not JSON", "");
    else if (took > t->slowest_s)
        t->slowest_s = took;
    return result;
}

/*------------------------------------------------------------------------------
 * Many questions
 *----------------------------------------------------------------------------*/

static void count(talk *t, const asked *a, judgement result, const difference *d, const char *got) {
    if (result == ANSWER_WRONG || result == ANSWER_NONE)
        record(t, d, a, got);
    t->unsupported += result == ANSWER_UNSUPPORTED;
}

/* The command was lost while several questions were on their way: which one is to blame shows when each is asked alone. */
static void ask_each_alone(talk *t, const char *loss, const char *details) {
    bool again = false;
    while (t->waiting && !t->gave_up) {
        asked *a = &t->ring[t->first];
        difference d;
        char *got;
        const judgement result = talk_ask_alone(t, &a->q, t->p.timeout_s, &d, &got);
        again = again || result == ANSWER_NONE;
        count(t, a, result, &d, got);
        free(got);
        asked_free(a);
        t->first = (t->first + 1) % TALK_WINDOW;
        t->waiting--;
    }
    char what[SIGNATURE_LENGTH];
    snprintf(what, sizeof what, "%s, but not again", loss);
    if (!again && !t->gave_up)
        record_behaviour(t, what, details);
}

static void settle_one(talk *t) {
    asked *a = &t->ring[t->first];
    difference d;
    size_t length;
    const char *line = peer_line(&t->p, t->p.timeout_s, &length);
    judgement result = line ? answer_judge(&a->q, &t->h, line, length, &d) : ANSWER_NONE;
    if (result == ANSWER_NONE) {
        char details[DETAILS_LENGTH];
        if (line)
            peer_give_up(&t->p, "an answer that is not JSON", d.details);
        snprintf(details, sizeof details, "%s", t->p.details);
        ask_each_alone(t, t->p.loss, details);
        return;
    }
    count(t, a, result, &d, line);
    asked_free(a);
    t->first = (t->first + 1) % TALK_WINDOW;
    t->waiting--;
}

void talk_settle(talk *t) {
    while (t->waiting && !t->gave_up)
        settle_one(t);
}

bool talk_ask(talk *t, question_op op, const void *c, const origin *from) {
    asked a = {.from = *from};
    if (!question_make(&a.q, &t->h, op, c)) {
        t->not_asked++;
        return !t->gave_up;
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

void group_family(const group *g, char name[FAMILY_LENGTH]) {
    const char *accepted = strstr(g->signature, " is accepted"),
               *refused = strstr(g->signature, " is refused as ");
    const char *end = accepted ? accepted : refused;
    if (end && !strstr(g->signature, ": what is legal "))
        snprintf(name, FAMILY_LENGTH, "%.*s is *", (int)(end - g->signature), g->signature);
    else
        snprintf(name, FAMILY_LENGTH, "%s", g->signature);
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
    t->restarts = 0;
    const judgement result = talk_ask_alone(t, &q, t->p.timeout_s, d, &got);
    free(got);
    question_free(&q);
    return result;
}

void group_repeat(talk *t, size_t number) {
    enum { REPEATS = 4 };
    group *g = &t->groups[number];
    for (size_t i = 1; i <= REPEATS && g->c && !g->unstable && !t->gave_up; i++) {
        difference d;
        const judgement result = group_ask(t, g, &d);
        g->unstable = strcmp(d.signature, g->signature) != 0;
        /* What was lost takes time, and is nothing new. Otherwise memory is left as another question leaves it. */
        if (result == ANSWER_NONE ||
            group_ask(t, &t->groups[(number + i) % t->group_count], &d) == ANSWER_NONE)
            break;
    }
}
