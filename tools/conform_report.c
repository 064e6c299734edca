/* SPDX-License-Identifier: Apache-2.0 */
#include "conform_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_ANSWER = 400 };

/*------------------------------------------------------------------------------
 * For people
 *----------------------------------------------------------------------------*/

/* Lines come from anybody, so what a terminal would obey is not printed. */
static void show_line(const char *name, const char *line) {
    printf("     %-8s ", name);
    for (size_t i = 0; line && line[i]; i++) {
        if (i == SHOWN_ANSWER) {
            printf("... (%zu bytes)", strlen(line));
            break;
        }
        const unsigned char c = (unsigned char)line[i];
        putchar(c < ' ' || c == 0x7f ? '?' : c);
    }
    printf("%s\n", line ? "" : "nothing");
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

void report_text(const talk *t, const known *k, const outcome_counts *counts) {
    printf("%s%s: %zu cases of the corpus and %zu random ones of seed %" PRIu64
           ": %zu questions, %zu wrong answers\n",
           counts->interrupted ? "interrupted: " : "", t->h.name[0] ? t->h.name : "no implementation",
           counts->corpus_cases, counts->random_cases, counts->seed, t->questions, t->wrong);
    if (t->h.skipped[0])
        printf("skipped: %s\n", t->h.skipped);
    if (t->unsupported)
        printf("%zu questions it called unsupported\n", t->unsupported);
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

void report_json(const talk *t, const known *k, const outcome_counts *counts) {
    for (size_t i = 0; i < t->group_count; i++)
        print_object(group_object(&t->groups[i], known_has(k, &t->groups[i]) ? "known" : "new"));
    print_object(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s}", "implementation",
                           t->h.name, "corpus_cases", (json_int_t)counts->corpus_cases, "random_cases",
                           (json_int_t)counts->random_cases, "seed", (json_int_t)counts->seed, "questions",
                           (json_int_t)t->questions, "wrong", (json_int_t)t->wrong, "unsupported",
                           (json_int_t)t->unsupported, "new", (json_int_t)counts->fresh, "known",
                           (json_int_t)counts->accepted, "not_met", (json_int_t)counts->not_met,
                           "interrupted", (int)counts->interrupted, "skipped", t->h.skipped));
}

static void write_xml(FILE *out, const char *text) {
    for (; text && *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (strchr("<>&\"'", c) || c == 0x7f)
            fprintf(out, "&#%d;", c);
        else
            fputc(c < ' ' && c != '\n' && c != '\t' ? '?' : c, out);
    }
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

bool report_junit(const talk *t, const known *k, const outcome_counts *counts, const char *path) {
    FILE *out = fopen(path, "wb");
    if (!out)
        return false;
    fprintf(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<testsuite name=\"cproute conform\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%d\">\n",
        t->group_count + 1, counts->fresh, t->h.skipped[0] != '\0');
    fprintf(out,
            "  <testcase classname=\"conform\" name=\"questions\">%s<system-out>%zu questions, %zu wrong "
            "answers, seed %" PRIu64 "</system-out></testcase>\n",
            t->h.skipped[0] ? "<skipped/>" : "", t->questions, t->wrong, counts->seed);
    for (size_t i = 0; i < t->group_count; i++)
        write_test(out, t, &t->groups[i], !known_has(k, &t->groups[i]));
    fputs("</testsuite>\n", out);
    const bool failed = ferror(out) != 0;
    return !fclose(out) && !failed;
}
