/* SPDX-License-Identifier: Apache-2.0 */
/* cproute seeds: byte inputs and dictionaries for fuzzers from text cases. */
#include "arguments.h"
#include "files.h"
#include "text/text_replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool take_dictionaries(arguments *a, const char *value, char *mistake, size_t size) {
    (void)mistake, (void)size;
    a->dictionaries = value;
    return true;
}

static const option_spec option_dictionaries = {
    "dictionaries", "DIR", "folder to write <law>.dict into: the records that the inputs are made of",
    take_dictionaries};
static const option_spec *const options[] = {&option_law, &option_out, &option_dictionaries, NULL};

enum { WORD_MAX_BYTES = 16, WORDS_MAX = 200 };

/* The records that the cases of one family are made of, each once: what is worth putting into another case as a whole. */
typedef struct dictionary {
    const family *kind;
    void *subject;
    struct {
        uint8_t bytes[WORD_MAX_BYTES];
        size_t length;
    } words[WORDS_MAX];
    size_t count;
} dictionary;

typedef struct seeds {
    const char *folder;
    const char *dictionary_folder; /* NULL: none are wanted */
    const law *law;                /* NULL: all */
    route_case *subject;
    dictionary *dictionaries; /* as many as laws; that of a family is at its first law */
    long written, not_encoded, wrong;
    bool failed;
} seeds;

static bool write_bytes(const char *path, const uint8_t *bytes, size_t length) {
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    bool written = fwrite(bytes, 1, length, file) == length;
    return !fclose(file) && written;
}

/* Named after what it holds, so that the same seed is written once. */
static bool write_seed(const seeds *s, const law *l, const uint8_t *bytes, size_t length) {
    size_t room = strlen(s->folder) + strlen(l->id) + 32;
    char *path = malloc(room);
    if (!path)
        return false;
    snprintf(path, room, "%s/%s", s->folder, l->id);
    bool good = make_folder(path);
    snprintf(path, room, "%s/%s/%016" PRIx64, s->folder, l->id, content_hash(bytes, length));
    good = good && write_bytes(path, bytes, length);
    if (!good)
        fprintf(stderr, "cproute seeds: cannot write %s: %s\n", path, strerror(errno));
    free(path);
    return good;
}

static void add_word(dictionary *d, const uint8_t *bytes, size_t length) {
    if (length < 2 || length > WORD_MAX_BYTES || d->count == WORDS_MAX)
        return;
    for (size_t i = 0; i < d->count; i++) {
        if (d->words[i].length == length && !memcmp(d->words[i].bytes, bytes, length))
            return;
    }
    memcpy(d->words[d->count].bytes, bytes, length);
    d->words[d->count++].length = length;
}

static void add_words(dictionary *d, const uint8_t *bytes, size_t length) {
    choice_log log = {.length = 0};
    choices from = choices_from_bytes(bytes, length, &log);
    d->kind->draw(&from, d->subject);
    for (size_t i = 0; i < log.record_count; i++)
        add_word(d, log.bytes + log.records[i].offset, log.records[i].length);
}

static dictionary *dictionary_of(const seeds *s, const family *kind) {
    size_t first = 0;
    while (laws[first].family != kind)
        first++;
    return &s->dictionaries[first];
}

static bool dictionaries_open(seeds *s) {
    s->dictionaries = calloc(law_count, sizeof *s->dictionaries);
    for (size_t i = 0; s->dictionaries && i < law_count; i++) {
        dictionary *d = dictionary_of(s, laws[i].family);
        d->kind = laws[i].family;
        if (!d->subject)
            d->subject = calloc(1, d->kind->size);
        if (!d->subject)
            return false;
    }
    return s->dictionaries != NULL;
}

static void dictionaries_close(seeds *s) {
    for (size_t i = 0; s->dictionaries && i < law_count; i++)
        free(s->dictionaries[i].subject);
    free(s->dictionaries);
}

/* As libFuzzer and AFL++ read them. */
static bool write_words(FILE *file, const dictionary *d) {
    fprintf(file, "# Records of the text cases, %s family. Written by cproute seeds.\n", d->kind->name);
    for (size_t i = 0; i < d->count; i++) {
        fputc('"', file);
        for (size_t k = 0; k < d->words[i].length; k++)
            fprintf(file, "\\x%02x", d->words[i].bytes[k]);
        fputs("\"\n", file);
    }
    return !ferror(file);
}

static bool write_dictionary(const seeds *s, const law *l) {
    size_t room = strlen(s->dictionary_folder) + strlen(l->id) + 32;
    char *path = malloc(room);
    if (!path)
        return false;
    snprintf(path, room, "%s/%s.dict", s->dictionary_folder, l->id);
    FILE *file = fopen(path, "w");
    bool good = file && write_words(file, dictionary_of(s, l->family));
    good = file && !fclose(file) && good;
    if (!good)
        fprintf(stderr, "cproute seeds: cannot write %s: %s\n", path, strerror(errno));
    free(path);
    return good;
}

/* A law whose family has no records has no dictionary. */
static void write_dictionaries(seeds *s) {
    if (!s->dictionary_folder)
        return;
    s->failed = s->failed || !make_folder(s->dictionary_folder);
    for (size_t i = 0; i < law_count && !s->failed; i++)
        if ((!s->law || s->law == &laws[i]) && dictionary_of(s, laws[i].family)->count)
            s->failed = !write_dictionary(s, &laws[i]);
}

static void write_seeds(seeds *s, const family *kind, const uint8_t *bytes, size_t length) {
    add_words(dictionary_of(s, kind), bytes, length);
    for (size_t i = 0; i < law_count && !s->failed; i++)
        if (laws[i].family == kind && (!s->law || s->law == &laws[i]))
            s->failed = !write_seed(s, &laws[i], bytes, length);
}

/* The flat tensors that a case hands over. */
static void seeds_from_tensors(seeds *s, const rank_numbers_list *tensors, int64_t cp_size) {
    uint8_t bytes[CHOICE_LOG_BYTES];
    size_t length;
    for (size_t i = 0; i < tensors->count; i++) {
        const int64_list *list = &tensors->items[i].numbers.list;
        tensor_case c = {.geometry = {cp_size, tensors->items[i].rank}, .count = list->count};
        for (int64_t k = 0; k < list->count && k < TENSOR_MAX_ENTRIES; k++)
            c.entries[k] = list->items[k];
        if (tensor_case_encode(&c, bytes, sizeof bytes, &length))
            write_seeds(s, &tensor_family, bytes, length);
    }
}

static bool seed_from_case(void *context, const text_entry *entry) {
    seeds *s = context;
    uint8_t bytes[CHOICE_LOG_BYTES];
    size_t length;
    if (!entry->c) {
        fprintf(stderr, "%s:%d %s\n", entry->file, entry->line, entry->mistake);
        s->wrong++;
        return true;
    }
    seeds_from_tensors(s, &entry->c->flats, entry->c->cp_size);
    seeds_from_tensors(s, &entry->c->flat_forms, entry->c->cp_size);
    if (entry->c->delta && delta_case_encode(entry->c->delta, bytes, sizeof bytes, &length))
        write_seeds(s, &delta_family, bytes, length);
    const cache_case *script = entry->c->cache;
    const family *kind = script ? &cache_family : &route_family;
    const bool encoded = script ? cache_case_encode(script, bytes, sizeof bytes, &length)
                                : text_case_for_laws(entry->c, s->subject) &&
                                      route_case_encode(s->subject, bytes, sizeof bytes, &length);
    if (!encoded) {
        s->not_encoded++;
        return true;
    }
    write_seeds(s, kind, bytes, length);
    s->written++;
    return !s->failed;
}

static void seeds_from_file(void *context, const char *path) {
    char mistake[4600];
    seeds *s = context;
    if (!is_text_file(path) || s->failed || text_file_visit(path, seed_from_case, s, mistake, sizeof mistake))
        return;
    fprintf(stderr, "cproute seeds: %s\n", mistake);
    s->wrong++;
}

static int seeds_run(arguments *a) {
    seeds s = {.folder = a->out, .dictionary_folder = a->dictionaries, .law = a->law};
    if (!a->out)
        return wrong_use(&seeds_command, "--out is missing");
    if (!a->operand_count)
        return wrong_use(&seeds_command, "a file or folder of text cases is missing");
    s.subject = malloc(sizeof *s.subject);
    bool missing = !dictionaries_open(&s) || !s.subject;
    for (int i = 0; i < a->operand_count && !missing; i++) {
        missing = !files_visit(a->operands[i], seeds_from_file, &s);
        if (missing)
            fprintf(stderr, "cproute seeds: %s: %s\n", a->operands[i], strerror(errno));
    }
    if (!missing)
        write_dictionaries(&s);
    dictionaries_close(&s);
    free(s.subject);
    printf("%ld cases encoded into %s, %ld could not be encoded, %ld wrong\n", s.written, s.folder,
           s.not_encoded, s.wrong);
    return finish_output(missing ? EXIT_WRONG_USE : (s.failed || s.wrong ? EXIT_FINDINGS : EXIT_GOOD));
}

const command seeds_command = {
    .name = "seeds",
    .summary = "Writes byte inputs and dictionaries for fuzzers from text cases. For scripts.",
    .operands = "--out DIR [--dictionaries DIR] [--law LAW] PATH...",
    .details = "Writes DIR/<law>/<hash>. Dictionaries are written for laws whose inputs have\n"
               "records. Cases that are larger than what is drawn, or wrong in a way that is\n"
               "not drawn, have no bytes; they are counted.",
    .options = options,
    .run = seeds_run,
};
