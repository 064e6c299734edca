/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The route by definition: who owns a token, how a rank numbers its tokens, and in which order messages list them.
 * Every token is looked at; nothing here is clever, so that it can be believed by reading it.
 */
#include "builders.h"

#include <string.h>

static int64_t entry(const cpr_cu_seqlens *cu_seqlens, int64_t i) {
    const int64_t width = cu_seqlens->dtype == CPR_INT32 ? 4 : 8;
    const char *at = (const char *)cu_seqlens->data + (ptrdiff_t)(i * cu_seqlens->stride * width);
    int32_t narrow;
    int64_t wide;
    if (cu_seqlens->dtype == CPR_INT32) {
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, at, sizeof wide);
    return wide;
}

/*==============================================================================
 * MARK: - What is refused
 *============================================================================*/

static cpr_status refuse(cpr_error *error, cpr_status status, int64_t index, int64_t got, int64_t wanted) {
    *error = (cpr_error){.status = status, .index = index, .got = got, .wanted = wanted};
    return status;
}

static bool is_layout(cpr_layout layout) {
    return (int)layout >= 0 && (int)layout < CPR_LAYOUT_COUNT;
}

static bool cuts_sequences(cpr_layout layout) {
    return layout == CPR_ZIGZAG || layout == CPR_PER_SEQUENCE_CONTIGUOUS || layout == CPR_HEADS_THEN_TAILS;
}

static cpr_status check_boundaries(const cpr_route_request *request, cpr_error *error) {
    const cpr_cu_seqlens *cu = &request->cu_seqlens;
    if (cu->dtype != CPR_INT32 && cu->dtype != CPR_INT64)
        return refuse(error, CPR_DTYPE, -1, (int)cu->dtype, CPR_INT64);
    if (cu->device != CPR_CPU)
        return refuse(error, CPR_DEVICE, -1, (int)cu->device, CPR_CPU);
    if (cu->data == NULL && cu->count > 0)
        return refuse(error, CPR_DEVICE, -1, -1, CPR_CPU);
    if (cu->count < 1)
        return refuse(error, CPR_EMPTY_CU_SEQLENS, -1, cu->count, 1);
    int64_t total = entry(cu, 0);
    if (total != 0)
        return refuse(error, CPR_NONZERO_START, 0, total, 0);
    for (int64_t i = 1; i < cu->count; i++) {
        const int64_t end = entry(cu, i);
        if (end < total)
            return refuse(error, CPR_DECREASING, i, end, total);
        total = end;
    }
    if (request->rows != CPR_ROWS_UNCHECKED && request->rows != total)
        return refuse(error, CPR_TOTAL_MISMATCH, -1, request->rows, total);
    return CPR_OK;
}

static cpr_status check_divisibility(const cpr_route_request *request, cpr_error *error) {
    const cpr_cu_seqlens *cu = &request->cu_seqlens;
    const int64_t ranks = request->geometry.cp_size;
    const int64_t total = entry(cu, cu->count - 1);
    if (ranks == 1)
        return CPR_OK;
    if (cuts_sequences(request->source) || cuts_sequences(request->target)) {
        for (int64_t i = 0; i + 1 < cu->count; i++) {
            const int64_t length = entry(cu, i + 1) - entry(cu, i);
            if (length % (2 * ranks) != 0)
                return refuse(error, CPR_NOT_DIVISIBLE_2CP, i, length, 2 * ranks);
        }
    }
    if (request->source == CPR_FLAT_ZIGZAG || request->target == CPR_FLAT_ZIGZAG) {
        if (total % (2 * ranks) != 0)
            return refuse(error, CPR_NOT_DIVISIBLE_2CP, -1, total, 2 * ranks);
    }
    if (request->source == CPR_CONTIGUOUS || request->target == CPR_CONTIGUOUS) {
        if (total % ranks != 0)
            return refuse(error, CPR_NOT_DIVISIBLE_CP, -1, total, ranks);
    }
    return CPR_OK;
}

static cpr_status check(const cpr_route_request *request, cpr_error *error) {
    const int64_t ranks = request->geometry.cp_size;
    const int64_t me = request->geometry.cp_rank;
    if (ranks < 1)
        return refuse(error, CPR_BAD_CP_SIZE, -1, ranks, 1);
    if (ranks > CPR_CP_SIZE_MAX)
        return refuse(error, CPR_BAD_CP_SIZE, -1, ranks, CPR_CP_SIZE_MAX);
    if (me < 0 || me >= ranks)
        return refuse(error, CPR_BAD_RANK, -1, me, ranks);
    if (!is_layout(request->source))
        return refuse(error, CPR_BAD_LAYOUT, 0, (int)request->source, CPR_LAYOUT_COUNT);
    if (!is_layout(request->target))
        return refuse(error, CPR_BAD_LAYOUT, 1, (int)request->target, CPR_LAYOUT_COUNT);
    cpr_status status = check_boundaries(request, error);
    if (status == CPR_OK)
        status = check_divisibility(request, error);
    if (status != CPR_OK)
        return status;
    const int64_t total = entry(&request->cu_seqlens, request->cu_seqlens.count - 1);
    const int64_t tp = request->tp_size;
    if (tp < 0 || (tp > 1 && total / ranks % tp != 0))
        return refuse(error, CPR_NOT_DIVISIBLE_CP_TP, -1, total / ranks, tp);
    if (total > CPR_ENUMERATION_MAX_TOKENS)
        return refuse(error, CPR_OVERFLOW, -1, total, CPR_ENUMERATION_MAX_TOKENS);
    return CPR_OK;
}

/*==============================================================================
 * MARK: - Who owns a token
 *============================================================================*/

typedef struct sequence {
    int64_t begin;
    int64_t length;
} sequence;

/* Where a token is in a layout. A rank's tails come after all its heads; only heads_then_tails has tails. */
typedef struct place {
    int64_t rank;
    int64_t row;
    bool tail;
} place;

static place place_of(int64_t token, sequence own, int64_t total, cpr_layout layout, int64_t ranks) {
    if (ranks == 1)
        return (place){.rank = 0};
    if (layout == CPR_CONTIGUOUS)
        return (place){.rank = token / (total / ranks)};

    const sequence cut = layout == CPR_FLAT_ZIGZAG ? (sequence){0, total} : own;
    const int64_t chunk = (token - cut.begin) / (cut.length / (2 * ranks));
    if (layout == CPR_PER_SEQUENCE_CONTIGUOUS)
        return (place){.rank = chunk / 2};

    const bool mirrored = chunk >= ranks;
    return (place){
        .rank = mirrored ? 2 * ranks - 1 - chunk : chunk,
        .tail = mirrored && layout == CPR_HEADS_THEN_TAILS,
    };
}

/* Rows: each rank numbers its heads in stream order, then its tails. */
static void number_rows(place *places, int64_t total, int64_t *next_row, int64_t ranks) {
    memset(next_row, 0, (size_t)ranks * sizeof *next_row);
    for (int tail = 0; tail <= 1; tail++) {
        for (int64_t token = 0; token < total; token++) {
            if (places[token].tail == (tail == 1))
                places[token].row = next_row[places[token].rank]++;
        }
    }
}

static void find_places(const cpr_cu_seqlens *cu, cpr_layout layout, int64_t ranks, int64_t *next_row,
                        place *places) {
    const int64_t total = entry(cu, cu->count - 1);
    for (int64_t i = 0; i + 1 < cu->count; i++) {
        const int64_t begin = entry(cu, i), end = entry(cu, i + 1);
        for (int64_t token = begin; token < end; token++)
            places[token] = place_of(token, (sequence){begin, end - begin}, total, layout, ranks);
    }
    number_rows(places, total, next_row, ranks);
}

/*==============================================================================
 * MARK: - Messages
 *============================================================================*/

/* What the messages are read from, for one request. */
typedef struct workspace {
    int64_t rows_per_rank;
    place *source;      /* of every token */
    place *target;      /* of every token */
    int64_t *token_at;  /* rank * rows_per_rank + row, in the target layout -> token */
    int64_t *next_row;  /* of every rank */
    cpr_run *send_runs; /* as many as rows_per_rank, which is enough */
    cpr_run *recv_runs;
} workspace;

static void append_row(cpr_run_list *list, int64_t peer, int64_t source_row, int64_t target_row) {
    cpr_run *last = list->count > 0 ? &list->runs[list->count - 1] : NULL;
    if (last != NULL && last->peer == peer && last->source_row + last->length == source_row &&
        last->target_row + last->length == target_row)
        last->length++;
    else
        list->runs[list->count++] = (cpr_run){peer, source_row, target_row, 1};
    list->rows++;
}

/* One message: those of the receiver's rows, in their order, that the sender holds. */
static void append_message(const workspace *w, int64_t sender, int64_t receiver, cpr_side side,
                           cpr_run_list *list) {
    for (int64_t row = 0; row < w->rows_per_rank; row++) {
        const int64_t token = w->token_at[receiver * w->rows_per_rank + row];
        if (w->source[token].rank != sender)
            continue;
        const int64_t local_row = side == CPR_SEND ? w->source[token].row : row;
        list->identity = list->identity && local_row == list->rows;
        append_row(list, side == CPR_SEND ? receiver : sender, w->source[token].row, row);
    }
}

static void write_messages(const workspace *w, cpr_geometry geometry, cpr_run_list *send,
                           cpr_run_list *recv) {
    *send = (cpr_run_list){.runs = w->send_runs, .identity = true};
    *recv = (cpr_run_list){.runs = w->recv_runs, .identity = true};
    for (int64_t peer = 0; peer < geometry.cp_size; peer++) {
        append_message(w, geometry.cp_rank, peer, CPR_SEND, send);
        append_message(w, peer, geometry.cp_rank, CPR_RECV, recv);
    }
}

static void fill_workspace(workspace *w, const cpr_route_request *request, int64_t total) {
    const int64_t ranks = request->geometry.cp_size;
    find_places(&request->cu_seqlens, request->source, ranks, w->next_row, w->source);
    find_places(&request->cu_seqlens, request->target, ranks, w->next_row, w->target);
    for (int64_t token = 0; token < total; token++)
        w->token_at[w->target[token].rank * w->rows_per_rank + w->target[token].row] = token;
}

/*==============================================================================
 * MARK: - Memory
 *============================================================================*/

static void *take(const cpr_allocator *allocator, size_t size) {
    return allocator->allocate(allocator->context, size);
}

static void give_back(const cpr_allocator *allocator, void *memory, size_t size) {
    allocator->release(allocator->context, memory, size);
}

static size_t workspace_size(int64_t total, int64_t ranks) {
    return (size_t)total * (2 * sizeof(place) + sizeof(int64_t)) + (size_t)ranks * sizeof(int64_t) +
           (size_t)(total / ranks) * 2 * sizeof(cpr_run);
}

/* The parts of a workspace, one after the other in a block. */
static workspace divide_block(void *block, int64_t total, int64_t ranks) {
    workspace w = {.rows_per_rank = total / ranks};
    w.source = block;
    w.target = w.source + total;
    w.token_at = (int64_t *)(w.target + total);
    w.next_row = w.token_at + total;
    w.send_runs = (cpr_run *)(w.next_row + ranks);
    w.recv_runs = w.send_runs + w.rows_per_rank;
    return w;
}

/* The list with runs in a block of their own, of exactly their size; runs == NULL if there is no memory. */
static cpr_run_list copy_list(const cpr_run_list *list, const cpr_allocator *allocator) {
    const size_t size = (size_t)list->count * sizeof *list->runs;
    cpr_run_list copy = *list;
    copy.runs = take(allocator, size);
    if (copy.runs != NULL)
        memcpy(copy.runs, list->runs, size);
    return copy;
}

static bool write_lists(const cpr_route_request *request, int64_t total, const cpr_allocator *allocator,
                        cpr_run_list *send, cpr_run_list *recv) {
    const size_t size = workspace_size(total, request->geometry.cp_size);
    void *block = take(allocator, size);
    if (block == NULL)
        return false;
    workspace w = divide_block(block, total, request->geometry.cp_size);
    cpr_run_list sent, received;
    fill_workspace(&w, request, total);
    write_messages(&w, request->geometry, &sent, &received);
    *send = copy_list(&sent, allocator);
    *recv = copy_list(&received, allocator);
    give_back(allocator, block, size);
    if (send->runs != NULL && recv->runs != NULL)
        return true;
    if (send->runs != NULL)
        give_back(allocator, send->runs, (size_t)send->count * sizeof *send->runs);
    if (recv->runs != NULL)
        give_back(allocator, recv->runs, (size_t)recv->count * sizeof *recv->runs);
    return false;
}

cpr_status cpr_build_by_definition(const cpr_route_request *request, const cpr_allocator *allocator,
                                   cpr_route **route, cpr_error *error) {
    const cpr_status status = check(request, error);
    if (status != CPR_OK)
        return status;
    const int64_t total = entry(&request->cu_seqlens, request->cu_seqlens.count - 1);
    cpr_route *built = take(allocator, sizeof *built);
    if (built == NULL)
        return refuse(error, CPR_NO_MEMORY, -1, 0, 0);
    *built = (cpr_route){
        .source = request->source,
        .target = request->target,
        .geometry = request->geometry,
        .total_tokens = total,
        .send = {.identity = true},
        .recv = {.identity = true},
        .allocator = *allocator,
    };
    if (total > 0 && !write_lists(request, total, allocator, &built->send, &built->recv)) {
        give_back(allocator, built, sizeof *built);
        return refuse(error, CPR_NO_MEMORY, -1, 0, 0);
    }
    *route = built;
    return CPR_OK;
}
