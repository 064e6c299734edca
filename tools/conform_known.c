/* SPDX-License-Identifier: Apache-2.0 */
#include "conform_known.h"
#include "files.h"
#include "text/mistake.h"
#include "text/text_case.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*------------------------------------------------------------------------------
 * Reading
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

/* What lines hold; "is" and "answers" come with those that --json prints. */
typedef struct member {
    const char *name;
    bool (*fits)(const json_t *value);
    const char *wanted;
} member;

static bool is_text(const json_t *value) {
    return json_is_string(value);
}

static bool is_object(const json_t *value) {
    return json_is_object(value);
}

static bool is_flag(const json_t *value) {
    return json_is_boolean(value);
}

static bool is_anything(const json_t *value) {
    return value != NULL;
}

static bool is_list_of_texts(const json_t *value) {
    size_t i;
    json_t *item;
    json_array_foreach(value, i, item) {
        if (!json_is_string(item))
            return false;
    }
    return json_is_array(value);
}

static bool names_op(const json_t *value) {
    question_op op;
    return op_named(json_string_value(value), &op);
}

static const member members[] = {
    {"difference", is_text, "a text"},
    {"op", names_op, "the name of a question"},
    {"cases", is_list_of_texts, "a list of names"},
    {"case", is_object, "a text case"},
    {"unstable", is_flag, "true or false"},
    {"note", is_text, "a text"},
    {"details", is_text, "a text"},
    {"want", is_anything, ""},
    {"got", is_anything, ""},
    {"is", is_text, "a text"},
    {"answers", is_anything, ""},
};

static bool member_fits(const mistake_place *m, const char *name, const json_t *value) {
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (strcmp(name, members[i].name) != 0)
            continue;
        return members[i].fits(value) || mistaken(m, "%s: %s is wanted", name, members[i].wanted);
    }
    return mistaken(m, "'%.40s' is no member of a known difference", name);
}

/* May it be put as that question? A rank that does not exist is asked for where that is what is wrong. */
static bool op_fits(const mistake_place *m, question_op op, const text_case *c) {
    if ((op == ASK_CACHE) != (c->cache != NULL))
        return mistaken(m, "op: %s is not what the case is about", question_op_names[op]);
    if (c->expect == CPR_OK && !c->every_rank && op != ASK_CACHE && (c->rank < 0 || c->rank >= c->cp_size))
        return mistaken(m, "case: there is no rank %" PRId64 " of %" PRId64, c->rank, c->cp_size);
    return true;
}

/* Its case is asked, so it must be one. */
static bool case_fits(const mistake_place *m, const json_t *entry) {
    char mistake[256];
    text_case parsed;
    question_op op;
    const json_t *object = json_object_get(entry, "case");
    if (!object)
        return true;
    if (!op_named(json_string_value(json_object_get(entry, "op")), &op))
        return mistaken(m, "a case, but no op that it is asked as");
    char *text = json_dumps(object, JSON_COMPACT);
    bool good = text && text_case_parse(&parsed, text, strlen(text), mistake, sizeof mistake);
    free(text);
    if (!good)
        return mistaken(m, "case: %s", text ? mistake : "out of memory");
    good = op_fits(m, op, &parsed);
    text_case_free(&parsed);
    return good;
}

/* "route: decreasing is *", and nothing that stands for more. */
static bool is_family(const char *name) {
    char op[16], kind[64];
    int end = 0;
    question_op which;
    cpr_status status;
    return sscanf(name, "%15[a-z_]: %63[a-z0-9_] is *%n", op, kind, &end) == 2 && end && !name[end] &&
           op_named(op, &which) && cpr_status_from_name(kind, &status);
}

static const char OFFERS_LESS[] = "it offers less than it did";

/* What no line can accept, whatever the case. */
static bool is_never_known(const char *signature) {
    return talk_ended_by(signature) || !strcmp(signature, OFFERS_LESS);
}

static bool is_unstable(const json_t *entry) {
    return json_is_true(json_object_get(entry, "unstable"));
}

static bool entry_fits(const mistake_place *m, json_t *entry) {
    const char *name;
    json_t *value;
    const char *signature = json_string_value(json_object_get(entry, "difference"));
    if (!signature)
        return mistaken(m, "no difference");
    if (is_never_known(signature))
        return mistaken(m, "'%.80s' cannot be accepted, as what is not asked is not known: take the line out",
                        signature);
    if (is_unstable(entry) != is_family(signature))
        return mistaken(
            m, "unstable: what comes and goes is a wrong request, named as \"route: decreasing is *\"");
    json_object_foreach(entry, name, value) {
        if (!member_fits(m, name, value))
            return false;
    }
    return case_fits(m, entry);
}

static bool take_offers(known *k, const mistake_place *m, json_t *line) {
    char mistake[200];
    if (k->has_offers)
        return mistaken(m, "offers that are there twice");
    if (json_object_size(line) != 1 || !json_is_object(json_object_get(line, "offers")))
        return mistaken(m, "offers: an object is wanted, alone in its line");
    k->has_offers = hello_parse_offers(&k->offers, json_object_get(line, "offers"), mistake, sizeof mistake);
    return k->has_offers || mistaken(m, "offers: %s", mistake);
}

static bool take_entry(known *k, const mistake_place *m, const char *line, size_t length) {
    json_error_t error;
    json_t *entry = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
    if (!entry)
        return mistaken(m, "%s", error.text);
    const char *signature = json_string_value(json_object_get(entry, "difference"));
    const bool of_offers = json_object_get(entry, "offers") != NULL;
    bool taken = of_offers ? take_offers(k, m, entry) : entry_fits(m, entry);
    if (taken && !of_offers && json_object_get(k->entries, signature))
        taken = mistaken(m, "a difference that is there twice");
    if (taken && !of_offers)
        json_object_set(k->entries, signature, entry);
    json_decref(entry);
    return taken;
}

static bool take_lines(known *k, const char *text, size_t length, const char *path, const mistake_place *m) {
    const char *end = text + length;
    for (int number = 1; text < end; number++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const size_t line = (size_t)((newline ? newline : end) - text);
        char mistake[400];
        const mistake_place where = {mistake, sizeof mistake};
        size_t blank = 0;
        while (blank < line && strchr(" \t\r", text[blank]) && text[blank])
            blank++;
        if (blank < line && !take_entry(k, &where, text, line))
            return mistaken(m, "%s:%d: %s", path, number, mistake);
        text += line + (newline != NULL);
    }
    return true;
}

bool known_read(known *k, const char *path, char *mistake, size_t size) {
    struct stat info;
    size_t length;
    const mistake_place m = {mistake, size};
    *k = (known){.entries = json_object(), .corpus = json_object()};
    if (!path)
        return true;
    if (stat(path, &info))
        return errno == ENOENT || mistaken(&m, "cannot open %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode))
        return mistaken(&m, "%s: a file is wanted", path);
    char *text = read_whole(path, &length, mistake, size);
    const bool good = text && take_lines(k, text, length, path, &m);
    free(text);
    return good;
}

void known_free(known *k) {
    json_decref(k->entries);
    json_decref(k->corpus);
}

void known_check_offers(const known *k, talk *t) {
    char lost[200];
    if (k->has_offers && !hello_offers_all(&k->offers, &t->h, lost, sizeof lost))
        talk_blame(t, OFFERS_LESS, lost);
}

void known_asked_file(known *k, const char *name) {
    json_object_set_new(k->corpus, name, json_true());
}

/*------------------------------------------------------------------------------
 * Asking
 *----------------------------------------------------------------------------*/

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

static json_t *entry_named(const known *k, const char *signature) {
    const char *name;
    json_t *entry, *found = json_object_get(k->entries, signature);
    json_object_foreach(k->entries, name, entry) {
        if (is_unstable(entry) && family_has(name, signature))
            found = entry;
    }
    return found;
}

json_t *known_entry(const known *k, const group *g) {
    return entry_named(k, g->signature);
}

bool known_accepts(const known *k, const char *signature) {
    return entry_named(k, signature) != NULL;
}

bool known_has(const known *k, const group *g) {
    return !is_never_known(g->signature) && known_entry(k, g) && !known_lacks(k, g);
}

const char *known_refuses(const known *k, const group *g) {
    const bool of_rows = strstr(g->signature, ": other ") || strstr(g->signature, ": a hit on ");
    if (talk_ended_by(g->signature))
        return "not everything was asked";
    return of_rows && g->unstable && !known_entry(k, g) ? "wrong rows that come and go cannot be accepted"
                                                        : NULL;
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

/* Cases of several groups may be the same, and are put into one file. Takes the text. */
static char *named_for_group(char *text, const group *g) {
    char id[40];
    json_t *object = json_loads(text, 0, NULL);
    json_object_set_new(object, "id", json_string(""));
    char *plain = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
    const uint64_t hash =
        (plain ? content_hash(plain, strlen(plain)) : 0) ^ content_hash(g->signature, strlen(g->signature));
    snprintf(id, sizeof id, "conform-%08" PRIx32, (uint32_t)(hash >> 32));
    json_object_set_new(object, "id", json_string(id));
    char *named = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    free(plain);
    if (!named)
        return text;
    free(text);
    return named;
}

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
    return named_for_group(text, g);
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

static bool is_by_chance(const group *g) {
    char name[FAMILY_LENGTH];
    return g->unstable && group_family(g, name);
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

/* Cases of files that were not asked. */
static json_t *names_not_asked(const known *k, const json_t *entry) {
    size_t i;
    json_t *name, *names = json_array();
    json_array_foreach(json_object_get(entry, "cases"), i, name) {
        char file[ORIGIN_LENGTH];
        snprintf(file, sizeof file, "%.*s", (int)strcspn(json_string_value(name), ":"),
                 json_string_value(name));
        if (!json_object_get(k->corpus, file))
            json_array_append(names, name);
    }
    return names;
}

/* What is known with its minimal case stays as it is, but for the cases that it names. */
static void take_group(json_t *entries, const known *k, const group *g) {
    const json_t *old = known_entry(k, g);
    if (is_never_known(g->signature) || (old && is_unstable(old)))
        return;
    json_t *entry = old ? json_copy((json_t *)old) : group_object(g, NULL);
    json_object_del(entry, "unstable");
    if (old && g->c) {
        json_t *names = names_of(g), *others = names_not_asked(k, old);
        json_array_extend(names, others);
        json_decref(others);
        json_object_set_new(entry, "cases", names);
    }
    json_object_set_new(entries, g->signature, entry);
}

/* What was not met is kept for what was not asked. */
static void keep_not_asked(json_t *entries, const known *k) {
    const char *name;
    json_t *entry;
    json_object_foreach(k->entries, name, entry) {
        json_t *names = names_not_asked(k, entry);
        if (!json_object_get(entries, name) && json_array_size(names)) {
            json_t *kept = json_copy(entry);
            json_object_set(kept, "cases", names);
            json_object_set_new(entries, name, kept);
        }
        json_decref(names);
    }
}

/* What is unstable first, as it stands for others. */
static json_t *entries_to_write(const known *k, const talk *t) {
    const char *name;
    json_t *entry;
    known unstable = {.entries = json_object()};
    json_object_foreach(k->entries, name, entry) {
        if (is_unstable(entry))
            json_object_set(unstable.entries, name, entry);
    }
    for (size_t i = 0; i < t->group_count; i++)
        if (is_by_chance(&t->groups[i]) && !known_entry(&unstable, &t->groups[i]))
            take_unstable(unstable.entries, &t->groups[i]);
    json_t *entries = json_copy(unstable.entries);
    for (size_t i = 0; i < t->group_count; i++)
        if (!known_entry(&unstable, &t->groups[i]))
            take_group(entries, k, &t->groups[i]);
    keep_not_asked(entries, k);
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

typedef struct contents {
    json_t *offers, *entries;
} contents;

static bool write_known(FILE *file, void *context) {
    const contents *c = context;
    return !json_dumpf(c->offers, file, JSON_COMPACT) && fputc('\n', file) != EOF &&
           write_entries(c->entries, file);
}

static size_t lines_gone(const known *k, json_t *entries) {
    const char *name;
    json_t *entry;
    size_t gone = 0;
    json_object_foreach(k->entries, name, entry) {
        gone += !json_object_get(entries, name);
    }
    return gone;
}

bool known_write(const known *k, const talk *t, const char *path, size_t *gone) {
    contents c = {.offers = json_pack("{s:o}", "offers", hello_offers(&t->h)),
                  .entries = entries_to_write(k, t)};
    const bool good = file_replace(path, write_known, &c);
    *gone = lines_gone(k, c.entries);
    json_decref(c.offers);
    json_decref(c.entries);
    return good;
}
