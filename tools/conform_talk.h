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

enum { TALK_WINDOW = 128, TALK_MAX_RESTARTS = 40 };

typedef struct asked {
    question q;
    void *c;
    origin from;
} asked;

typedef struct talk {
    peer p;
    hello h;
    double slowest_s; /* of right answers */
    size_t restarts;
    bool gave_up; /* it was lost too often */

    asked ring[TALK_WINDOW];
    size_t first, waiting;

    group *groups;
    size_t group_count;
    size_t questions, wrong, unsupported, not_asked;
} talk;

/* Starts the command and hears its hello. False: with errno, if there is no such command; with 0 there, if it is there and
 * says nothing that can be understood, which is a difference then. */
bool talk_open(talk *t, char *const *command, double timeout_s);

/* Ends the command, which must end well. */
void talk_close(talk *t);
void talk_free(talk *t);

/* Puts one case as that question, and may judge earlier answers. False when going on is of no use. */
bool talk_ask(talk *t, question_op op, const void *c, const origin *from);

/* The same for a text case, at one rank of those that the question is about. */
bool talk_ask_text(talk *t, question_op op, const text_case *c, int64_t rank, const origin *from);

/* Hears all answers that are on their way. */
void talk_settle(talk *t);

/* Puts one question alone and waits. ANSWER_NONE: the command was lost, for which *d says. *got is a line of the caller's
 * to free, or NULL. */
judgement talk_ask_alone(talk *t, const question *q, double timeout_s, difference *d, char **got);

/* Asks the group's question again, after those of other groups, to see whether its answer stays the same. */
void group_repeat(talk *t, size_t number);

/* What a wrong request gets by chance may be anything, so the name ends behind what is wrong about it: "route: decreasing is *". */
enum { FAMILY_LENGTH = SIGNATURE_LENGTH + 8 };
void group_family(const group *g, char name[FAMILY_LENGTH]);
bool family_has(const char *name, const char *signature);

/* A group's case and answers replaced. */
void group_show(group *g, const question *q, const void *c, const char *got, const char *details);

#endif
