/* SPDX-License-Identifier: Apache-2.0 */
#include "conform_question.h"
#include "arguments.h"

#include <inttypes.h>
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

static bool (*const wants[QUESTION_OPS])(FILE *out, const cpr_route_request *r) = {want_route, want_layout,
                                                                                   want_exchange};

static bool write_question(question *q, const hello *h, const route_case *c, const cpr_route_request *r) {
    FILE *request = open_memstream(&q->request, &q->request_length);
    FILE *want = open_memstream(&q->want, &q->want_length);
    bool good = request && want;
    if (good) {
        write_request(request, h, q->op, c, r);
        good = wants[q->op](want, r);
    }
    good = (!request || !fclose(request)) && good;
    return (!want || !fclose(want)) && good;
}

/* What nobody reads is not part of the question. */
static void drop_options(cpr_route_request *r, const hello *h, question_op op) {
    if (!h->reads_rows)
        r->rows = CPR_ROWS_UNCHECKED;
    if (op != ASK_ROUTE)
        r->tp_size = 0;
}

bool question_make(question *q, const hello *h, question_op op, const route_case *c) {
    *q = (question){.op = op};
    if (!hello_allows(h, op, c))
        return false;
    boundaries b = boundaries_make(c);
    drop_options(&b.request, h, op);
    const bool good = write_question(q, h, c, &b.request);
    boundaries_free(&b);
    if (!good)
        question_free(q);
    return good;
}

void question_free(question *q) {
    free(q->request);
    free(q->want);
    q->request = q->want = NULL;
}
