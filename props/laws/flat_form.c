/* SPDX-License-Identifier: Apache-2.0 */
#include "flat_form.h"
#include "compare.h"
#include "subject.h"
#include <string.h>

typedef struct writer {
    int64_t *entries;
    int64_t count;
} writer;

static void put_list(writer *w, const int64_t *items, int64_t count) {
    for (int64_t i = 0; items && i < count; i++)
        w->entries[w->count++] = items[i];
}

/* The tensor that a view describes, as upstream's format reads. */
static void write_view(writer *w, const cpr_flat_view *view) {
    const int64_t header[] = {
        view->geometry.cp_size,           view->geometry.cp_rank,          view->rows, view->rows,
        view->send_rows ? view->rows : 0, view->recv_rows ? view->rows : 0};
    put_list(w, header, 6);
    put_list(w, view->input_splits, view->geometry.cp_size);
    put_list(w, view->output_splits, view->geometry.cp_size);
    put_list(w, view->send_rows, view->rows);
    put_list(w, view->recv_rows, view->rows);
}

static bool describes(const cpr_flat_view *view, const int64_t *flat, int64_t count, scratch *s, verdict *v) {
    const int64_t lists = (view->send_rows ? view->rows : 0) + (view->recv_rows ? view->rows : 0);
    writer w = {scratch_int64(s, 6 + 2 * view->geometry.cp_size + lists), 0};
    if (!w.entries)
        return subject_no_memory(v);
    write_view(&w, view);
    return same_numbers(&w.count, "the view's", &count, "the tensor's", 1, "length",
                        "a view is not its tensor", v) &&
           same_numbers(w.entries, "the view's", flat, "the tensor's", count, "entry",
                        "a view is not its tensor", v);
}

bool flat_decodes_as(const engine_under_test *engine, const int64_t *flat, int64_t count,
                     cpr_geometry geometry, cpr_error wanted, scratch *s, verdict *v) {
    const cpr_flat_view untouched = {.geometry = {-7, -7}, .rows = -7};
    cpr_flat_view view = untouched;
    cpr_error error;
    const cpr_status status = engine->flat_decode(flat, count, geometry, NULL, &view, &error);
    if (wanted.status == CPR_OK)
        return call_ok(status, &error, "flat_decode", v) && describes(&view, flat, count, s, v);
    if (!call_refused(status, &error, wanted, "flat_decode", v))
        return false;
    return memcmp(&view, &untouched, sizeof view) == 0 ||
           law_fail(v, "an output is touched on failure", "flat_decode");
}
