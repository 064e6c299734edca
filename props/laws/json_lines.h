/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads back the one kind of JSON that the library writes: a line that is one flat object of integers, plain
 * strings, nulls, lists of integers and lists of integer lists. Anything else is a mistake of the writer.
 */
#ifndef CPROUTE_PROPS_JSON_LINES_H
#define CPROUTE_PROPS_JSON_LINES_H

#include "scratch.h"
#include <stdbool.h>

enum { JSON_MEMBERS_MAX = 16 };

typedef enum json_kind { JSON_NULL, JSON_NUMBER, JSON_STRING, JSON_LIST, JSON_TABLE } json_kind;

typedef struct json_member {
    const char *key; /* keys and strings: `..._length` bytes inside the text */
    size_t key_length;
    json_kind kind;
    const char *string;
    size_t string_length;
    int64_t *numbers; /* one, those of the list, or those of all lists of the table */
    int64_t count;
    int64_t columns; /* numbers in each list of a table */
} json_member;

typedef struct json_line {
    json_member members[JSON_MEMBERS_MAX];
    int64_t count;
} json_line;

/* NULL, or what is wrong with the text, which must be one object and a newline. */
const char *json_line_read(const char *text, size_t length, scratch *s, json_line *line);

/* NULL if there is none. */
const json_member *json_line_member(const json_line *line, const char *key);

#endif
