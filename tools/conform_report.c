/* SPDX-License-Identifier: Apache-2.0 */
#include "conform_report.h"
#include "files.h"
#include "printable.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_ANSWER = 400 };

/*------------------------------------------------------------------------------
 * For people
 *----------------------------------------------------------------------------*/

static void show_line(const char *name, const char *line) {
    char shown[SHOWN_ANSWER + 1];
    const char *text = line ? line : "nothing";
    snprintf(shown, sizeof shown, "%s", text);
    make_printable(shown);
    printf("     %-8s %s", name, shown);
    if (strlen(text) > SHOWN_ANSWER)
        printf("... (%zu bytes)", strlen(text));
    putchar('\n');
}

static void show_group(const known *k, const group *g, size_t number) {
    char *text = group_text(g);
    const char *lacks = known_lacks(k, g);
    printf("\n%zu. %s\n", number, g->signature);
    if (g->details[0])
        show_line("first", g->details);
    if (lacks)
        show_line("new at", lacks);
    if (g->unstable)
        show_line("remark", "asked again, alone, it was another answer");
    if (g->c) {
        show_line("found by", g->from.name);
        show_line("asked", g->request);
        show_line("want", g->want);
        show_line("got", g->got);
        printf("     case     %s\n", text ? text : "");
    }
    free(text);
}

static void show_table(const talk *t, const known *k) {
    printf("\n  %-6s %8s %7s  %s\n", "", "answers", "corpus", "difference");
    for (size_t i = 0; i < t->group_count; i++) {
        const group *g = &t->groups[i];
        printf("  %-6s %8zu %7zu  %s\n", known_has(k, g) ? "known" : "NEW", g->answers, g->name_count,
               g->signature);
    }
}

/* What it says that it knows, and was not asked or had no answer for. */
static bool is_not_judged(const talk *t, size_t op) {
    return t->h.ops[op] && !t->judged[op] && !t->h.skipped[0];
}

static void show_not_judged(const talk *t) {
    const char *separator = "not judged: ";
    for (size_t op = 0; op < QUESTION_OPS; op++) {
        if (!is_not_judged(t, op))
            continue;
        printf("%s%s", separator, question_op_names[op]);
        separator = ", ";
    }
    if (!strcmp(separator, ", "))
        putchar('\n');
}

void report_text(const talk *t, const known *k, const outcome_counts *counts) {
    printf("%s%s: %zu cases of the corpus and %zu random ones of seed %" PRIu64
           ": %zu questions, %zu wrong answers\n",
           counts->interrupted ? "interrupted: " : "", t->h.name[0] ? t->h.name : "no implementation",
           counts->corpus_cases, counts->random_cases, counts->seed, t->questions, t->wrong);
    if (t->h.skipped[0])
        printf("skipped: %s\n", t->h.skipped);
    if (t->unsupported)
        printf("%zu questions it called unsupported\n", t->unsupported);
    if (counts->incomplete && !t->h.skipped[0])
        printf("incomplete: %s\n", counts->incomplete);
    show_not_judged(t);
    if (t->group_count)
        show_table(t, k);
    for (size_t i = 0, number = 0; i < t->group_count; i++)
        if (!known_has(k, &t->groups[i]))
            show_group(k, &t->groups[i], ++number);
    printf("\n%zu new differences, %zu known ones, %zu known ones not met\n", counts->fresh, counts->accepted,
           counts->not_met);
}

/*------------------------------------------------------------------------------
 * For programs
 *----------------------------------------------------------------------------*/

static void print_object(json_t *object) {
    json_dumpf(object, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(object);
}

static json_t *names_not_judged(const talk *t) {
    json_t *names = json_array();
    for (size_t op = 0; op < QUESTION_OPS; op++)
        if (is_not_judged(t, op))
            json_array_append_new(names, json_string(question_op_names[op]));
    return names;
}

/* Seeds may be beyond the integers of the JSON library. */
static void print_counts(json_t *object, uint64_t seed) {
    char *text = json_dumps(object, JSON_COMPACT);
    if (text)
        printf("{\"seed\":%" PRIu64 ",%s\n", seed, text + 1);
    free(text);
    json_decref(object);
}

void report_json(const talk *t, const known *k, const outcome_counts *counts) {
    for (size_t i = 0; i < t->group_count; i++)
        print_object(group_object(&t->groups[i], known_has(k, &t->groups[i]) ? "known" : "new"));
    print_counts(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:s?, s:o}",
                           "implementation", t->h.name, "corpus_cases", (json_int_t)counts->corpus_cases,
                           "random_cases", (json_int_t)counts->random_cases, "questions",
                           (json_int_t)t->questions, "wrong", (json_int_t)t->wrong, "unsupported",
                           (json_int_t)t->unsupported, "new", (json_int_t)counts->fresh, "known",
                           (json_int_t)counts->accepted, "not_met", (json_int_t)counts->not_met,
                           "interrupted", (int)counts->interrupted, "skipped", t->h.skipped, "incomplete",
                           counts->incomplete, "not_judged", names_not_judged(t)),
                 counts->seed);
}

static void write_xml(FILE *out, const char *text) {
    char *shown = strdup(text);
    if (!shown)
        return;
    make_printable(shown);
    for (const char *c = shown; *c; c++) {
        if (strchr("<>&\"'", *c))
            fprintf(out, "&#%d;", *c);
        else
            fputc(*c, out);
    }
    free(shown);
}

static void write_field(FILE *out, const char *name, const char *text) {
    fprintf(out, "%s: ", name);
    write_xml(out, text ? text : "nothing");
    fputc('\n', out);
}

static void write_test(FILE *out, const talk *t, const group *g, bool fresh) {
    fputs("  <testcase classname=\"conform\" name=\"", out);
    write_xml(out, g->signature);
    fputs(fresh ? "\">\n    <failure message=\"" : "\">\n    <system-out>", out);
    if (fresh) {
        write_xml(out, g->details[0] ? g->details : g->signature);
        fputs("\">", out);
    }
    char *text = group_text(g);
    write_field(out, "implementation", t->h.name);
    write_field(out, "asked", g->request);
    write_field(out, "want", g->want);
    write_field(out, "got", g->got);
    write_field(out, "case", text);
    free(text);
    fputs(fresh ? "</failure>\n  </testcase>\n" : "</system-out>\n  </testcase>\n", out);
}

/* Did it ask, and hear, what it should? */
static void write_questions(FILE *out, const talk *t, const outcome_counts *counts) {
    fputs("  <testcase classname=\"conform\" name=\"questions\">", out);
    if (t->h.skipped[0]) {
        fputs("<skipped/>", out);
    } else if (counts->incomplete) {
        fputs("<error message=\"", out);
        write_xml(out, counts->incomplete);
        fputs("\"/>", out);
    }
    fprintf(out, "<system-out>%zu questions, %zu wrong answers, seed %" PRIu64 "</system-out></testcase>\n",
            t->questions, t->wrong, counts->seed);
}

typedef struct report {
    const talk *t;
    const known *k;
    const outcome_counts *counts;
} report;

static bool write_junit(FILE *out, void *context) {
    const report *r = context;
    const bool skipped = r->t->h.skipped[0] != '\0';
    fprintf(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<testsuite name=\"cproute conform\" tests=\"%zu\" failures=\"%zu\" errors=\"%d\" skipped=\"%d\">\n",
        r->t->group_count + 1, r->counts->fresh, r->counts->incomplete && !skipped, skipped);
    write_questions(out, r->t, r->counts);
    for (size_t i = 0; i < r->t->group_count; i++)
        write_test(out, r->t, &r->t->groups[i], !known_has(r->k, &r->t->groups[i]));
    return fputs("</testsuite>\n", out) >= 0;
}

bool report_junit(const talk *t, const known *k, const outcome_counts *counts, const char *path) {
    report r = {t, k, counts};
    return file_replace(path, write_junit, &r);
}
