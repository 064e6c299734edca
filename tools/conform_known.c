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

static bool is_unstable(const json_t *entry) {
    return json_is_true(json_object_get(entry, "unstable"));
}

json_t *known_entry(const known *k, const group *g) {
    const char *name;
    json_t *entry, *found = json_object_get(k->entries, g->signature);
    json_object_foreach(k->entries, name, entry) {
        if (is_unstable(entry) && family_has(name, g->signature))
            found = entry;
    }
    return found;
}

bool known_has(const known *k, const group *g) {
    return known_entry(k, g) && !known_lacks(k, g);
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
    const json_t *entry = known_entry(k, g);
    for (size_t i = 0; entry && !is_unstable(entry) && i < g->name_count; i++)
        if (!has_text(json_object_get(entry, "cases"), g->names[i]))
            return g->names[i];
    return NULL;
}

size_t known_not_met(const known *k, const talk *t) {
    const char *name;
    json_t *entry;
    size_t not_met = 0;
    json_object_foreach(k->entries, name, entry) {
        bool met = is_unstable(entry); /* as chance has it */
        for (size_t i = 0; i < t->group_count && !met; i++)
            met = known_entry(k, &t->groups[i]) == entry;
        not_met += !met;
    }
    return not_met;
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
    if (g->unstable)
        json_object_set_new(object, "unstable", json_true());
    free(text);
    return object;
}

static void take_unstable(json_t *entries, const group *g) {
    char name[FAMILY_LENGTH];
    group_family(g, name);
    json_t *entry = group_object(g, NULL);
    json_object_set_new(entry, "difference", json_string(name));
    json_object_del(entry, "cases");
    json_object_del(entry, "got");
    json_object_del(entry, "details");
    json_object_set_new(entries, name, entry);
}

/* What is known with its minimal case stays as it is, but for the cases that it names. */
static void take_group(json_t *entries, const known *k, const group *g) {
    json_t *old = known_entry(k, g);
    if (old && is_unstable(old))
        return;
    json_t *entry = old ? json_copy(old) : group_object(g, NULL);
    if (old && g->c)
        json_object_set_new(entry, "cases", names_of(g));
    json_object_set_new(entries, g->signature, entry);
}

/* What is unstable first, as it stands for others. */
static json_t *entries_to_write(const known *k, const talk *t) {
    const char *name;
    json_t *entry;
    known unstable = {json_object()};
    json_object_foreach(k->entries, name, entry) {
        if (is_unstable(entry))
            json_object_set(unstable.entries, name, entry);
    }
    for (size_t i = 0; i < t->group_count; i++)
        if (t->groups[i].unstable && !known_entry(&unstable, &t->groups[i]))
            take_unstable(unstable.entries, &t->groups[i]);
    json_t *entries = json_copy(unstable.entries);
    for (size_t i = 0; i < t->group_count; i++)
        if (!known_entry(&unstable, &t->groups[i]))
            take_group(entries, k, &t->groups[i]);
    json_decref(unstable.entries);
    return entries;
}

static int by_name(const void *a, const void *b) {
    const char *const *left = a, *const *right = b;
    return strcmp(*left, *right);
}

static bool write_entries(json_t *entries, FILE *file) {
    const size_t count = json_object_size(entries);
    const char **names = calloc(count + 1, sizeof *names), *name;
    json_t *entry;
    size_t filled = 0;
    bool good = names != NULL;
    json_object_foreach(entries, name, entry) {
        if (good)
            names[filled++] = name;
    }
    if (good)
        qsort(names, filled, sizeof *names, by_name);
    for (size_t i = 0; i < filled && good; i++)
        good =
            !json_dumpf(json_object_get(entries, names[i]), file, JSON_COMPACT) && fputc('\n', file) != EOF;
    free(names);
    return good;
}

bool known_write(const known *k, const talk *t, const char *path) {
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    json_t *entries = entries_to_write(k, t);
    const bool good = write_entries(entries, file);
    json_decref(entries);
    return !fclose(file) && good;
}
