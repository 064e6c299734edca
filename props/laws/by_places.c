/* SPDX-License-Identifier: Apache-2.0 */
#include "by_places.h"

#include "digest.h"
#include <stdlib.h>

enum { THREADS = 5 };

cpr_conversion_facts facts_of_request(const cpr_route_request *request) {
    return (cpr_conversion_facts){.source = (int)request->source,
                                  .target = (int)request->target,
                                  .ranks = request->geometry.cp_size,
                                  .rows = request->rows,
                                  .tp_size = request->tp_size};
}

static cpr_error judged(const cpr_route_request *request) {
    const cpr_conversion_facts facts = facts_of_request(request);
    const cpr_error refused =
        cpr_conversion_refused(&request->cu_seqlens, request->geometry, facts.source, facts.target, CPR_CPU);
    if (refused.status != CPR_OK)
        return refused;
    const cpr_offsets offsets = cpr_offsets_of(&request->cu_seqlens);
    cpr_offsets_scan scan = cpr_offsets_scanned(&offsets, &facts, 0, THREADS);
    for (int thread = 1; thread < THREADS; thread++)
        scan = cpr_offsets_joined(scan, cpr_offsets_scanned(&offsets, &facts, thread, THREADS));
    return cpr_offsets_judged(&offsets, &facts, &scan);
}

static void *take(const cpr_allocator *allocator, int64_t runs) {
    return allocator->allocate(allocator->context, (size_t)runs * sizeof(cpr_run));
}

static void give_back(const cpr_allocator *allocator, cpr_run *runs, int64_t count) {
    if (runs)
        allocator->release(allocator->context, runs, (size_t)count * sizeof *runs);
}

/* What a rank sends, or, looking the other way, what it receives; `runs` NULL: only counted. */
static int64_t write_runs(const cpr_places *places, cpr_side side, cpr_run *runs) {
    int64_t count = 0, row = 0;
    while (row < cpr_places_rows(places)) {
        const cpr_place_run there = cpr_places_run_at(places, row);
        if (runs)
            runs[count] = side == CPR_SEND ? (cpr_run){there.peer, row, there.row, there.length}
                                           : (cpr_run){there.peer, there.row, row, there.length};
        row += there.length;
        count++;
    }
    return count;
}

static int by_peer_and_target(const void *a, const void *b) {
    const cpr_run *x = a, *y = b;
    if (x->peer != y->peer)
        return x->peer < y->peer ? -1 : 1;
    return x->target_row < y->target_row ? -1 : x->target_row > y->target_row;
}

static int64_t join_neighbours(cpr_run *runs, int64_t count) {
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        cpr_run *last = kept > 0 ? &runs[kept - 1] : NULL;
        if (last && last->peer == runs[i].peer && last->source_row + last->length == runs[i].source_row &&
            last->target_row + last->length == runs[i].target_row)
            last->length += runs[i].length;
        else
            runs[kept++] = runs[i];
    }
    return kept;
}

static void describe(cpr_run_list *list, cpr_side side) {
    list->identity = true;
    list->rows = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const cpr_run *run = &list->runs[i];
        const int64_t local = side == CPR_SEND ? run->source_row : run->target_row;
        list->identity = list->identity && local == list->rows;
        list->rows += run->length;
    }
}

static bool make_list(const cpr_places *places, cpr_side side, const cpr_allocator *allocator,
                      cpr_run_list *list) {
    const int64_t found = write_runs(places, side, NULL);
    *list = (cpr_run_list){.identity = true};
    if (found == 0)
        return true;
    cpr_run *runs = take(allocator, found);
    if (!runs)
        return false;
    write_runs(places, side, runs);
    qsort(runs, (size_t)found, sizeof *runs, by_peer_and_target);
    list->count = join_neighbours(runs, found);
    list->runs = take(allocator, list->count);
    if (list->runs)
        memcpy(list->runs, runs, (size_t)list->count * sizeof *runs);
    give_back(allocator, runs, found);
    if (!list->runs)
        return false;
    describe(list, side);
    return true;
}

static bool make_lists(const cpr_route_request *request, const cpr_allocator *allocator, cpr_route *route) {
    const cpr_offsets offsets = cpr_offsets_of(&request->cu_seqlens);
    const cpr_conversion_facts there = facts_of_request(request);
    cpr_conversion_facts back = there;
    back.source = there.target;
    back.target = there.source;
    const cpr_places sent = cpr_places_of(&offsets, &there, request->geometry.cp_rank);
    const cpr_places received = cpr_places_of(&offsets, &back, request->geometry.cp_rank);
    route->total_tokens = sent.total;
    if (!make_list(&sent, CPR_SEND, allocator, &route->send))
        return false;
    if (make_list(&received, CPR_RECV, allocator, &route->recv))
        return true;
    give_back(allocator, route->send.runs, route->send.count);
    return false;
}

static void *allocate_plainly(void *context, size_t size) {
    (void)context;
    return malloc(size > 0 ? size : 1);
}

static void release_plainly(void *context, void *memory, size_t size) {
    (void)context;
    (void)size;
    free(memory);
}

cpr_status route_by_places(const cpr_route_request *request, const cpr_allocator *allocator,
                           cpr_route **route, cpr_error *error) {
    static const cpr_allocator plain = {allocate_plainly, release_plainly, NULL};
    const cpr_allocator *chosen = allocator ? allocator : &plain;
    cpr_error unwanted;
    cpr_error *outcome = error ? error : &unwanted;
    *outcome = judged(request);
    if (outcome->status != CPR_OK)
        return outcome->status;
    cpr_route *made = chosen->allocate(chosen->context, sizeof *made);
    *outcome = cpr_found(CPR_NO_MEMORY, -1, 0, 0);
    if (!made)
        return CPR_NO_MEMORY;
    *made = (cpr_route){.source = request->source,
                        .target = request->target,
                        .geometry = request->geometry,
                        .allocator = *chosen};
    if (!make_lists(request, chosen, made)) {
        chosen->release(chosen->context, made, sizeof *made);
        return CPR_NO_MEMORY;
    }
    made->boundaries_digest = cpr_boundaries_digest(&request->cu_seqlens);
    *outcome = cpr_nothing_found();
    *route = made;
    return CPR_OK;
}
