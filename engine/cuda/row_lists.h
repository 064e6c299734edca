/* SPDX-License-Identifier: Apache-2.0 */
/* A route as kernels and transports take it: lists of runs without peers, and messages without runs. */
#ifndef CPROUTE_ROW_LISTS_H
#define CPROUTE_ROW_LISTS_H

#include "cproute/cproute.h"
#include "moves.h"

/* Rows that leave a rank's memory for a message, or get there from one: rows [first[i], first[i+1]) of the message are the rank's
 * rows local[i] and on. */
typedef struct cpr_row_list {
    const int64_t *first;
    const int64_t *local;
    int64_t count;
    int64_t rows;
} cpr_row_list;

/* What is exchanged with another rank: `rows` > 0 rows. They begin at row `at` where the messages of the other ranks lie
 * one behind the other, and at row `in_place` of all rows of the side. */
typedef struct cpr_row_message {
    int64_t peer;
    int64_t rows;
    int64_t at;
    int64_t in_place;
} cpr_row_message;

/* One side of a route. */
typedef struct cpr_row_side {
    bool identity; /* the rank's rows are messages as they lie, so the lists below are empty */
    int64_t rows;
    int64_t other_rows; /* without those that the rank keeps */
    cpr_row_message *messages;
    int64_t message_count;
    cpr_row_list all;
    cpr_row_list others;
} cpr_row_side;

typedef struct cpr_row_lists {
    cpr_row_side sides[2]; /* [CPR_SEND] and [CPR_RECV] */
    cpr_moves own;         /* rows that the rank keeps, from source to target */
    int64_t *numbers;      /* in which all lists lie, so that one copy brings them to a device */
    int64_t number_count;
    int64_t messages_allocated;
    cpr_allocator allocator;
} cpr_row_lists;

/* False without memory; then nothing is to be freed. */
bool cpr_row_lists_make(const cpr_route *route, const cpr_allocator *allocator, cpr_row_lists *lists);
void cpr_row_lists_free(cpr_row_lists *lists);

/* Into a message, and out of one. */
cpr_moves cpr_row_list_pack(const cpr_row_list *list);
cpr_moves cpr_row_list_scatter(const cpr_row_list *list);

/* The same list, or moves, where its numbers were copied to. */
cpr_row_list cpr_row_list_moved(cpr_row_list list, const int64_t *numbers, const int64_t *copy);
cpr_moves cpr_moves_moved(cpr_moves moves, const int64_t *numbers, const int64_t *copy);

/* Row of a message in what is sent from or received into: the rank's own rows for an identity, else the buffer. */
static inline int64_t cpr_row_message_at(const cpr_row_side *side, const cpr_row_message *message) {
    return side->identity ? message->in_place : message->at;
}

#endif
