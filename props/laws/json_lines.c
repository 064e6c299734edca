/* SPDX-License-Identifier: Apache-2.0 */
#include "json_lines.h"
#include <string.h>

typedef struct reader {
    const char *at, *end;
    scratch *memory;
    const char *wrong; /* the first thing that was; nothing is read after it */
} reader;

static bool complain(reader *r, const char *wrong) {
    if (!r->wrong)
        r->wrong = wrong;
    return false;
}

static bool next_is(const reader *r, char c) {
    return !r->wrong && r->at < r->end && *r->at == c;
}

static bool take(reader *r, char c) {
    if (!next_is(r, c))
        return false;
    r->at++;
    return true;
}

static bool need(reader *r, char c, const char *wrong) {
    return take(r, c) || complain(r, wrong);
}

static bool is_digit(const reader *r) {
    return !r->wrong && r->at < r->end && *r->at >= '0' && *r->at <= '9';
}

/* All of int64_t, digit by digit in the negative, which reaches further. */
static bool read_number(reader *r, int64_t *number) {
    const bool negative = take(r, '-');
    const char *first = r->at;
    int64_t value = 0;
    if (!is_digit(r))
        return complain(r, "a number was expected");
    for (; is_digit(r); r->at++) {
        const int digit = *r->at - '0';
        if (value < (INT64_MIN + digit) / 10)
            return complain(r, "a number beyond 64 bits");
        value = value * 10 - digit;
    }
    if (*first == '0' && (r->at - first > 1 || negative))
        return complain(r, "a number with a needless zero or sign");
    if (!negative && value == INT64_MIN)
        return complain(r, "a number beyond 64 bits");
    *number = negative ? value : -value;
    return true;
}

static bool read_string(reader *r, const char **string, size_t *length) {
    if (!need(r, '"', "a string was expected"))
        return false;
    *string = r->at;
    while (r->at < r->end && *r->at != '"' && *r->at != '\\' && (unsigned char)*r->at >= ' ')
        r->at++;
    *length = (size_t)(r->at - *string);
    return need(r, '"', "a string does not end, or is not plain");
}

/* No more than the commas of this list part. */
static int64_t numbers_at_most(const reader *r) {
    int64_t numbers = 1, depth = 0;
    for (const char *at = r->at; at < r->end; at++) {
        numbers += *at == ',';
        depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
        if (depth == 0)
            break;
    }
    return numbers;
}

static bool read_list(reader *r, json_member *m) {
    if (!need(r, '[', "a list was expected"))
        return false;
    if (take(r, ']'))
        return true;
    do {
        if (!read_number(r, &m->numbers[m->count]))
            return false;
        m->count++;
    } while (take(r, ','));
    return need(r, ']', "a list does not end");
}

static bool read_table(reader *r, json_member *m) {
    m->kind = JSON_TABLE;
    need(r, '[', "a table was expected");
    do {
        const int64_t before = m->count;
        if (!read_list(r, m))
            return false;
        if (before == 0)
            m->columns = m->count;
        if (m->count - before != m->columns || m->columns == 0)
            return complain(r, "a ragged table");
    } while (take(r, ','));
    return need(r, ']', "a table does not end");
}

static bool read_lists(reader *r, json_member *m) {
    m->kind = JSON_LIST;
    m->numbers = scratch_int64(r->memory, numbers_at_most(r));
    if (!m->numbers)
        return complain(r, "no memory to read it");
    return r->end - r->at > 1 && r->at[1] == '[' ? read_table(r, m) : read_list(r, m);
}

static bool read_null(reader *r, json_member *m) {
    m->kind = JSON_NULL;
    for (const char *letter = "null"; *letter; letter++)
        if (!need(r, *letter, "neither a value nor null"))
            return false;
    return true;
}

static bool read_value(reader *r, json_member *m) {
    if (next_is(r, '"')) {
        m->kind = JSON_STRING;
        return read_string(r, &m->string, &m->string_length);
    }
    if (next_is(r, '['))
        return read_lists(r, m);
    if (next_is(r, 'n'))
        return read_null(r, m);
    m->kind = JSON_NUMBER;
    m->count = 1;
    m->numbers = scratch_int64(r->memory, 1);
    if (!m->numbers)
        return complain(r, "no memory to read it");
    return read_number(r, m->numbers);
}

static bool read_member(reader *r, json_line *line) {
    if (line->count == JSON_MEMBERS_MAX)
        return complain(r, "too many members");
    json_member *m = &line->members[line->count++];
    *m = (json_member){0};
    return read_string(r, &m->key, &m->key_length) && need(r, ':', "a key without a value") &&
           read_value(r, m);
}

const char *json_line_read(const char *text, size_t length, scratch *s, json_line *line) {
    reader r = {text, text + length, s, NULL};
    line->count = 0;
    need(&r, '{', "no object");
    do
        read_member(&r, line);
    while (take(&r, ','));
    need(&r, '}', "the object does not end");
    need(&r, '\n', "the line does not end");
    if (r.at != r.end)
        complain(&r, "something after the line");
    return r.wrong;
}

const json_member *json_line_member(const json_line *line, const char *key) {
    for (int64_t i = 0; i < line->count; i++) {
        const json_member *m = &line->members[i];
        if (m->key_length == strlen(key) && memcmp(m->key, key, m->key_length) == 0)
            return m;
    }
    return NULL;
}
