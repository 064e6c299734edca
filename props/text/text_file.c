/* SPDX-License-Identifier: Apache-2.0 */
/* Files of text cases, and the right answers beside them. */
#include "text_case.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ends_in(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && !strcmp(text + length - end_length, end);
}

bool is_answers_file(const char *path) {
    return ends_in(path, ".expected.jsonl") || ends_in(path, ".expected.json");
}

bool is_text_file(const char *path) {
    return (ends_in(path, ".jsonl") || ends_in(path, ".json")) && !is_answers_file(path);
}

/* One line after another, of any length. */
typedef struct lines {
    FILE *file;
    char *line;
    size_t capacity, length;
    int number;
} lines;

static bool next_line(lines *l) {
    ssize_t read = getline(&l->line, &l->capacity, l->file);
    if (read < 0)
        return false;
    l->length = (size_t)read;
    l->number++;
    return true;
}

static bool is_blank(const lines *l) {
    return strspn(l->line, " \t\r\n") == l->length;
}

static bool close_lines(lines *l, const char *path, char *mistake, size_t size) {
    bool failed = ferror(l->file) != 0;
    if (failed)
        snprintf(mistake, size, "%s: cannot be read", path);
    fclose(l->file);
    free(l->line);
    return !failed;
}

static bool add_answer(json_t *answers, const lines *l, const char *path, char *mistake, size_t size) {
    json_error_t error;
    json_t *answer = json_loadb(l->line, l->length, JSON_REJECT_DUPLICATES, &error);
    const char *id = json_string_value(json_object_get(answer, "id"));
    bool added = id && !json_object_get(answers, id) && !json_object_set(answers, id, answer);
    if (!added)
        snprintf(mistake, size, "%s:%d: %s", path, l->number,
                 !answer ? error.text : (id ? "answers twice for one id" : "no id"));
    else
        json_object_del(answer, "id");
    json_decref(answer);
    return added;
}

/* The answers by id; an empty object if there is no such file, NULL if it is wrong. */
static json_t *answers_beside(const char *path, char *mistake, size_t size) {
    const char *dot = strrchr(path, '.');
    char *beside = malloc(strlen(path) + sizeof ".expected");
    json_t *answers = json_object();
    bool good = beside && answers && dot;
    if (!good)
        snprintf(mistake, size, "out of memory");
    lines l = {0};
    if (good) {
        sprintf(beside, "%.*s.expected%s", (int)(dot - path), path, dot);
        l.file = fopen(beside, "rb");
    }
    if (l.file) {
        while (good && next_line(&l))
            good = is_blank(&l) || add_answer(answers, &l, beside, mistake, size);
        good = close_lines(&l, beside, mistake, size) && good;
    }
    free(beside);
    if (good)
        return answers;
    json_decref(answers);
    return NULL;
}

/* Answers of both places count; those in the case go first. */
static void join_answers(text_case *c, json_t *answers) {
    json_t *beside = json_object_get(answers, c->id);
    if (!beside)
        return;
    if (c->expected)
        json_object_update_missing(c->expected, beside);
    else if (!json_object_set(c->object, "expected", beside))
        c->expected = json_object_get(c->object, "expected");
}

/* Remembers the id; false if it was there before. */
static bool is_new(json_t *ids, const char *id) {
    return !json_object_get(ids, id) && !json_object_set_new(ids, id, json_true());
}

bool text_file_visit(const char *path, text_visit_fn visit, void *context, char *mistake, size_t size) {
    lines l = {.file = fopen(path, "rb")};
    if (!l.file) {
        snprintf(mistake, size, "%s: %s", path, strerror(errno));
        return false;
    }
    json_t *answers = answers_beside(path, mistake, size);
    json_t *ids = json_object();
    bool more = answers != NULL;
    while (more && next_line(&l)) {
        char why[384];
        text_case c;
        if (is_blank(&l))
            continue;
        bool parsed = text_case_parse(&c, l.line, l.length, why, sizeof why);
        if (parsed && !is_new(ids, c.id)) {
            snprintf(why, sizeof why, "%.200s: another case of this file has the same id", c.id);
            text_case_free(&c);
            parsed = false;
        }
        if (parsed)
            join_answers(&c, answers);
        text_entry entry = {.file = path, .line = l.number, .c = parsed ? &c : NULL, .mistake = why};
        more = visit(context, &entry);
        if (parsed)
            text_case_free(&c);
    }
    bool good = close_lines(&l, path, mistake, size) && answers;
    json_decref(ids);
    json_decref(answers);
    return good;
}
