/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "laws.h"
#include "oracle.h"
#include "scratch.h"
#include "subject.h"
#include <stdlib.h>
#include <string.h>

static int by_peer_and_target(const void *a, const void *b) {
    const cpr_run *x = a, *y = b;
    if (x->peer != y->peer)
        return x->peer < y->peer ? -1 : 1;
    return (x->target_row > y->target_row) - (x->target_row < y->target_row);
}

/* The same runs seen from the other direction. Runs stay maximal: whatever the order, nothing of the same
 * peer lies between a run and the one that would go on. */
static cpr_run *reflect(const cpr_run_list *list, bool reorder, scratch *s) {
    cpr_run *runs = scratch_bytes(s, (size_t)list->count * sizeof *runs);
    if (!runs)
        return NULL;
    for (int64_t i = 0; i < list->count; i++) {
        const cpr_run *run = &list->runs[i];
        runs[i] = (cpr_run){run->peer, run->target_row, run->source_row, run->length};
    }
    if (reorder && list->count > 0)
        qsort(runs, (size_t)list->count, sizeof *runs, by_peer_and_target);
    return runs;
}

/*
 * A list of runs is ordered by the target of its own direction. Where both layouts ascend alike that is one
 * order for both directions and the lists are equal as they are; elsewhere they have the same runs.
 */
static bool mirrors(const cpr_run_list *there, const cpr_run_list *back, bool one_order, scratch *s,
                    const char *what, verdict *v) {
    cpr_run_list reflected = *there;
    reflected.runs = reflect(there, !one_order, s);
    if (!reflected.runs)
        return subject_no_memory(v);
    /* As lists the flags agree too; as sets each direction has an order, and a flag, of its own. */
    if (!one_order)
        reflected.identity = back->identity;
    return same_run_list(&reflected, what, back, "the other direction",
                         "a route and its reverse are no mirror images", v);
}

/* Contiguous ranks ascend in the stream, so every layout that ascends has its rows in order already. */
static bool is_identity_against_contiguous(const cpr_route *route, verdict *v) {
    const int64_t cp_size = route->geometry.cp_size;
    if (route->target == CPR_CONTIGUOUS && oracle_ascends(route->source, cp_size) && !route->send.identity)
        return law_fail(v, "an ascending side is no identity against contiguous", "%s->contiguous",
                        cpr_layout_name(route->source));
    if (route->source == CPR_CONTIGUOUS && oracle_ascends(route->target, cp_size) && !route->recv.identity)
        return law_fail(v, "an ascending side is no identity against contiguous", "contiguous->%s",
                        cpr_layout_name(route->target));
    return true;
}

static bool judge_pair(const cpr_route *there, const cpr_route *back, scratch *s, verdict *v) {
    const int64_t cp_size = there->geometry.cp_size;
    const bool one_order = there->source == there->target ||
                           (oracle_ascends(there->source, cp_size) && oracle_ascends(there->target, cp_size));
    return mirrors(&there->send, &back->recv, one_order, s, "what is sent", v) &&
           mirrors(&there->recv, &back->send, one_order, s, "what is received", v) &&
           is_identity_against_contiguous(there, v) && is_identity_against_contiguous(back, v);
}

void judge_mirror(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_legal(c, v))
        return;
    const cpr_route_request request = subject_request(c), reverse = request_reversed(&request);
    cpr_route *there, *back = NULL;
    cpr_error error;
    if (!engine_builds(engine, &request, &there, v))
        return;
    scratch s = {0};
    const cpr_status status = engine->build[BY_INTERVALS](&reverse, NULL, &back, &error);
    if (call_ok(status, &error, "the builder of the reverse", v))
        judge_pair(there, back, &s, v);
    scratch_free(&s);
    cpr_route_free(back);
    cpr_route_free(there);
}
