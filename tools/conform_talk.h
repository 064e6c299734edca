/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A conversation with an implementation: many questions on their way at once, answers judged in order, the command started
 * again when it was lost. Differences are gathered in groups of one signature.
 */
#ifndef CPROUTE_TOOLS_CONFORM_TALK_H
#define CPROUTE_TOOLS_CONFORM_TALK_H

#include "conform_peer.h"
#include "conform_question.h"

/* Which case a question is about. */
enum { ORIGIN_LENGTH = 160 };
typedef struct origin {
    bool corpus; /* named by people: which of these differ is part of what is known about a difference */
    char name[ORIGIN_LENGTH];
} origin;

/* Answers that are wrong in one way, and the simplest case that shows it. */
typedef struct group {
    char signature[SIGNATURE_LENGTH];
    char details[DETAILS_LENGTH];
    bool unstable; /* the same question was answered in another way */
    question_op op;
    void *c; /* as the question takes it, NULL: no case is to blame */
    origin from;
    char *request, *want, *got; /* lines without their ends, NULL: there is none */
    size_t answers;
    char **names; /* of the cases of the corpus that differ so, each once */
    size_t name_count;
} group;

/*
 * How often the command may be lost in ways that nobody has accepted before the rest is not asked; and how often of that by
 * hanging, which takes the time for an answer each.
 */
enum { TALK_WINDOW = 128, TALK_MAX_LOSSES = 40, TALK_MAX_HANGS = 3, TALK_MAX_GROUPS = 200 };

typedef struct asked {
    question q;
    void *c;
    origin from;
} asked;

typedef struct talk {
    peer p;
    hello h;
    double slowest_s;     /* of right answers */
    size_t losses, hangs; /* that nobody has accepted */
    size_t barren;        /* losses since the last answer, a hang for several */
    bool over;            /* there is nobody to ask, */
    bool tired;           /* or it was lost too often */
    bool (*accepts)(void *context, const char *signature); /* is it known to differ so? NULL: no */
    bool wants_all; /* what it has no answer for is a difference, too */

    asked ring[TALK_WINDOW];
    size_t first, waiting;

    group *groups;
    size_t group_count;
    size_t questions, wrong, unsupported, not_asked;
    size_t judged[QUESTION_OPS]; /* answers that say something, right or wrong */
} talk;

/* What those who talk are asked, with a context of theirs. */
typedef struct talk_callbacks {
    bool (*go_on)(void *context); /* as for a peer */
    bool (*accepts)(void *context, const char *signature);
    void *context;
} talk_callbacks;

/* Starts the command and hears its hello. False: with errno, if there is no such command; with 0 there, if it is there and
 * says nothing that can be understood, which is a difference then. */
bool talk_open(talk *t, char *const *command, double timeout_s, const talk_callbacks *callbacks);

/* Ends the command, which must end well. */
void talk_close(talk *t);
void talk_free(talk *t);

/* Puts one case as that question, and may judge earlier answers. False when going on is of no use. */
bool talk_ask(talk *t, question_op op, const void *c, const origin *from);

/* The same for a text case, at one rank of those that the question is about. */
bool talk_ask_text(talk *t, question_op op, const text_case *c, int64_t rank, const origin *from);

/* Hears all answers that are on their way. */
void talk_settle(talk *t);

/* After all was asked: what was lost until then is no reason not to ask about what was found. */
void talk_resume(talk *t);

/* There is nobody to ask any more, or a reason to stop. */
bool talk_is_over(const talk *t);

/* The time for an answer. A hang that is accepted, and was waited for already, is a hang after much less. */
double talk_patience(const talk *t, question_op op);

/* Well above the time that answers have taken so far. */
double talk_short_patience(const talk *t);

/* Puts one question alone and waits. ANSWER_NONE: the command was lost, for which *d says. *got is a line of the caller's
 * to free, or NULL. */
judgement talk_ask_alone(talk *t, const question *q, double timeout_s, difference *d, char **got);

/* A difference that no case is to blame for. */
void talk_blame(talk *t, const char *what, const char *details);

/* Is that what a group is called after which nothing is asked? Nobody can accept it then. */
bool talk_ended_by(const char *signature);

/* Asks the group's question again, after those of other groups, to see whether its answer stays the same. */
void group_repeat(talk *t, size_t number);

/* Are its answers none, in the time for them? */
bool group_hangs(const group *g);

/* What a wrong request gets by chance may be anything, so the name ends behind what is wrong about it: "route: decreasing is *".
 * False where the group is about no wrong request, or a wrong one that got neither a route nor a refusal: then it is its own family. */
enum { FAMILY_LENGTH = SIGNATURE_LENGTH + 8 };
bool group_family(const group *g, char name[FAMILY_LENGTH]);
bool family_has(const char *name, const char *signature);

/* A group's case and answers replaced. */
void group_show(group *g, const question *q, const void *c, const char *got, const char *details);

#endif
