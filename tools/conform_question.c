/* SPDX-License-Identifier: Apache-2.0 */
#include "conform_question.h"
#include "arguments.h"
#include "script_answers.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_EXCHANGED_TOKENS = 4096, MAX_EXCHANGED_RANKS = 64 };

/*------------------------------------------------------------------------------
 * Requests
 *----------------------------------------------------------------------------*/

static void write_layout(FILE *out, const char *field, cpr_layout layout) {
    const char *name = cpr_layout_name(layout);
    if (strcmp(name, "unknown") == 0)
        fprintf(out, ",\"%s\":\"#%d\"", field, (int)layout);
    else
        fprintf(out, ",\"%s\":\"%s\"", field, name);
}

static void write_options(FILE *out, const hello *h, question_op op, const cpr_route_request *r) {
    static const char *const devices[] = {"cpu", "cuda", "other"};
    if (h->reads_dtype)
        fprintf(out, ",\"dtype\":\"%s\"", cpr_dtype_name(r->cu_seqlens.dtype));
    if (h->reads_device && (size_t)r->cu_seqlens.device < sizeof devices / sizeof *devices)
        fprintf(out, ",\"device\":\"%s\"", devices[r->cu_seqlens.device]);
    if (h->reads_rows && r->rows != CPR_ROWS_UNCHECKED)
        fprintf(out, ",\"rows\":%" PRId64, r->rows);
    if (h->reads_tp && op == ASK_ROUTE && r->tp_size != 0)
        fprintf(out, ",\"tp\":%" PRId64, r->tp_size);
}

static void write_request(FILE *out, const hello *h, question_op op, const route_case *c,
                          const cpr_route_request *r) {
    fprintf(out, "{\"op\":\"%s\",\"cu_seqlens\":[", question_op_names[op]);
    for (int64_t i = 0; i < c->entries; i++)
        fprintf(out, "%s%" PRId64, i ? "," : "", c->cu[i]);
    fprintf(out, "],\"cp_size\":%" PRId64, r->geometry.cp_size);
    if (op != ASK_EXCHANGE)
        fprintf(out, ",\"rank\":%" PRId64, r->geometry.cp_rank);
    if (op == ASK_LAYOUT) {
        write_layout(out, "layout", r->source);
    } else {
        write_layout(out, "from", r->source);
        write_layout(out, "to", r->target);
    }
    write_options(out, h, op, r);
    fputs("}\n", out);
}

/*------------------------------------------------------------------------------
 * Right answers
 *----------------------------------------------------------------------------*/

static void write_share(FILE *out, const cpr_intervals *share) {
    const char *separator = "";
    fputc('[', out);
    for (int64_t i = 0; i < share->count; i++) {
        for (int64_t token = share->items[i].begin; token < share->items[i].end; token++) {
            fprintf(out, "%s%" PRId64, separator, token);
            separator = ",";
        }
    }
    fputc(']', out);
}

static bool write_share_of(FILE *out, const cpr_route_request *r, cpr_layout layout, int64_t rank,
                           cpr_error *error) {
    cpr_intervals *share = NULL;
    const cpr_geometry geometry = {.cp_size = r->geometry.cp_size, .cp_rank = rank};
    if (cpr_layout_intervals(&r->cu_seqlens, r->rows, geometry, layout, NULL, &share, error) != CPR_OK)
        return false;
    write_share(out, share);
    cpr_intervals_free(share);
    return true;
}

static bool want_route(FILE *out, const cpr_route_request *r) {
    cpr_route *route = NULL;
    cpr_error error;
    if (cpr_route_build(r, NULL, &route, &error) != CPR_OK)
        return cpr_error_dump_json(r->geometry.cp_rank, &error, write_to_file, out);
    const bool written = cpr_route_dump(route, CPR_DUMP_JSON_ROWS, write_to_file, out);
    cpr_route_free(route);
    return written;
}

static bool want_layout(FILE *out, const cpr_route_request *r) {
    cpr_intervals *share = NULL;
    cpr_error error;
    if (cpr_layout_intervals(&r->cu_seqlens, r->rows, r->geometry, r->source, NULL, &share, &error) != CPR_OK)
        return cpr_error_dump_json(r->geometry.cp_rank, &error, write_to_file, out);
    fprintf(out, "{\"rank\":%" PRId64 ",\"tokens\":", r->geometry.cp_rank);
    write_share(out, share);
    fputs("}\n", out);
    cpr_intervals_free(share);
    return true;
}

/* Every rank ends with its tokens of the target layout. Only what may be exchanged is asked for. */
static bool want_exchange(FILE *out, const cpr_route_request *r) {
    cpr_route *route = NULL;
    cpr_error error;
    if (r->geometry.cp_size > MAX_EXCHANGED_RANKS || cpr_route_build(r, NULL, &route, &error) != CPR_OK)
        return false;
    const int64_t tokens = route->total_tokens;
    cpr_route_free(route);
    if (tokens > MAX_EXCHANGED_TOKENS)
        return false;
    fputs("{\"tokens\":[", out);
    for (int64_t rank = 0; rank < r->geometry.cp_size; rank++) {
        fputs(rank ? "," : "", out);
        if (!write_share_of(out, r, r->target, rank, &error))
            return false;
    }
    fputs("]}\n", out);
    return true;
}

static bool (*const wants[ASK_FLAT])(FILE *out, const cpr_route_request *r) = {want_route, want_layout,
                                                                               want_exchange};

typedef bool write_fn(FILE *request, FILE *want, const question *q, const hello *h, const void *subject);

/* Both lines, by a function that knows what the question is about. */
static bool write_lines(question *q, const hello *h, const void *subject, write_fn *write) {
    FILE *request = open_memstream(&q->request, &q->request_length);
    FILE *want = open_memstream(&q->want, &q->want_length);
    bool good = request && want && write(request, want, q, h, subject);
    good = (!request || !fclose(request)) && good;
    good = (!want || !fclose(want)) && good;
    if (!good)
        question_free(q);
    return good;
}

/* What nobody reads is not part of the question. */
static void drop_options(cpr_route_request *r, const hello *h, question_op op) {
    if (!h->reads_rows)
        r->rows = CPR_ROWS_UNCHECKED;
    if (op != ASK_ROUTE)
        r->tp_size = 0;
}

static bool write_route_question(FILE *request, FILE *want, const question *q, const hello *h,
                                 const void *subject) {
    const route_case *c = subject;
    boundaries b = boundaries_make(c);
    drop_options(&b.request, h, q->op);
    write_request(request, h, q->op, c, &b.request);
    const bool good = wants[q->op](want, &b.request);
    boundaries_free(&b);
    return good;
}

/* A script as a text case has it, without what the case wants. */
static bool write_script(FILE *request, FILE *want, const question *q, const hello *h, const void *subject) {
    size_t i;
    json_t *op;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    (void)h;
    if (!out)
        return false;
    subject_write(out, q->op, subject, "");
    json_t *object = fclose(out) ? NULL : json_loadb(text, length, 0, NULL),
           *ops = json_object_get(object, "ops");
    json_array_foreach(ops, i, op) json_object_del(op, "want");
    fputs("{\"op\":\"cache\",\"ops\":", request);
    const bool good = ops && !json_dumpf(ops, request, JSON_COMPACT) && script_answers_write(want, subject);
    fputs("}\n", request);
    json_decref(object);
    free(text);
    return good;
}

static bool write_text_question(FILE *request, FILE *want, const question *q, const hello *h,
                                const void *subject) {
    return shape_case_ask(request, want, q->op, h, subject);
}

bool question_make(question *q, const hello *h, question_op op, const void *subject) {
    *q = (question){.op = op};
    if (asks_with_text(op))
        return h->ops[op] && write_lines(q, h, subject, write_text_question);
    if (op == ASK_CACHE)
        return hello_allows_script(h, subject) && write_lines(q, h, subject, write_script);
    return hello_allows(h, op, subject) && write_lines(q, h, subject, write_route_question);
}

void question_free(question *q) {
    free(q->request);
    free(q->want);
    q->request = q->want = NULL;
}
