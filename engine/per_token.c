/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The route by index tensors, the method of Megatron-LM 3282: the tokens of every rank in local order are written
 * down for both layouts and inverted to an owner and a row of every token; a rank then looks up where its own rows
 * go and where they come from, and sorts them into messages.
 */
#include "builders.h"

#include <string.h>

/*==============================================================================
 * MARK: - The request, read and judged
 *============================================================================*/

static int64_t boundary(const cpr_cu_seqlens *view, int64_t position) {
    if (view->dtype == CPR_INT32) {
        int32_t value;
        memcpy(&value, (const unsigned char *)view->data + position * view->stride * 4, 4);
        return value;
    }
    int64_t value;
    memcpy(&value, (const unsigned char *)view->data + position * view->stride * 8, 8);
    return value;
}

static int64_t token_count(const cpr_cu_seqlens *view) {
    return boundary(view, view->count - 1);
}

static cpr_error problem(cpr_status status, int64_t index, int64_t got, int64_t wanted) {
    const cpr_error error = {status, index, got, wanted};
    return error;
}

static const cpr_error no_problem = {.status = CPR_OK, .index = -1};

static cpr_error judge_geometry(cpr_geometry geometry) {
    if (geometry.cp_size <= 0)
        return problem(CPR_BAD_CP_SIZE, -1, geometry.cp_size, 1);
    if (geometry.cp_size > CPR_CP_SIZE_MAX)
        return problem(CPR_BAD_CP_SIZE, -1, geometry.cp_size, CPR_CP_SIZE_MAX);
    if (geometry.cp_rank < 0 || geometry.cp_rank >= geometry.cp_size)
        return problem(CPR_BAD_RANK, -1, geometry.cp_rank, geometry.cp_size);
    return no_problem;
}

static cpr_error judge_layouts(const cpr_layout layouts[2]) {
    for (int which = 0; which < 2; which++) {
        const int value = (int)layouts[which];
        if (value < 0 || value >= CPR_LAYOUT_COUNT)
            return problem(CPR_BAD_LAYOUT, which, value, CPR_LAYOUT_COUNT);
    }
    return no_problem;
}

static cpr_error judge_view(const cpr_cu_seqlens *view) {
    if (view->dtype != CPR_INT32 && view->dtype != CPR_INT64)
        return problem(CPR_DTYPE, -1, (int)view->dtype, CPR_INT64);
    if (view->device != CPR_CPU)
        return problem(CPR_DEVICE, -1, (int)view->device, CPR_CPU);
    if (view->count <= 0)
        return problem(CPR_EMPTY_CU_SEQLENS, -1, view->count, 1);
    if (view->data == NULL)
        return problem(CPR_DEVICE, -1, -1, CPR_CPU);
    return no_problem;
}

static cpr_error judge_boundaries(const cpr_cu_seqlens *view, int64_t rows) {
    int64_t before = boundary(view, 0);
    if (before != 0)
        return problem(CPR_NONZERO_START, 0, before, 0);
    for (int64_t position = 1; position < view->count; position++) {
        const int64_t here = boundary(view, position);
        if (here < before)
            return problem(CPR_DECREASING, position, here, before);
        before = here;
    }
    if (rows != CPR_ROWS_UNCHECKED && rows != before)
        return problem(CPR_TOTAL_MISMATCH, -1, rows, before);
    return no_problem;
}

/* What the tokens must be divisible by, per layout; with one rank nothing. */
static const struct {
    bool each_sequence_by_chunks, stream_by_chunks, stream_by_ranks;
} rules[CPR_LAYOUT_COUNT] = {
    [CPR_ZIGZAG] = {.each_sequence_by_chunks = true},
    [CPR_CONTIGUOUS] = {.stream_by_ranks = true},
    [CPR_PER_SEQUENCE_CONTIGUOUS] = {.each_sequence_by_chunks = true},
    [CPR_FLAT_ZIGZAG] = {.stream_by_chunks = true},
    [CPR_HEADS_THEN_TAILS] = {.each_sequence_by_chunks = true},
};

static cpr_error judge_lengths(const cpr_cu_seqlens *view, int64_t ranks, cpr_layout a, cpr_layout b) {
    const int64_t chunks = 2 * ranks;
    const int64_t tokens = token_count(view);
    if (rules[a].each_sequence_by_chunks || rules[b].each_sequence_by_chunks) {
        int64_t begin = 0;
        for (int64_t sequence = 0; sequence < view->count - 1; sequence++) {
            const int64_t end = boundary(view, sequence + 1);
            if ((end - begin) % chunks != 0)
                return problem(CPR_NOT_DIVISIBLE_2CP, sequence, end - begin, chunks);
            begin = end;
        }
    }
    if ((rules[a].stream_by_chunks || rules[b].stream_by_chunks) && tokens % chunks != 0)
        return problem(CPR_NOT_DIVISIBLE_2CP, -1, tokens, chunks);
    if ((rules[a].stream_by_ranks || rules[b].stream_by_ranks) && tokens % ranks != 0)
        return problem(CPR_NOT_DIVISIBLE_CP, -1, tokens, ranks);
    return no_problem;
}

static cpr_error judge_amount(int64_t tokens, int64_t ranks, int64_t tp_size) {
    const int64_t local = tokens / ranks;
    if (tp_size < 0 || (tp_size > 1 && local % tp_size != 0))
        return problem(CPR_NOT_DIVISIBLE_CP_TP, -1, local, tp_size);
    if (tokens > CPR_ENUMERATION_MAX_TOKENS)
        return problem(CPR_OVERFLOW, -1, tokens, CPR_ENUMERATION_MAX_TOKENS);
    return no_problem;
}

static cpr_error judge(const cpr_route_request *request) {
    const cpr_cu_seqlens *view = &request->cu_seqlens;
    const int64_t ranks = request->geometry.cp_size;
    cpr_error found = judge_geometry(request->geometry);
    if (found.status == CPR_OK)
        found = judge_layouts((cpr_layout[2]){request->source, request->target});
    if (found.status == CPR_OK)
        found = judge_view(view);
    if (found.status == CPR_OK)
        found = judge_boundaries(view, request->rows);
    if (found.status == CPR_OK && ranks > 1)
        found = judge_lengths(view, ranks, request->source, request->target);
    if (found.status == CPR_OK)
        found = judge_amount(token_count(view), ranks, request->tp_size);
    return found;
}

/*==============================================================================
 * MARK: - Index tensors
 *============================================================================*/

/* The packed batch without its empty sequences. */
typedef struct pack {
    int64_t ranks;
    int64_t tokens;
    int64_t local; /* rows of every rank */
    int64_t sequences;
    int64_t *boundaries; /* sequences + 1 */
} pack;

/* A layout, both ways. */
typedef struct tensors {
    int64_t *token; /* token[rank * local + row]: every rank's index tensor, one after the other */
    int64_t *owner; /* owner[token] */
    int64_t *row;   /* row[token], at its owner */
} tensors;

/* Writes one of the 2P chunks of [begin, end); returns where the next one goes. */
static int64_t *write_chunk(int64_t *next, int64_t begin, int64_t end, int64_t chunks, int64_t chunk) {
    const int64_t size = (end - begin) / chunks;
    for (int64_t offset = 0; offset < size; offset++)
        *next++ = begin + chunk * size + offset;
    return next;
}

/* The index tensor of one rank: the token of each of its rows. */
static void write_index(const pack *p, cpr_layout layout, int64_t rank, int64_t *next) {
    const int64_t *cu = p->boundaries;
    const int64_t chunks = 2 * p->ranks;
    const int64_t mirrored = chunks - 1 - rank;

    if (p->ranks == 1 || layout == CPR_CONTIGUOUS) {
        for (int64_t row = 0; row < p->local; row++)
            next[row] = rank * p->local + row;
    } else if (layout == CPR_FLAT_ZIGZAG) {
        next = write_chunk(next, 0, p->tokens, chunks, rank);
        write_chunk(next, 0, p->tokens, chunks, mirrored);
    } else if (layout == CPR_HEADS_THEN_TAILS) {
        for (int64_t s = 0; s < p->sequences; s++)
            next = write_chunk(next, cu[s], cu[s + 1], chunks, rank);
        for (int64_t s = 0; s < p->sequences; s++)
            next = write_chunk(next, cu[s], cu[s + 1], chunks, mirrored);
    } else {
        const bool zigzag = layout == CPR_ZIGZAG;
        for (int64_t s = 0; s < p->sequences; s++) {
            next = write_chunk(next, cu[s], cu[s + 1], chunks, zigzag ? rank : 2 * rank);
            next = write_chunk(next, cu[s], cu[s + 1], chunks, zigzag ? mirrored : 2 * rank + 1);
        }
    }
}

static void write_tensors(const pack *p, cpr_layout layout, const tensors *t) {
    for (int64_t rank = 0; rank < p->ranks; rank++) {
        int64_t *index = t->token + rank * p->local;
        write_index(p, layout, rank, index);
        for (int64_t row = 0; row < p->local; row++) {
            t->owner[index[row]] = rank;
            t->row[index[row]] = row;
        }
    }
}

/*==============================================================================
 * MARK: - Messages: look up, sort, merge
 *============================================================================*/

typedef struct moved_row {
    int64_t peer;
    int64_t source_row;
    int64_t target_row;
} moved_row;

static void look_up_sends(const pack *p, int64_t rank, const tensors *source, const tensors *target,
                          moved_row *moved) {
    for (int64_t row = 0; row < p->local; row++) {
        const int64_t token = source->token[rank * p->local + row];
        moved[row] = (moved_row){target->owner[token], row, target->row[token]};
    }
}

static void look_up_receives(const pack *p, int64_t rank, const tensors *source, const tensors *target,
                             moved_row *moved) {
    for (int64_t row = 0; row < p->local; row++) {
        const int64_t token = target->token[rank * p->local + row];
        moved[row] = (moved_row){source->owner[token], source->row[token], row};
    }
}

static bool before(const moved_row *a, const moved_row *b) {
    return a->peer != b->peer ? a->peer < b->peer : a->target_row < b->target_row;
}

static void sift_down(moved_row *heap, int64_t root, int64_t count) {
    const moved_row sinking = heap[root];
    for (int64_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && before(&heap[child], &heap[child + 1]))
            child++;
        if (!before(&sinking, &heap[child]))
            break;
        heap[root] = heap[child];
    }
    heap[root] = sinking;
}

/* A heapsort, because qsort may allocate where the caller's allocator does not see it. */
static void sort(moved_row *rows, int64_t count) {
    for (int64_t root = count / 2; root-- > 0;)
        sift_down(rows, root, count);
    for (int64_t last = count - 1; last > 0; last--) {
        const moved_row largest = rows[0];
        rows[0] = rows[last];
        rows[last] = largest;
        sift_down(rows, 0, last);
    }
}

static bool goes_on(const moved_row *last, const moved_row *next) {
    return next->peer == last->peer && next->source_row == last->source_row + 1 &&
           next->target_row == last->target_row + 1;
}

static int64_t count_runs(const moved_row *rows, int64_t count) {
    int64_t runs = 1;
    for (int64_t i = 1; i < count; i++)
        runs += !goes_on(&rows[i - 1], &rows[i]);
    return runs;
}

static void write_runs(const moved_row *rows, int64_t count, cpr_run *run) {
    *run = (cpr_run){rows[0].peer, rows[0].source_row, rows[0].target_row, 1};
    for (int64_t i = 1; i < count; i++) {
        if (goes_on(&rows[i - 1], &rows[i]))
            run->length++;
        else
            *++run = (cpr_run){rows[i].peer, rows[i].source_row, rows[i].target_row, 1};
    }
}

static bool local_rows_count_up(const moved_row *rows, int64_t count, cpr_side side) {
    for (int64_t i = 0; i < count; i++) {
        if ((side == CPR_SEND ? rows[i].source_row : rows[i].target_row) != i)
            return false;
    }
    return true;
}

/*==============================================================================
 * MARK: - Putting it together
 *============================================================================*/

static size_t runs_size(const cpr_run_list *list) {
    return (size_t)list->count * sizeof(cpr_run);
}

static int64_t count_sequences(const cpr_cu_seqlens *view) {
    int64_t sequences = 0, begin = 0;
    for (int64_t i = 1; i < view->count; i++) {
        const int64_t end = boundary(view, i);
        sequences += end != begin;
        begin = end;
    }
    return sequences;
}

static void copy_boundaries(const cpr_cu_seqlens *view, int64_t *last) {
    *last = 0;
    for (int64_t i = 1; i < view->count; i++) {
        const int64_t end = boundary(view, i);
        if (end != *last)
            *++last = end;
    }
}

/* Sorts the rows into messages and writes them as a list. */
static bool list_make(cpr_run_list *list, moved_row *rows, int64_t count, cpr_side side,
                      cpr_allocator memory) {
    sort(rows, count);
    list->rows = count;
    list->identity = local_rows_count_up(rows, count, side);
    list->count = count_runs(rows, count);
    list->runs = memory.allocate(memory.context, runs_size(list));
    if (list->runs)
        write_runs(rows, count, list->runs);
    return list->runs != NULL;
}

static bool lists_make(cpr_route *route, const pack *p, const tensors *source, const tensors *target,
                       moved_row *moved) {
    const int64_t rank = route->geometry.cp_rank;
    write_tensors(p, route->source, source);
    write_tensors(p, route->target, target);
    look_up_sends(p, rank, source, target, moved);
    if (!list_make(&route->send, moved, p->local, CPR_SEND, route->allocator))
        return false;
    look_up_receives(p, rank, source, target, moved);
    if (list_make(&route->recv, moved, p->local, CPR_RECV, route->allocator))
        return true;
    route->allocator.release(route->allocator.context, route->send.runs, runs_size(&route->send));
    return false;
}

/* One block holds the boundaries, the six tensors and the rows to be sorted. */
static bool route_fill(cpr_route *route, const cpr_cu_seqlens *view) {
    const cpr_allocator memory = route->allocator;
    pack p = {.ranks = route->geometry.cp_size, .tokens = route->total_tokens};
    p.local = p.tokens / p.ranks;
    p.sequences = count_sequences(view);

    const size_t numbers = (size_t)(p.sequences + 1) + 6 * (size_t)p.tokens;
    const size_t size = numbers * sizeof(int64_t) + (size_t)p.local * sizeof(moved_row);
    int64_t *block = memory.allocate(memory.context, size);
    if (!block)
        return false;

    p.boundaries = block;
    int64_t *next = block + p.sequences + 1;
    const tensors source = {next, next + p.tokens, next + 2 * p.tokens};
    next += 3 * p.tokens;
    const tensors target = {next, next + p.tokens, next + 2 * p.tokens};
    next += 3 * p.tokens;
    copy_boundaries(view, p.boundaries);
    const bool filled = lists_make(route, &p, &source, &target, (moved_row *)next);
    memory.release(memory.context, block, size);
    return filled;
}

static cpr_route *route_make(const cpr_route_request *request, cpr_allocator memory) {
    cpr_route *route = memory.allocate(memory.context, sizeof *route);
    if (!route)
        return NULL;
    *route = (cpr_route){.source = request->source, .target = request->target, .geometry = request->geometry};
    route->total_tokens = token_count(&request->cu_seqlens);
    route->send.identity = route->recv.identity = true;
    route->allocator = memory;
    if (route->total_tokens == 0 || route_fill(route, &request->cu_seqlens))
        return route;
    memory.release(memory.context, route, sizeof *route);
    return NULL;
}

cpr_status cpr_build_per_token(const cpr_route_request *request, const cpr_allocator *allocator,
                               cpr_route **route, cpr_error *error) {
    *error = judge(request);
    if (error->status != CPR_OK)
        return error->status;
    cpr_route *made = route_make(request, *allocator);
    if (made)
        *route = made;
    else
        *error = problem(CPR_NO_MEMORY, -1, 0, 0);
    return error->status;
}
