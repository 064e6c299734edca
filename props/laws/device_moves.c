/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exchange as GPUs make it, its kernels run here thread by thread: the engine's own index arithmetic, with loads and stores that
 * are watched.
 */
#include "cuda/row_lists.h"
#include "device_rows.h"
#include "group.h"
#include "laws.h"
#include "subject.h"
#include <inttypes.h>
#include <string.h>

typedef struct device {
    const engine_under_test *engine;
    const route_case *c;
    int64_t ranks;
    size_t row_bytes;
    int64_t most_blocks;
    group routes;
    cpr_row_lists *lists;         /* of each rank */
    device_rows *source, *target; /* likewise */
    device_rows *messages[2];     /* likewise, by side */
    scratch memory;
} device;

/* A thread of a kernel; counts the units that it moves. */
static bool run_thread(const device *d, const cpr_moves *moves, size_t unit, int64_t block, int thread,
                       int64_t blocks, const device_rows *from, const device_rows *to, int64_t *moved,
                       verdict *v) {
    const int64_t units_per_row = (int64_t)(d->row_bytes / unit);
    const int lane = thread % CPR_MOVE_LANES;
    for (int64_t number = cpr_move_first_chunk(block, thread); number < cpr_move_chunks(moves, units_per_row);
         number += cpr_move_chunk_stride(blocks)) {
        const cpr_move_chunk chunk = d->engine->move_chunk_at(moves, units_per_row, number);
        for (int step = 0; step < cpr_move_steps(&chunk, lane); step++) {
            cpr_unit_move move;
            if (chunk.first_run == chunk.last_run) {
                move = d->engine->move_in_one_run(&chunk, lane);
                move.from += step * CPR_MOVE_LANES;
                move.to += step * CPR_MOVE_LANES;
            } else {
                move = d->engine->move_in_many_runs(moves, units_per_row, &chunk, lane, step);
            }
            if (move.from < 0 || (uint64_t)move.from >= from->size / unit || move.to < 0 ||
                (uint64_t)move.to >= to->size / unit)
                return law_fail(v, "a thread leaves the memory",
                                "unit %" PRId64 " of %zu bytes to unit %" PRId64, move.from, unit, move.to);
            memcpy(to->bytes + (size_t)move.to * unit, from->bytes + (size_t)move.from * unit, unit);
            ++*moved;
        }
    }
    return true;
}

static bool run_kernel(const device *d, cpr_moves moves, const device_rows *from, const device_rows *to,
                       verdict *v) {
    if (moves.rows == 0)
        return true;
    const size_t unit = cpr_move_unit_bytes(d->row_bytes, from->bytes, to->bytes);
    const int64_t units_per_row = (int64_t)(d->row_bytes / unit);
    const int64_t blocks = cpr_move_blocks(cpr_move_chunks(&moves, units_per_row), d->most_blocks);
    int64_t moved = 0;
    for (int64_t block = 0; block < blocks; block++)
        for (int thread = 0; thread < CPR_MOVE_THREADS; thread++)
            if (!run_thread(d, &moves, unit, block, thread, blocks, from, to, &moved, v))
                return false;
    /* All rows come out right only if all units were moved; so as many as there are is once each. */
    return moved == moves.rows * units_per_row ||
           law_fail(v, "units are not moved once each", "%" PRId64 " units moved, there are %" PRId64, moved,
                    moves.rows * units_per_row);
}

static const cpr_row_message *message_from(const cpr_row_side *side, int64_t peer) {
    for (int64_t i = 0; i < side->message_count; i++)
        if (side->messages[i].peer == peer)
            return &side->messages[i];
    return NULL;
}

/* What a transport does, and its sizes. */
static bool deliver(const device *d, int64_t sender, cpr_side out, cpr_side in, verdict *v) {
    const cpr_row_side *sent = &d->lists[sender].sides[out];
    for (int64_t i = 0; i < sent->message_count; i++) {
        const int64_t receiver = sent->messages[i].peer;
        const cpr_row_side *received = &d->lists[receiver].sides[in];
        const cpr_row_message *message = message_from(received, sender);
        if (!message || message->rows != sent->messages[i].rows)
            return law_fail(v, "a message that its receiver does not know",
                            "%" PRId64 " rows from rank %" PRId64 " to rank %" PRId64, sent->messages[i].rows,
                            sender, receiver);
        const device_rows *from = sent->identity ? &d->source[sender] : &d->messages[out][sender];
        const device_rows *to = received->identity ? &d->target[receiver] : &d->messages[in][receiver];
        memcpy(to->bytes + (size_t)cpr_row_message_at(received, message) * d->row_bytes,
               from->bytes + (size_t)cpr_row_message_at(sent, &sent->messages[i]) * d->row_bytes,
               (size_t)message->rows * d->row_bytes);
    }
    return true;
}

static cpr_moves own_moves(const cpr_row_lists *lists, cpr_side out) {
    cpr_moves moves = lists->own;
    if (out == CPR_RECV) {
        moves.from = lists->own.to;
        moves.to = lists->own.from;
    }
    return moves;
}

static bool exchange(const device *d, cpr_side out, verdict *v) {
    const cpr_side in = out == CPR_SEND ? CPR_RECV : CPR_SEND;
    for (int64_t r = 0; r < d->ranks; r++)
        if (!run_kernel(d, cpr_row_list_pack(&d->lists[r].sides[out].others), &d->source[r],
                        &d->messages[out][r], v))
            return false;
    for (int64_t r = 0; r < d->ranks; r++)
        if (!deliver(d, r, out, in, v))
            return false;
    for (int64_t r = 0; r < d->ranks; r++)
        if (!run_kernel(d, own_moves(&d->lists[r], out), &d->source[r], &d->target[r], v) ||
            !run_kernel(d, cpr_row_list_scatter(&d->lists[r].sides[in].others), &d->messages[in][r],
                        &d->target[r], v))
            return false;
    return true;
}

/* All rows of a side through a message of that side, as whoever brings a transport of their own calls it. */
static bool pack_and_scatter(device *d, int64_t rank, cpr_side side, verdict *v) {
    const cpr_row_side *lists = &d->lists[rank].sides[side];
    device_rows message, back;
    if (lists->identity)
        return true;
    const size_t size = d->source[rank].size;
    if (!device_rows_make(&d->memory, size, 0, &message) || !device_rows_make(&d->memory, size, 0, &back))
        return subject_no_memory(v);
    if (!run_kernel(d, cpr_row_list_pack(&lists->all), &d->source[rank], &message, v) ||
        !run_kernel(d, cpr_row_list_scatter(&lists->all), &message, &back, v))
        return false;
    return memcmp(back.bytes, d->source[rank].bytes, back.size) == 0 ||
           law_fail(v, "packed and scattered is not what it was", "rank %" PRId64 " side %d", rank,
                    (int)side);
}

static bool make_all(device *d, device_rows **rows, int64_t (*rows_of)(const cpr_row_side *), cpr_side side,
                     unsigned draw) {
    *rows = scratch_bytes(&d->memory, (size_t)d->ranks * sizeof **rows);
    if (!*rows)
        return false;
    for (int64_t r = 0; r < d->ranks; r++)
        if (!device_rows_make(&d->memory, (size_t)rows_of(&d->lists[r].sides[side]) * d->row_bytes,
                              draw ? device_rows_shift(d->c, draw) : 0, &(*rows)[r]))
            return false;
    return true;
}

static int64_t all_rows(const cpr_row_side *side) {
    return side->rows;
}

static int64_t buffered_rows(const cpr_row_side *side) {
    return side->identity ? 0 : side->other_rows;
}

/* One direction; `out` is the side of the routes that sends. */
static bool convert(device *d, cpr_side out, verdict *v) {
    const cpr_side in = out == CPR_SEND ? CPR_RECV : CPR_SEND;
    const cpr_layout from = out == CPR_SEND ? d->c->source : d->c->target;
    const cpr_layout to = out == CPR_SEND ? d->c->target : d->c->source;
    device_rows *wanted;
    if (!make_all(d, &d->source, all_rows, out, 8) || !make_all(d, &d->target, all_rows, in, 9) ||
        !make_all(d, &wanted, all_rows, in, 0) ||
        !make_all(d, &d->messages[CPR_SEND], buffered_rows, CPR_SEND, 0) ||
        !make_all(d, &d->messages[CPR_RECV], buffered_rows, CPR_RECV, 0))
        return subject_no_memory(v);
    if (!device_rows_paint(d->c, from, d->row_bytes, &d->memory, d->source, v) ||
        !device_rows_paint(d->c, to, d->row_bytes, &d->memory, wanted, v) || !exchange(d, out, v) ||
        !device_rows_same(d->c, d->target, wanted, d->row_bytes, "the kernels move rows wrongly",
                          out == CPR_SEND ? "there" : "back", v))
        return false;
    return pack_and_scatter(d, (int64_t)salt_below(d->c->salt, 10, (uint64_t)d->ranks), out, v);
}

static void judge_lists(device *d, verdict *v) {
    const cpr_allocator allocator = d->routes.routes[0]->allocator;
    int64_t made = 0;
    d->lists = scratch_bytes(&d->memory, (size_t)d->ranks * sizeof *d->lists);
    while (d->lists && made < d->ranks &&
           cpr_row_lists_make(d->routes.routes[made], &allocator, &d->lists[made]))
        made++;
    if (made < d->ranks)
        subject_no_memory(v);
    else if (convert(d, CPR_SEND, v))
        convert(d, CPR_RECV, v);
    for (int64_t r = 0; r < made; r++)
        cpr_row_lists_free(&d->lists[r]);
}

void judge_device_moves(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_listable(c, v))
        return;
    const cpr_route_request request = subject_request(c);
    device d = {.engine = engine, .c = c, .ranks = c->geometry.cp_size, .row_bytes = device_row_bytes(c, 6)};
    d.most_blocks = 1 + (int64_t)salt_below(c->salt, 11, 4);
    if (!group_build(&d.routes, engine, &request, v))
        return;
    judge_lists(&d, v);
    scratch_free(&d.memory);
    group_free(&d.routes);
}
