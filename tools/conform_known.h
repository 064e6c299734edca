/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differences that are accepted, one JSON object a line:
 *   {"difference":SIGNATURE,"op":OP,"cases":[names of the corpus],"case":{a text case},"want":{..},"got":{..},"note":..}
 * A difference is new if its signature is not there, or if a case of the corpus differs so that is not among those named.
 *
 * Where the same wrong request was answered in more than one way, the entry is {"difference":"route: decreasing is *","unstable":true,..}
 * and names no answer, as it stands for whatever such a request gets. It stays, met or not, until somebody takes it out.
 * Rows that are wrong as chance has it are never known.
 *
 * One line, {"offers":{fields of a hello}}, says what could be asked. It is a difference if less can be, as it is if there is no answer
 * to a question that had one.
 */
#ifndef CPROUTE_TOOLS_CONFORM_KNOWN_H
#define CPROUTE_TOOLS_CONFORM_KNOWN_H

#include "conform_talk.h"
#include <jansson.h>
#include <stdio.h>

typedef struct known {
    json_t *entries; /* by signature */
    bool has_offers;
    hello offers;
    json_t *corpus; /* an object whose members are names of files of the corpus that were asked, NULL: none */
} known;

/* A file that is not there knows nothing. False with a sentence in `mistake`. */
bool known_read(known *k, const char *path, char *mistake, size_t size);
void known_free(known *k);

/* Does it still offer what is known? If not, that is a difference of the talk. */
void known_check_offers(const known *k, talk *t);

/* Names of that file which nobody meets are not kept any more. */
void known_asked_file(known *k, const char *name);

/* Puts the minimal cases that are known, so that they are met whatever else is asked. */
bool known_ask(const known *k, talk *t);

/* What is known about such a difference, NULL: nothing. */
json_t *known_entry(const known *k, const group *g);

/* Is there anything known by that signature? */
bool known_accepts(const known *k, const char *signature);

bool known_has(const known *k, const group *g);

/* Why nobody can accept such a difference, NULL: it may be. */
const char *known_refuses(const known *k, const group *g);

/* The first case of the corpus that makes a difference new although its signature is known, or NULL. */
const char *known_lacks(const known *k, const group *g);

/* How many signatures were not met. */
size_t known_not_met(const known *k, const talk *t);

/* Writes all groups, with the notes of people, in one piece, and how many lines went. False with errno. */
bool known_write(const known *k, const talk *t, const char *path, size_t *gone);

/* A group's case as a text case, NULL if it has none. The caller's to free. */
char *group_text(const group *g);

/* A group as an object; "is" says whether it is "new" or "known" unless it is NULL. */
json_t *group_object(const group *g, const char *is);

#endif
