/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include <inttypes.h>
#include <string.h>

typedef struct text {
    char bytes[160];
} text;

static text show_error(const cpr_error *e) {
    text out;
    snprintf(out.bytes, sizeof out.bytes, "%s index %" PRId64 " got %" PRId64 " wanted %" PRId64,
             cpr_status_name(e->status), e->index, e->got, e->wanted);
    return out;
}

static text show_run(const cpr_run_list *list, int64_t at) {
    text out;
    if (at >= list->count) {
        snprintf(out.bytes, sizeof out.bytes, "no run");
        return out;
    }
    const cpr_run *run = &list->runs[at];
    snprintf(out.bytes, sizeof out.bytes,
             "peer %" PRId64 " source_row %" PRId64 " target_row %" PRId64 " length %" PRId64, run->peer,
             run->source_row, run->target_row, run->length);
    return out;
}

static bool equal_errors(const cpr_error *a, const cpr_error *b) {
    return a->status == b->status && a->index == b->index && a->got == b->got && a->wanted == b->wanted;
}

bool same_error(const cpr_error *a, const char *a_name, const cpr_error *b, const char *b_name,
                const char *reason, verdict *v) {
    if (a->status == b->status && (a->status == CPR_OK || equal_errors(a, b)))
        return true;
    return law_fail(v, reason, "%s: %s; %s: %s", a_name, show_error(a).bytes, b_name, show_error(b).bytes);
}

static bool status_agrees(cpr_status status, const cpr_error *error, const char *name, verdict *v) {
    return status == error->status ||
           law_fail(v, "returned status and written error differ", "%s returned %s and wrote %s", name,
                    cpr_status_name(status), show_error(error).bytes);
}

bool as_expected(const route_case *c, cpr_status status, const cpr_error *error, const char *name,
                 verdict *v) {
    if (!status_agrees(status, error, name, v))
        return false;
    if (!c->expected_known && status == c->expected.status)
        return true;
    return same_error(error, name, &c->expected, "the case", "not the answer that the case expects", v);
}

bool call_ok(cpr_status status, const cpr_error *error, const char *what, verdict *v) {
    if (!status_agrees(status, error, what, v))
        return false;
    return status == CPR_OK ||
           law_fail(v, "a legal call is refused", "%s: %s", what, show_error(error).bytes);
}

bool call_refused(cpr_status status, const cpr_error *error, cpr_error wanted, const char *what, verdict *v) {
    if (!status_agrees(status, error, what, v))
        return false;
    return same_error(error, what, &wanted, "the contract", "a mistake is not refused as it should", v);
}

bool same_numbers(const int64_t *a, const char *a_name, const int64_t *b, const char *b_name, int64_t count,
                  const char *what, const char *reason, verdict *v) {
    for (int64_t i = 0; i < count; i++)
        if (a[i] != b[i])
            return law_fail(v, reason, "%s[%" PRId64 "]: %s %" PRId64 "; %s %" PRId64, what, i, a_name, a[i],
                            b_name, b[i]);
    return true;
}

static bool same_runs(const cpr_run_list *a, const cpr_run_list *b) {
    /* A run is four int64_t: no padding to stumble over. */
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->runs, b->runs, (size_t)a->count * sizeof *a->runs) == 0);
}

static int64_t first_difference(const cpr_run_list *a, const cpr_run_list *b) {
    int64_t i = 0;
    while (i < a->count && i < b->count && memcmp(&a->runs[i], &b->runs[i], sizeof(cpr_run)) == 0)
        i++;
    return i;
}

bool same_run_list(const cpr_run_list *a, const char *a_name, const cpr_run_list *b, const char *b_name,
                   const char *reason, verdict *v) {
    if (!same_runs(a, b)) {
        const int64_t at = first_difference(a, b);
        return law_fail(v, reason, "run %" PRId64 ": %s (of %" PRId64 ") %s; %s (of %" PRId64 ") %s", at,
                        a_name, a->count, show_run(a, at).bytes, b_name, b->count, show_run(b, at).bytes);
    }
    if (a->rows != b->rows || a->identity != b->identity)
        return law_fail(v, reason, "%s: rows %" PRId64 " identity %d; %s: rows %" PRId64 " identity %d",
                        a_name, a->rows, a->identity, b_name, b->rows, b->identity);
    return true;
}

bool same_route(const cpr_route *a, const char *a_name, const cpr_route *b, const char *b_name,
                const char *reason, verdict *v) {
    if (a->source != b->source || a->target != b->target || a->geometry.cp_size != b->geometry.cp_size ||
        a->geometry.cp_rank != b->geometry.cp_rank || a->total_tokens != b->total_tokens ||
        a->boundaries_digest != b->boundaries_digest)
        return law_fail(v, reason,
                        "%s: %s->%s rank %" PRId64 " of %" PRId64 " tokens %" PRId64 " digest %016" PRIx64
                        "; %s: %s->%s rank %" PRId64 " of %" PRId64 " tokens %" PRId64 " digest %016" PRIx64,
                        a_name, cpr_layout_name(a->source), cpr_layout_name(a->target), a->geometry.cp_rank,
                        a->geometry.cp_size, a->total_tokens, a->boundaries_digest, b_name,
                        cpr_layout_name(b->source), cpr_layout_name(b->target), b->geometry.cp_rank,
                        b->geometry.cp_size, b->total_tokens, b->boundaries_digest);
    return same_run_list(&a->send, a_name, &b->send, b_name, reason, v) &&
           same_run_list(&a->recv, a_name, &b->recv, b_name, reason, v);
}
