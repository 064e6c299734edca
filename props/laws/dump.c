/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "json_lines.h"
#include "laws.h"
#include "sink.h"
#include "subject.h"
#include <inttypes.h>
#include <string.h>

static const char *const form_names[] = {"json rows", "json runs", "text"};

typedef struct document {
    const engine_under_test *engine;
    const cpr_route *route;
    scratch memory;
    json_line line;
} document;

static bool says_number(const json_line *line, const char *key, int64_t wanted, verdict *v) {
    const json_member *m = json_line_member(line, key);
    if (!m || m->kind != JSON_NUMBER)
        return law_fail(v, "a dump lacks a member", "%s should be a number", key);
    return m->numbers[0] == wanted ||
           law_fail(v, "a dump says what is not so", "%s %" PRId64 ", should be %" PRId64, key, m->numbers[0],
                    wanted);
}

static bool says_string(const json_line *line, const char *key, const char *wanted, verdict *v) {
    const json_member *m = json_line_member(line, key);
    if (!m || m->kind != JSON_STRING)
        return law_fail(v, "a dump lacks a member", "%s should be a string", key);
    return (m->string_length == strlen(wanted) && memcmp(m->string, wanted, m->string_length) == 0) ||
           law_fail(v, "a dump says what is not so", "%s \"%.*s\", should be \"%s\"", key,
                    (int)m->string_length, m->string, wanted);
}

static bool says_list(const json_line *line, const char *key, const int64_t *wanted, int64_t count,
                      verdict *v) {
    const json_member *m = json_line_member(line, key);
    if (!m || m->kind != JSON_LIST)
        return law_fail(v, "a dump lacks a member", "%s should be a list", key);
    if (m->count != count)
        return law_fail(v, "a dump says what is not so", "%s has %" PRId64 " numbers, should have %" PRId64,
                        key, m->count, count);
    return same_numbers(m->numbers, "the dump", wanted, "the route", count, key, "a dump says what is not so",
                        v);
}

static bool says_rows(document *d, const char *key, cpr_side side, verdict *v) {
    const cpr_run_list *list = side == CPR_SEND ? &d->route->send : &d->route->recv;
    if (list->identity) {
        const json_member *m = json_line_member(&d->line, key);
        return (m && m->kind == JSON_NULL) ||
               law_fail(v, "a dump lacks a member", "%s of an identity should be null", key);
    }
    int64_t *rows = scratch_int64(&d->memory, list->rows);
    if (!rows)
        return subject_no_memory(v);
    cpr_error error;
    const cpr_status status = d->engine->rows(d->route, side, CPR_INT64, rows, list->rows, &error);
    return call_ok(status, &error, "rows", v) && says_list(&d->line, key, rows, list->rows, v);
}

static bool says_splits(document *d, const char *key, cpr_side side, verdict *v) {
    const int64_t ranks = d->route->geometry.cp_size;
    int64_t *splits = scratch_int64(&d->memory, ranks);
    if (!splits)
        return subject_no_memory(v);
    cpr_error error;
    const cpr_status status = d->engine->splits(d->route, side, splits, ranks, &error);
    return call_ok(status, &error, "splits", v) && says_list(&d->line, key, splits, ranks, v);
}

static bool says_runs(const document *d, const char *key, const cpr_run_list *list, verdict *v) {
    const json_member *m = json_line_member(&d->line, key);
    const bool none = list->count == 0;
    if (!m || m->kind != (none ? JSON_LIST : JSON_TABLE) || (!none && m->columns != 4))
        return law_fail(v, "a dump lacks a member", "%s should be a list of fours", key);
    if (m->count != 4 * list->count)
        return law_fail(v, "a dump says what is not so", "%s has %" PRId64 " runs, should have %" PRId64, key,
                        m->count / 4, list->count);
    for (int64_t i = 0; i < list->count; i++) {
        const cpr_run *run = &list->runs[i];
        const int64_t wanted[] = {run->peer, run->source_row, run->target_row, run->length};
        if (!same_numbers(m->numbers + 4 * i, "the dump", wanted, "the route", 4, key,
                          "a dump says what is not so", v))
            return false;
    }
    return true;
}

static bool judge_json(const engine_under_test *engine, const cpr_route *route, cpr_dump_form form,
                       const sink *out, verdict *v) {
    document d = {.engine = engine, .route = route};
    const char *wrong = json_line_read(out->text, out->length, &d.memory, &d.line);
    bool good = !wrong || law_fail(v, "a dump is not JSON", "%s: %s", wrong, out->text);
    good = good && says_number(&d.line, "rank", route->geometry.cp_rank, v) &&
           says_string(&d.line, "status", "ok", v) &&
           says_number(&d.line, "source_rows", route->send.rows, v) &&
           says_number(&d.line, "target_rows", route->recv.rows, v) &&
           says_splits(&d, "input_splits", CPR_SEND, v) && says_splits(&d, "output_splits", CPR_RECV, v);
    if (form == CPR_DUMP_JSON_ROWS)
        good = good && says_rows(&d, "send_rows", CPR_SEND, v) && says_rows(&d, "recv_rows", CPR_RECV, v);
    else
        good = good && says_runs(&d, "send_runs", &route->send, v) &&
               says_runs(&d, "recv_runs", &route->recv, v);
    scratch_free(&d.memory);
    return good;
}

/* Does a line of the text have these numbers, in any order and among others? */
static bool line_has(const char *line, const char *end, const int64_t *numbers, size_t count) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        char wanted[24];
        const int length = snprintf(wanted, sizeof wanted, "%" PRId64, numbers[i]);
        for (const char *at = line; at + length <= end; at++) {
            const bool begins = at == line || at[-1] < '0' || at[-1] > '9';
            const bool ends = at + length == end || at[length] < '0' || at[length] > '9';
            if (begins && ends && memcmp(at, wanted, (size_t)length) == 0) {
                found++;
                break;
            }
        }
    }
    return found == count;
}

/* A run has a line after that of the run before it, with its peer and where both its ends begin. */
static bool judge_text(const cpr_route *route, const sink *out, verdict *v) {
    const char *line = out->text, *end = out->text + out->length;
    const cpr_run_list *lists[] = {&route->send, &route->recv};
    for (int side = CPR_SEND; side <= CPR_RECV; side++)
        for (int64_t i = 0; i < lists[side]->count; i++) {
            const cpr_run *run = &lists[side]->runs[i];
            const int64_t numbers[] = {run->peer, run->source_row, run->target_row};
            bool found = false;
            while (!found && line < end) {
                const char *newline = memchr(line, '\n', (size_t)(end - line));
                if (!newline)
                    return law_fail(v, "a dump's last line does not end", "%s", line);
                found = line_has(line, newline, numbers, 3);
                line = newline + 1;
            }
            if (!found)
                return law_fail(v, "a text dump lacks a run", "side %d run %" PRId64, side, i);
        }
    return end[-1] == '\n' || law_fail(v, "a dump's last line does not end", "%s", line);
}

/* What a dump does when the writer stops it after `limit` bytes. */
static bool stops(const engine_under_test *engine, const cpr_route *route, cpr_dump_form form,
                  const sink *whole, size_t limit, verdict *v) {
    sink cut = {.limited = true, .limit = limit};
    const bool finished = engine->dump(route, form, sink_write, &cut);
    bool good = true;
    if (cut.out_of_memory)
        good = subject_no_memory(v);
    else if (finished)
        good = law_fail(v, "a stopped dump says that it finished", "%s, %zu of %zu bytes", form_names[form],
                        limit, whole->length);
    else if (cut.called_after_that)
        good = law_fail(v, "a stopped writer is called again", "%s, %zu of %zu bytes", form_names[form],
                        limit, whole->length);
    else if (cut.length > 0 && memcmp(cut.text, whole->text, cut.length) != 0)
        good = law_fail(v, "a stopped dump begins otherwise", "%s, %zu of %zu bytes", form_names[form], limit,
                        whole->length);
    sink_free(&cut);
    return good;
}

static bool judge_form(const engine_under_test *engine, const cpr_route *route, cpr_dump_form form,
                       uint64_t salt, verdict *v) {
    sink out = {0};
    const bool finished = engine->dump(route, form, sink_write, &out);
    bool good;
    if (out.out_of_memory)
        good = subject_no_memory(v);
    else if (!finished || out.length == 0)
        good = law_fail(v, "a dump fails", "%s wrote %zu bytes", form_names[form], out.length);
    else
        good =
            (form == CPR_DUMP_TEXT ? judge_text(route, &out, v) : judge_json(engine, route, form, &out, v)) &&
            stops(engine, route, form, &out, (size_t)salt_below(salt, 1, out.length), v) &&
            stops(engine, route, form, &out, out.length - 1, v);
    sink_free(&out);
    return good;
}

static bool judge_error(const engine_under_test *engine, const route_case *c, verdict *v) {
    const int64_t rank = c->geometry.cp_rank;
    boundaries b = boundaries_make(c);
    cpr_route *route = NULL;
    cpr_error error;
    const cpr_status status = engine->build[BY_INTERVALS](&b.request, NULL, &route, &error);
    boundaries_free(&b);
    if (status == CPR_OK) {
        cpr_route_free(route);
        return law_fail(v, "not the answer that the case expects", "a wrong case is built");
    }
    sink out = {0}, cut = {.limited = true};
    scratch s = {0};
    json_line line;
    bool good = engine->error_dump(rank, &error, sink_write, &out);
    if (!good)
        good = law_fail(v, "a dump fails", "of an error");
    const char *wrong = good ? json_line_read(out.text, out.length, &s, &line) : NULL;
    if (wrong)
        good = law_fail(v, "a dump is not JSON", "%s: %s", wrong, out.text);
    good = good && says_number(&line, "rank", rank, v) && says_string(&line, "status", "error", v) &&
           says_string(&line, "error", cpr_status_name(error.status), v) &&
           says_number(&line, "index", error.index, v) && says_number(&line, "got", error.got, v) &&
           says_number(&line, "want", error.wanted, v);
    if (good) {
        cut.limit = (size_t)salt_below(c->salt, 2, out.length);
        if (engine->error_dump(rank, &error, sink_write, &cut))
            good = law_fail(v, "a stopped dump says that it finished", "of an error");
    }
    scratch_free(&s);
    sink_free(&cut);
    sink_free(&out);
    return good;
}

void judge_dump(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (c->expected.status != CPR_OK) {
        judge_error(engine, c, v);
        return;
    }
    if (!subject_listable(c, v))
        return;
    const cpr_route_request request = subject_request(c);
    cpr_route *route;
    if (!engine_builds(engine, &request, &route, v))
        return;
    for (int form = CPR_DUMP_JSON_ROWS; form <= CPR_DUMP_TEXT; form++)
        if (!judge_form(engine, route, (cpr_dump_form)form, c->salt, v))
            break;
    cpr_route_free(route);
}
