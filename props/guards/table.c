/* SPDX-License-Identifier: Apache-2.0 */
/* docs/cache-guards.md, from runs. */
#include "guard.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 256 };

static const char head[] =
    "<!-- Made by `make cache-guards` from runs; a test keeps it current. Do not edit. -->\n"
    "# Which guards serve a stale route, and when\n"
    "\n"
    "A cached route is right for the contents of `cu_seqlens`, the group, the rank and the direction. "
    "Published code keys it on\n"
    "less. Each guard below was put through random scripts of operations on tensors that may do one thing to "
    "them, and what it\n"
    "served was compared with the route of the true contents. Failing scripts were shrunk; they are listed "
    "at the end.\n"
    "\n"
    "\"Is identity plus version enough?\" It is, as long as nothing is written below the counter and the "
    "counter has 64 bits. Where\n"
    "that cannot be promised, announce such writes with `cpr_cache_invalidate`, or compare contents.\n"
    "\n"
    "| | guard | what it looks at |\n"
    "|---|---|---|\n";

static const char *cell(const guard_finding *found) {
    if (found->stale)
        return "**stale**";
    return found->refused ? "safe, refuses" : "safe";
}

static void write_guards(FILE *out) {
    for (size_t g = 0; g < guard_count; g++)
        fprintf(out, "| %c | %s | %s |\n", (char)('A' + g), guards[g].name, guards[g].meaning);
}

static void write_matrix(FILE *out, const guard_finding *found) {
    fprintf(out, "\n| what happens |");
    for (size_t g = 0; g < guard_count; g++)
        fprintf(out, " %c |", (char)('A' + g));
    fprintf(out, "\n|---|");
    for (size_t g = 0; g < guard_count; g++)
        fprintf(out, "---|");
    fprintf(out, "\n");
    for (size_t m = 0; m < mutation_count; m++) {
        fprintf(out, "| %s |", mutations[m].name);
        for (size_t g = 0; g < guard_count; g++) {
            const guard_finding *f = &found[m * guard_count + g];
            fprintf(out, " %s |", f->stale && mutations[m].grows ? "**grows**" : cell(f));
        }
        fprintf(out, "\n");
    }
}

static void write_script(FILE *out, const cache_case *c) {
    fprintf(out, "```\n");
    for (int64_t i = 0; i < c->op_count; i++) {
        char text[LINE_BYTES];
        cache_op_format(c, &c->ops[i], text, sizeof text);
        fprintf(out, "%s\n", text);
    }
    fprintf(out, "```\n");
}

static bool same_script(const guard_finding *a, const guard_finding *b) {
    return a->stale && b->stale && !strcmp(a->verdict.reason, b->verdict.reason) &&
           a->script.op_count == b->script.op_count &&
           memcmp(a->script.ops, b->script.ops, (size_t)a->script.op_count * sizeof *a->script.ops) == 0;
}

/* Guards with the same script share it. */
static void write_scripts(FILE *out, const mutation *m, const guard_finding *row) {
    bool titled = false;
    for (size_t g = 0; g < guard_count; g++) {
        bool shown = !row[g].stale;
        for (size_t before = 0; before < g; before++)
            shown = shown || same_script(&row[before], &row[g]);
        if (shown)
            continue;
        if (!titled)
            fprintf(out, "\n### %s\n", m->name);
        titled = true;
        fprintf(out, "\n");
        for (size_t other = g; other < guard_count; other++)
            if (same_script(&row[g], &row[other]))
                fprintf(out, "%s%c", other > g ? ", " : "", (char)('A' + other));
        fprintf(out, ": %s (%s)\n\n", row[g].verdict.reason, row[g].verdict.details);
        write_script(out, &row[g].script);
    }
}

bool guards_write(FILE *out, uint64_t most_scripts) {
    guard_finding *found = calloc(guard_count * mutation_count, sizeof *found);
    if (!found)
        return false;
    for (size_t m = 0; m < mutation_count; m++)
        for (size_t g = 0; g < guard_count; g++)
            guard_search(&guards[g], &mutations[m], most_scripts, &found[m * guard_count + g]);
    fputs(head, out);
    write_guards(out);
    write_matrix(out, found);
    fprintf(out,
            "\n`safe`: no script of %" PRIu64
            " found a stale route. `refuses`: some lookups raise that are legal.\n"
            "\n## The shortest scripts\n",
            most_scripts);
    for (size_t m = 0; m < mutation_count; m++)
        write_scripts(out, &mutations[m], &found[m * guard_count]);
    free(found);
    return !ferror(out);
}
