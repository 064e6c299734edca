/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange inside one process. What arrives at a rank is packed straight into its one inbox, in the order in
 * which an all-to-all-v would deliver it, and scattered from there. Routes are trusted to hold together each for
 * itself, as cpr_route_validate tells; that they fit each other is checked.
 */
#include <string.h>

#include "allocator.h"
#include "error.h"
#include "runs.h"

static size_t bytes_of(int64_t rows, size_t row_bytes) {
    return (size_t)rows * row_bytes;
}

static void copy_rows(void *to, int64_t to_row, const void *from, int64_t from_row, int64_t rows,
                      size_t row_bytes) {
    memcpy((char *)to + bytes_of(to_row, row_bytes), (const char *)from + bytes_of(from_row, row_bytes),
           bytes_of(rows, row_bytes));
}

static void pack_runs(const cpr_run *runs, int64_t count, size_t row_bytes, const void *source,
                      void *message) {
    int64_t packed = 0;
    for (int64_t i = 0; i < count && row_bytes > 0; i++) {
        copy_rows(message, packed, source, runs[i].source_row, runs[i].length, row_bytes);
        packed += runs[i].length;
    }
}

void cpr_pack(const cpr_route *route, size_t row_bytes, const void *source, void *message) {
    pack_runs(route->send.runs, route->send.count, row_bytes, source, message);
}

void cpr_scatter(const cpr_route *route, size_t row_bytes, const void *message, void *target) {
    int64_t scattered = 0;
    for (int64_t i = 0; i < route->recv.count && row_bytes > 0; i++) {
        const cpr_run *run = &route->recv.runs[i];
        copy_rows(target, run->target_row, message, scattered, run->length, row_bytes);
        scattered += run->length;
    }
}

/* All that takes part. */
typedef struct exchange {
    const cpr_route *const *routes;
    int64_t ranks;
    size_t row_bytes;
    const cpr_shard *sources;
    cpr_shard *targets;
} exchange;

static cpr_status check_ranks(const exchange *x, cpr_error *error) {
    if (x->ranks < 1) {
        return cpr_fail(error, CPR_BAD_CP_SIZE, -1, x->ranks, 1);
    }
    for (int64_t r = 0; r < x->ranks; r++) {
        const cpr_geometry geometry = x->routes[r]->geometry;
        if (geometry.cp_rank != r || geometry.cp_size != x->ranks) {
            return cpr_fail(error, CPR_BAD_RANK, r, geometry.cp_rank, r);
        }
    }
    return CPR_OK;
}

/* A fact as `rank` has it and as it ought to be. */
typedef struct fact {
    int64_t got, wanted;
} fact;

static cpr_status check_facts(const fact *facts, size_t count, int64_t rank, cpr_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (facts[i].got != facts[i].wanted) {
            return cpr_fail(error, CPR_DIVERGENT_METADATA, rank, facts[i].got, facts[i].wanted);
        }
    }
    return CPR_OK;
}

static cpr_status check_metadata(const exchange *x, cpr_error *error) {
    uint64_t digests[] = {cpr_route_digest(x->routes[0]), 0};
    for (int64_t r = 1; r < x->ranks; r++) {
        digests[1] = cpr_route_digest(x->routes[r]);
        if (cpr_digests_check(digests, 2, error) != CPR_OK) {
            error->index = r;
            return error->status;
        }
    }
    return CPR_OK;
}

/* Rules what `sender` sends and what `receiver` takes for its message. */
typedef cpr_status message_rule(const exchange *x, int64_t sender, int64_t receiver, cpr_error *error);

static cpr_message sent_between(const exchange *x, int64_t sender, int64_t receiver) {
    return cpr_message_of(&x->routes[sender]->send, receiver);
}

static cpr_message received_between(const exchange *x, int64_t sender, int64_t receiver) {
    return cpr_message_of(&x->routes[receiver]->recv, sender);
}

static cpr_status check_split(const exchange *x, int64_t sender, int64_t receiver, cpr_error *error) {
    const int64_t sent = sent_between(x, sender, receiver).rows;
    const int64_t received = received_between(x, sender, receiver).rows;
    if (sent != received) {
        return cpr_fail(error, CPR_SPLIT_MISMATCH, sender * x->ranks + receiver, sent, received);
    }
    return CPR_OK;
}

/* Both ends list a message in the order of target rows, so run by run they must say the same. */
static cpr_status check_runs(const exchange *x, int64_t sender, int64_t receiver, cpr_error *error) {
    const cpr_message sent = sent_between(x, sender, receiver);
    const cpr_message received = received_between(x, sender, receiver);
    const fact counts = {received.count, sent.count};
    if (check_facts(&counts, 1, receiver, error) != CPR_OK) {
        return error->status;
    }
    for (int64_t i = 0; i < sent.count; i++) {
        const fact facts[] = {
            {received.runs[i].source_row, sent.runs[i].source_row},
            {received.runs[i].target_row, sent.runs[i].target_row},
            {received.runs[i].length, sent.runs[i].length},
        };
        if (check_facts(facts, sizeof facts / sizeof facts[0], receiver, error) != CPR_OK) {
            return error->status;
        }
    }
    return CPR_OK;
}

static cpr_status check_messages(const exchange *x, message_rule *rule, cpr_error *error) {
    for (int64_t sender = 0; sender < x->ranks; sender++) {
        for (int64_t receiver = 0; receiver < x->ranks; receiver++) {
            if (rule(x, sender, receiver, error) != CPR_OK) {
                return error->status;
            }
        }
    }
    return CPR_OK;
}

static cpr_status check_layouts(const exchange *x, cpr_error *error) {
    for (int64_t r = 0; r < x->ranks; r++) {
        if (x->sources[r].layout != x->routes[r]->source) {
            return cpr_fail(error, CPR_LAYOUT_MISMATCH, r, (int)x->sources[r].layout,
                            (int)x->routes[r]->source);
        }
    }
    return CPR_OK;
}

static cpr_status check_rows(const exchange *x, cpr_error *error) {
    for (int64_t r = 0; r < x->ranks; r++) {
        if (x->sources[r].rows != x->routes[r]->send.rows) {
            return cpr_fail(error, CPR_TOTAL_MISMATCH, r, x->sources[r].rows, x->routes[r]->send.rows);
        }
        if (x->targets[r].rows != x->routes[r]->recv.rows) {
            return cpr_fail(error, CPR_TOTAL_MISMATCH, r, x->targets[r].rows, x->routes[r]->recv.rows);
        }
    }
    return CPR_OK;
}

/* Of a rank that receives most. */
static int64_t most_rows_received(const exchange *x) {
    int64_t most = 0;
    for (int64_t r = 0; r < x->ranks; r++) {
        const int64_t rows = x->routes[r]->recv.rows;
        most = rows > most ? rows : most;
    }
    return most;
}

/* Ranks hold equally many rows before and after, so the rows received stand for all shards. */
static cpr_status check_bytes(const exchange *x, cpr_error *error) {
    const int64_t rows = most_rows_received(x);
    if (x->row_bytes > 0 && (uint64_t)rows > SIZE_MAX / x->row_bytes) {
        return cpr_fail(error, CPR_OVERFLOW, -1, rows, (int64_t)(SIZE_MAX / x->row_bytes));
    }
    return CPR_OK;
}

static void deliver(const exchange *x, int64_t receiver, char *inbox) {
    size_t arrived = 0;
    for (int64_t sender = 0; sender < x->ranks; sender++) {
        const cpr_message message = sent_between(x, sender, receiver);
        pack_runs(message.runs, message.count, x->row_bytes, x->sources[sender].data, inbox + arrived);
        arrived += bytes_of(message.rows, x->row_bytes);
    }
    cpr_scatter(x->routes[receiver], x->row_bytes, inbox, x->targets[receiver].data);
}

static cpr_status deliver_all(const exchange *x, const cpr_allocator *allocator, cpr_error *error) {
    const size_t bytes = bytes_of(most_rows_received(x), x->row_bytes);
    if (bytes == 0) {
        return CPR_OK;
    }
    char *inbox = allocator->allocate(allocator->context, bytes);
    if (inbox == NULL) {
        return cpr_fail_no_memory(error);
    }
    for (int64_t r = 0; r < x->ranks; r++) {
        deliver(x, r, inbox);
    }
    allocator->release(allocator->context, inbox, bytes);
    return CPR_OK;
}

cpr_status cpr_exchange_host(const cpr_route *const *routes, int64_t cp_size, size_t row_bytes,
                             const cpr_shard *sources, cpr_shard *targets, const cpr_allocator *allocator,
                             cpr_error *error) {
    const exchange x = {routes, cp_size, row_bytes, sources, targets};
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (check_ranks(&x, outcome) != CPR_OK || check_metadata(&x, outcome) != CPR_OK ||
        check_messages(&x, check_split, outcome) != CPR_OK ||
        check_messages(&x, check_runs, outcome) != CPR_OK || check_layouts(&x, outcome) != CPR_OK ||
        check_rows(&x, outcome) != CPR_OK || check_bytes(&x, outcome) != CPR_OK ||
        deliver_all(&x, &chosen, outcome) != CPR_OK) {
        return outcome->status;
    }
    for (int64_t r = 0; r < cp_size; r++) {
        targets[r].layout = routes[r]->target;
    }
    return cpr_succeed(outcome);
}
