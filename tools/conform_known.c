/* SPDX-License-Identifier: Apache-2.0 */
#include "conform_known.h"
#include "text/text_case.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*------------------------------------------------------------------------------
 * Reading
 *----------------------------------------------------------------------------*/

static bool take_entry(known *k, const char *path, int number, const char *line, size_t length, char *mistake,
                       size_t size) {
    json_error_t error;
    json_t *entry = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
    const char *signature = json_string_value(json_object_get(entry, "difference"));
    const bool taken = signature && !json_object_get(k->entries, signature) &&
                       !json_object_set(k->entries, signature, entry);
    if (!taken)
        snprintf(mistake, size, "%s:%d: %s", path, number,
                 !entry ? error.text : (signature ? "a difference that is there twice" : "no difference"));
    json_decref(entry);
    return taken;
}

static bool read_lines(known *k, FILE *file, const char *path, char *mistake, size_t size) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    bool good = true;
    for (int number = 1; good && (length = getline(&line, &capacity, file)) >= 0; number++)
        good = strspn(line, " \t\r\n") == (size_t)length ||
               take_entry(k, path, number, line, (size_t)length, mistake, size);
    if (good && ferror(file))
        snprintf(mistake, size, "cannot read %s", path);
    good = good && !ferror(file);
    free(line);
    return good;
}

bool known_read(known *k, const char *path, char *mistake, size_t size) {
    FILE *file = path ? fopen(path, "rb") : NULL;
    k->entries = json_object();
    if (path && !file && errno != ENOENT) {
        snprintf(mistake, size, "cannot open %s: %s", path, strerror(errno));
        return false;
    }
    if (!file)
        return true;
    const bool good = read_lines(k, file, path, mistake, size);
    fclose(file);
    return good;
}

void known_free(known *k) {
    json_decref(k->entries);
}

/*------------------------------------------------------------------------------
 * Asking
 *----------------------------------------------------------------------------*/

static bool op_named(const char *name, question_op *op) {
    for (size_t i = 0; name && i < QUESTION_OPS; i++) {
        if (!strcmp(name, question_op_names[i])) {
            *op = (question_op)i;
            return true;
        }
    }
    return false;
}

/* Ranks of a text are those of context parallelism; it may be any TP rank that a group of both differs about. */
static bool ask_group(talk *t, question_op op, const text_case *c, const origin *from) {
    const int64_t tp_size = c->fused ? c->fused_tp : 1;
    bool more = true;
    for (int64_t tp_rank = 0; tp_rank < tp_size && more; tp_rank++)
        more = talk_ask_text(t, op, c, c->rank * tp_size + tp_rank, from);
    return more;
}

static bool ask_parsed(talk *t, question_op op, text_case *parsed, route_case *c) {
    const origin from = {.name = "a known difference"};
    if (op == ASK_FUSED || op == ASK_CHUNKS)
        return ask_group(t, op, parsed, &from);
    if (asks_with_text(op))
        return talk_ask_text(t, op, parsed, parsed->rank, &from);
    if (op == ASK_CACHE)
        return !parsed->cache || talk_ask(t, op, parsed->cache, &from);
    return !text_case_to_route_case(parsed, parsed->rank, true, c) || talk_ask(t, op, c, &from);
}

static bool ask_text(talk *t, question_op op, const char *text, route_case *c) {
    char mistake[256];
    text_case parsed;
    if (!text_case_parse(&parsed, text, strlen(text), mistake, sizeof mistake))
        return true;
    const bool more = ask_parsed(t, op, &parsed, c);
    text_case_free(&parsed);
    return more;
}

bool known_ask(const known *k, talk *t) {
    const char *signature;
    json_t *entry;
    bool more = true;
    route_case *c = calloc(1, sizeof *c);
    json_object_foreach(k->entries, signature, entry) {
        question_op op;
        char *text = json_dumps(json_object_get(entry, "case"), JSON_COMPACT);
        if (c && text && more && op_named(json_string_value(json_object_get(entry, "op")), &op))
            more = ask_text(t, op, text, c);
        free(text);
    }
    free(c);
    return more;
}

/*------------------------------------------------------------------------------
 * Comparing
 *----------------------------------------------------------------------------*/

bool known_has(const known *k, const group *g) {
    return json_object_get(k->entries, g->signature) && !known_lacks(k, g);
}

static bool has_text(const json_t *list, const char *text) {
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        if (!strcmp(json_string_value(item) ? json_string_value(item) : "", text))
            return true;
    }
    return false;
}

const char *known_lacks(const known *k, const group *g) {
    const json_t *entry = json_object_get(k->entries, g->signature);
    for (size_t i = 0; entry && i < g->name_count; i++)
        if (!has_text(json_object_get(entry, "cases"), g->names[i]))
            return g->names[i];
    return NULL;
}

size_t known_not_met(const known *k, const talk *t) {
    size_t met = 0;
    for (size_t i = 0; i < t->group_count; i++)
        met += json_object_get(k->entries, t->groups[i].signature) != NULL;
    return json_object_size(k->entries) - met;
}

/*------------------------------------------------------------------------------
 * Writing
 *----------------------------------------------------------------------------*/

char *group_text(const group *g) {
    char *text = NULL;
    size_t length;
    FILE *out = g->c ? open_memstream(&text, &length) : NULL;
    if (!out)
        return NULL;
    subject_write(out, g->op, g->c, g->signature);
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    text[strcspn(text, "\n")] = '\0';
    return text;
}

/* An answer as JSON where it is, as text where it is not. */
static json_t *answer_value(const char *line) {
    if (!line)
        return json_null();
    json_t *value = json_loads(line, JSON_DECODE_ANY, NULL);
    if (!value)
        value = json_string(line);
    return value ? value : json_null();
}

static json_t *names_of(const group *g) {
    json_t *names = json_array();
    for (size_t i = 0; i < g->name_count; i++)
        json_array_append_new(names, json_string(g->names[i]));
    return names;
}

json_t *group_object(const group *g, const char *is) {
    json_t *object = json_object();
    char *text = group_text(g);
    json_object_set_new(object, "difference", json_string(g->signature));
    if (is) {
        json_object_set_new(object, "is", json_string(is));
        json_object_set_new(object, "answers", json_integer((json_int_t)g->answers));
    }
    if (g->c) {
        json_object_set_new(object, "op", json_string(question_op_names[g->op]));
        json_object_set_new(object, "cases", names_of(g));
        json_object_set_new(object, "case", answer_value(text));
        json_object_set_new(object, "want", answer_value(g->want));
        json_object_set_new(object, "got", answer_value(g->got));
    }
    json_object_set_new(object, "details", json_string(g->details));
    if (g->note[0])
        json_object_set_new(object, "remark", json_string(g->note));
    free(text);
    return object;
}

static int by_signature(const void *a, const void *b) {
    const group *const *left = a, *const *right = b;
    return strcmp((*left)->signature, (*right)->signature);
}

/* What is known with its minimal case stays as it is, but for the cases that it names. */
static json_t *entry_of(const known *k, const group *g) {
    json_t *old = json_object_get(k->entries, g->signature);
    json_t *entry = old ? json_copy(old) : group_object(g, NULL);
    if (old && g->c)
        json_object_set_new(entry, "cases", names_of(g));
    return entry;
}

static bool write_entries(const known *k, const talk *t, FILE *file) {
    const group **sorted = calloc(t->group_count + 1, sizeof *sorted);
    bool good = sorted != NULL;
    for (size_t i = 0; good && i < t->group_count; i++)
        sorted[i] = &t->groups[i];
    if (good)
        qsort(sorted, t->group_count, sizeof *sorted, by_signature);
    for (size_t i = 0; good && i < t->group_count; i++) {
        json_t *entry = entry_of(k, sorted[i]);
        good = !json_dumpf(entry, file, JSON_COMPACT) && fputc('\n', file) != EOF;
        json_decref(entry);
    }
    free(sorted);
    return good;
}

bool known_write(const known *k, const talk *t, const char *path) {
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    const bool good = write_entries(k, t, file);
    return !fclose(file) && good;
}
