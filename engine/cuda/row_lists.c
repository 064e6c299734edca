/* SPDX-License-Identifier: Apache-2.0 */
#include "row_lists.h"

#include "allocator.h"
#include "runs.h"

/* Appends to `numbers`, which is large enough. */
typedef struct writer {
    int64_t *numbers;
    int64_t written;
} writer;

static int64_t *take(writer *to, int64_t count) {
    int64_t *numbers = to->numbers + to->written;
    to->written += count;
    return numbers;
}

static int64_t runs_with(const cpr_run_list *list, int64_t rank) {
    return cpr_message_of(list, rank).count;
}

/* Numbers of a list that leaves out `left_out` runs. */
static int64_t numbers_of_list(int64_t runs) {
    return 2 * runs + 1;
}

static int64_t numbers_of(const cpr_route *route) {
    const int64_t rank = route->geometry.cp_rank;
    const int64_t own = runs_with(&route->send, rank);
    int64_t numbers = 3 * own + 1;
    for (int side = CPR_SEND; side <= CPR_RECV; side++) {
        const cpr_run_list *list = cpr_route_side(route, (cpr_side)side);
        if (!list->identity) {
            numbers += numbers_of_list(list->count) + numbers_of_list(list->count - runs_with(list, rank));
        }
    }
    return numbers;
}

/* The list of all runs but those with rank `without`. */
static cpr_row_list list_of(const cpr_run_list *list, cpr_side side, int64_t without, writer *to) {
    const int64_t count = list->count - runs_with(list, without);
    int64_t *first = take(to, count + 1);
    int64_t *local = take(to, count);
    int64_t rows = 0;
    int64_t listed = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const cpr_run *run = &list->runs[i];
        if (run->peer == without) {
            continue;
        }
        first[listed] = rows;
        local[listed++] = cpr_run_local_row(run, side);
        rows += run->length;
    }
    first[count] = rows;
    return (cpr_row_list){.first = first, .local = local, .count = count, .rows = rows};
}

static cpr_moves own_of(const cpr_route *route, writer *to) {
    const cpr_message own = cpr_message_of(&route->send, route->geometry.cp_rank);
    int64_t *first = take(to, own.count + 1);
    int64_t *from = take(to, own.count);
    int64_t *target = take(to, own.count);
    int64_t rows = 0;
    for (int64_t i = 0; i < own.count; i++) {
        first[i] = rows;
        from[i] = own.runs[i].source_row;
        target[i] = own.runs[i].target_row;
        rows += own.runs[i].length;
    }
    first[own.count] = rows;
    return (cpr_moves){.first = first, .from = from, .to = target, .count = own.count, .rows = rows};
}

static int64_t messages_of(const cpr_route *route) {
    int64_t messages = 0;
    for (int side = CPR_SEND; side <= CPR_RECV; side++) {
        const cpr_run_list *list = cpr_route_side(route, (cpr_side)side);
        for (int64_t i = 0; i < list->count; i++) {
            messages += i == 0 || list->runs[i].peer != list->runs[i - 1].peer;
        }
    }
    return messages;
}

static cpr_row_side side_of(const cpr_route *route, cpr_side side, cpr_row_message *messages, writer *to) {
    enum { NO_RANK = -1 };
    const cpr_run_list *list = cpr_route_side(route, side);
    const int64_t rank = route->geometry.cp_rank;
    cpr_row_side made = {.identity = list->identity, .messages = messages};
    for (int64_t run = 0; run < list->count;) {
        const int64_t peer = list->runs[run].peer;
        const int64_t rows = cpr_message_next(list, peer, &run).rows;
        if (peer != rank) {
            messages[made.message_count++] =
                (cpr_row_message){.peer = peer, .rows = rows, .at = made.other_rows, .in_place = made.rows};
            made.other_rows += rows;
        }
        made.rows += rows;
    }
    if (!list->identity) {
        made.all = list_of(list, side, NO_RANK, to);
        made.others = list_of(list, side, rank, to);
    }
    return made;
}

bool cpr_row_lists_make(const cpr_route *route, const cpr_allocator *allocator, cpr_row_lists *lists) {
    const int64_t number_count = numbers_of(route);
    const int64_t message_count = messages_of(route) + 1;
    int64_t *numbers = cpr_allocate(allocator, number_count, sizeof *numbers);
    cpr_row_message *messages = cpr_allocate(allocator, message_count, sizeof *messages);
    if (numbers == NULL || messages == NULL) {
        cpr_release(allocator, numbers, number_count, sizeof *numbers);
        cpr_release(allocator, messages, message_count, sizeof *messages);
        return false;
    }
    writer to = {.numbers = numbers};
    *lists = (cpr_row_lists){.numbers = numbers,
                             .number_count = number_count,
                             .messages_allocated = message_count,
                             .allocator = *allocator};
    lists->own = own_of(route, &to);
    lists->sides[CPR_SEND] = side_of(route, CPR_SEND, messages, &to);
    lists->sides[CPR_RECV] = side_of(route, CPR_RECV, messages + lists->sides[CPR_SEND].message_count, &to);
    return true;
}

void cpr_row_lists_free(cpr_row_lists *lists) {
    const cpr_allocator allocator = lists->allocator;
    cpr_release(&allocator, lists->sides[CPR_SEND].messages, lists->messages_allocated,
                sizeof *lists->sides[CPR_SEND].messages);
    cpr_release(&allocator, lists->numbers, lists->number_count, sizeof *lists->numbers);
}

cpr_moves cpr_row_list_pack(const cpr_row_list *list) {
    return (cpr_moves){.first = list->first,
                       .from = list->local,
                       .to = list->first,
                       .count = list->count,
                       .rows = list->rows};
}

cpr_moves cpr_row_list_scatter(const cpr_row_list *list) {
    return (cpr_moves){.first = list->first,
                       .from = list->first,
                       .to = list->local,
                       .count = list->count,
                       .rows = list->rows};
}

static const int64_t *moved(const int64_t *entry, const int64_t *numbers, const int64_t *copy) {
    return entry == NULL ? NULL : copy + (entry - numbers);
}

cpr_row_list cpr_row_list_moved(cpr_row_list list, const int64_t *numbers, const int64_t *copy) {
    list.first = moved(list.first, numbers, copy);
    list.local = moved(list.local, numbers, copy);
    return list;
}

cpr_moves cpr_moves_moved(cpr_moves moves, const int64_t *numbers, const int64_t *copy) {
    moves.first = moved(moves.first, numbers, copy);
    moves.from = moved(moves.from, numbers, copy);
    moves.to = moved(moves.to, numbers, copy);
    return moves;
}
