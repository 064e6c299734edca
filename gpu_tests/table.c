/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"
#include "kit/show.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

static const char *const outcome_names[] = {"passed", "failed", "skipped"};

static void print_version(FILE *out, const char *name, int thousands) {
    fprintf(out, "%s %d.%d", name, thousands / 1000, thousands % 1000 / 10);
}

static const char *ranks_are(const run_setup *setup) {
    return setup->by.launcher   ? setup->by.launcher
           : setup->shares_gpus ? setup->one_host ? "forked, sharing GPUs and each other's memory"
                                                  : "forked, sharing GPUs over sockets"
                                : "forked";
}

void table_header(FILE *out, const machine *m, const run_setup *setup) {
    fprintf(out, "# cproute %s on GPUs; ", cpr_version_string());
    print_version(out, "CUDA runtime", m->cuda_runtime);
    print_version(out, ", driver", m->cuda_driver);
    fprintf(out, " (%s), NCCL %d.%d.%d\n", *m->driver ? m->driver : "none", m->nccl / 10000,
            m->nccl / 100 % 100, m->nccl % 100);
    for (int64_t i = 0; i < m->gpus && i < DEVICES_MAX; i++)
        fprintf(out, "# device %" PRId64 ": %s, compute capability %d.%d, %d multiprocessors, %.0f GiB\n", i,
                m->devices[i].name, m->devices[i].major, m->devices[i].minor, m->devices[i].multiprocessors,
                m->devices[i].gib);
    if (m->gpus)
        fprintf(out, "# ranks: %" PRId64 ", %s; simulated: 2 to 8 on device 0\n", setup->ranks,
                ranks_are(setup));
    else
        fprintf(out, "# no GPU: %s\n", m->no_gpu);
    fprintf(out, "# seed %" PRIu64 ", %" PRId64 " drawn cases%s\n#\n", setup->options->seed,
            setup->options->cases, setup->options->quick ? ", quick" : "");
    fprintf(out, "# time in us, bandwidths in GB/s, bytes and rows of one rank; #wrong: bytes, counted on "
                 "the device\n");
    fprintf(out, "#\n# %10s %7s %6s %6s %-24s %-24s %3s %9s %8s %8s %7s  %s\n", "bytes", "rows", "width",
            "type", "from", "to", "cp", "time", "algbw", "busbw", "#wrong", "what");
    fflush(out);
}

static void print_measure(FILE *out, int width, int digits, double value) {
    if (value > 0)
        fprintf(out, " %*.*f", width, digits, value);
    else
        fprintf(out, " %*s", width, "-");
}

static void print_line(FILE *out, const line *l) {
    fprintf(out, "  %10" PRId64 " %7" PRId64 " %6" PRId64 " %6s %-24s %-24s %3" PRId64, l->bytes, l->rows,
            l->width, l->type, l->from, l->to, l->cp);
    print_measure(out, 9, 1, l->time_us);
    print_measure(out, 8, 1, l->algbw);
    print_measure(out, 8, 1, l->busbw);
    fprintf(out, " %7" PRId64 "  %s", l->wrong, l->what);
    if (l->sequences)
        fprintf(out, ", S = %" PRId64, l->sequences);
    fprintf(out, "\n");
}

void table_job(FILE *out, const job *j, const job_result *result, const board *b) {
    const report *r = &b->reports[0];
    for (int64_t i = 0; i < r->line_count; i++)
        print_line(out, &r->lines[i]);
    for (int64_t i = 0; i < r->figure_count; i++)
        fprintf(out, "#   %-40s %14.6g\n", r->figures[i].name, r->figures[i].value);
    fprintf(out, "# %-7s %6.1f s  %-28s", outcome_names[result->outcome], result->seconds, j->name);
    if (result->outcome != JOB_SKIPPED)
        fprintf(out, " %6" PRId64 " cases, %" PRId64 " bytes wrong", result->cases, result->wrong);
    fprintf(out, "\n");
    for (const char *at = result->text; *at;) {
        const int length = (int)strcspn(at, "\n");
        fprintf(out, "#     %.*s\n", length, at);
        at += length + (at[length] == '\n');
    }
    fflush(out);
}

void table_footer(FILE *out, const totals *t) {
    fprintf(out, "#\n# wrong bytes: %" PRId64 " %s\n", t->wrong, t->wrong ? "FAILED" : "OK");
    fprintf(out, "# %" PRId64 " passed, %" PRId64 " failed, %" PRId64 " skipped\n", t->passed, t->failed,
            t->skipped);
    fprintf(out, "# verdict: %s\n", t->failed || t->wrong ? "FAILED" : t->passed ? "OK" : "nothing was run");
    fflush(out);
}

/*==============================================================================
 * MARK: - JSON
 *============================================================================*/

static void json_text(FILE *out, const char *name, const char *text) {
    fprintf(out, "\"%s\":", name);
    write_json_string(out, text);
    fprintf(out, ",");
}

void json_begin(FILE *out, const machine *m, const run_setup *setup, int count, char **arguments) {
    char date[32];
    const time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    fprintf(out, "{");
    json_text(out, "version", cpr_version_string());
    json_text(out, "date", date);
    json_text(out, "driver", m->driver);
    fprintf(out, "\"cuda_runtime\":%d,\"cuda_driver\":%d,\"nccl\":\"%d.%d.%d\",", m->cuda_runtime,
            m->cuda_driver, m->nccl / 10000, m->nccl / 100 % 100, m->nccl % 100);
    fprintf(out, "\"command\":[");
    for (int i = 1; i < count; i++) {
        fprintf(out, i > 1 ? "," : "");
        write_json_string(out, arguments[i]);
    }
    fprintf(out, "],\"devices\":[");
    for (int64_t i = 0; i < m->gpus && i < DEVICES_MAX; i++) {
        fprintf(out, i ? "," : "");
        write_json_string(out, m->devices[i].name);
    }
    fprintf(out, "],");
    json_text(out, "no_gpu", m->no_gpu);
    json_text(out, "launched", ranks_are(setup));
    fprintf(out, "\"ranks\":%" PRId64 ",\"shares_gpus\":%s,\"one_host\":%s,\"jobs\":[", setup->ranks,
            setup->shares_gpus ? "true" : "false", setup->one_host ? "true" : "false");
}

static void json_line(FILE *out, const line *l) {
    fprintf(out, "{");
    json_text(out, "what", l->what);
    json_text(out, "type", l->type);
    json_text(out, "from", l->from);
    json_text(out, "to", l->to);
    fprintf(out,
            "\"bytes\":%" PRId64 ",\"rows\":%" PRId64 ",\"width\":%" PRId64 ",\"cp\":%" PRId64
            ",\"sequences\":%" PRId64 ",\"time\":%.3f,\"algbw\":%.3f,\"busbw\":%.3f,\"wrong\":%" PRId64 "}",
            l->bytes, l->rows, l->width, l->cp, l->sequences, l->time_us, l->algbw, l->busbw, l->wrong);
}

void json_job(FILE *out, const job *j, const job_result *result, const board *b, bool first) {
    const report *r = &b->reports[0];
    fprintf(out, "%s\n{", first ? "" : ",");
    json_text(out, "name", j->name);
    json_text(out, "meaning", j->meaning);
    json_text(out, "outcome", outcome_names[result->outcome]);
    json_text(out, "details", result->text);
    fprintf(out, "\"seconds\":%.3f,\"cases\":%" PRId64 ",\"wrong\":%" PRId64 ",\"figures\":{",
            result->seconds, result->cases, result->wrong);
    for (int64_t i = 0; i < r->figure_count; i++) {
        fprintf(out, i ? "," : "");
        write_json_string(out, r->figures[i].name);
        fprintf(out, ":%.9g", r->figures[i].value);
    }
    fprintf(out, "},\"lines\":[");
    for (int64_t i = 0; i < r->line_count; i++) {
        fprintf(out, i ? "," : "");
        json_line(out, &r->lines[i]);
    }
    fprintf(out, "]}");
}

void json_end(FILE *out, const totals *t) {
    fprintf(out,
            "],\"passed\":%" PRId64 ",\"failed\":%" PRId64 ",\"skipped\":%" PRId64 ",\"wrong\":%" PRId64
            "}\n",
            t->passed, t->failed, t->skipped, t->wrong);
}
