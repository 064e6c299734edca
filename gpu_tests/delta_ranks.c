/* SPDX-License-Identifier: Apache-2.0 */
#include "delta_ranks.h"

#include <stdlib.h>
#include <string.h>

/*==============================================================================
 * MARK: - Memory
 *============================================================================*/

static void *take(delta_ranks *r, int64_t count, size_t each) {
    if (r->allocations == DELTA_MOST_ALLOCATIONS) {
        stage_fail(r->stage, "more than %d allocations", DELTA_MOST_ALLOCATIONS);
        return NULL;
    }
    void *memory = stage_allocate(r->stage, (size_t)count * each);
    r->memory[r->allocations] = memory;
    r->allocations += memory != NULL;
    return memory;
}

/* Of rank first + i: `number` 0 or 1. */
static void *take_shared(delta_ranks *r, int64_t i, int number, int64_t count, size_t each) {
    return r->shared[i][number] = stage_allocate_shared(r->stage, (size_t)count * each);
}

static void *take_numbers(delta_ranks *r, int64_t count) {
    return take(r, count, DELTA_NUMBER_BYTES);
}

/* A copy on the device; waits, as `from` may be gone then. */
static void *upload(delta_ranks *r, const void *from, int64_t count, size_t each) {
    void *to = take(r, count, each);
    const bool there =
        to && (count == 0 || CUDA_TRY(r->stage, cudaMemcpyAsync(to, from, (size_t)count * each,
                                                                cudaMemcpyHostToDevice, r->stage->stream)));
    return there && stage_wait(r->stage) ? to : NULL;
}

static bool upload_first_tokens(delta_ranks *r, const pack *p) {
    int64_t *first = malloc((size_t)(r->tokens + 1) * sizeof *first);
    if (!first)
        return stage_fail(r->stage, "no memory for tokens");
    delta_first_tokens(p->cu, p->entries, first);
    r->first = upload(r, first, r->tokens, sizeof *first);
    free(first);
    return r->first;
}

static bool list_zigzag(const delta_ranks *r, const pack *p, int64_t *token_of) {
    const cpr_cu_seqlens cu = cpr_cu_seqlens_int64(p->cu, p->entries);
    for (int64_t rank = 0; rank < r->stage->cp_size; rank++) {
        cpr_intervals *share;
        cpr_error error;
        const cpr_geometry geometry = {.cp_size = r->stage->cp_size, .cp_rank = rank};
        if (!stage_cpr(r->stage,
                       cpr_layout_intervals(&cu, r->tokens, geometry, CPR_ZIGZAG, NULL, &share, &error),
                       &error, p->name))
            return false;
        for (int64_t i = 0; i < share->count; i++)
            for (int64_t token = share->items[i].begin; token < share->items[i].end; token++)
                *token_of++ = token;
        cpr_intervals_free(share);
    }
    return true;
}

static bool upload_zigzag(delta_ranks *r, const pack *p) {
    int64_t *token_of = malloc((size_t)(r->tokens + 1) * sizeof *token_of);
    if (!token_of)
        return stage_fail(r->stage, "no memory for tokens");
    if (list_zigzag(r, p, token_of))
        r->token_of = upload(r, token_of, r->tokens, sizeof *token_of);
    free(token_of);
    return r->token_of;
}

/*==============================================================================
 * MARK: - Chunks
 *============================================================================*/

static bool is_chunkwise(const delta_ranks *r) {
    return r->plan.mode == DELTA_CHUNKWISE;
}

static delta_shape shape_of(const delta_chunk *c) {
    return (delta_shape){c->heads, c->keys, c->values, c->taps};
}

/* The part of rank first + i: some tokens and all heads, or all tokens and some heads, or all of everything. */
static delta_chunk chunk_of(const delta_ranks *r, int64_t i) {
    const delta_plan *p = &r->plan;
    const int64_t ranks = r->stage->cp_size, rank = r->stage->first + i;
    delta_chunk c = {.kind = p->kind,
                     .heads = p->shape.heads,
                     .keys = p->shape.keys,
                     .values = p->shape.values,
                     .taps = p->shape.taps,
                     .ranks = 1,
                     .count = r->tokens,
                     .segment = p->segment};
    if (p->mode == DELTA_CHUNKWISE) {
        c.rank = rank;
        c.ranks = ranks;
        c.begin = rank * r->rows;
        c.count = r->rows;
        c.halo = p->shape.taps - 1;
    } else if (p->mode == DELTA_HEADWISE)
        c.heads /= ranks;
    c.first = r->first + c.begin;
    c.parameters = r->parameters;
    if (p->mode == DELTA_HEADWISE) {
        const delta_shape own = shape_of(&c);
        c.parameters = (const char *)r->parameters + rank * delta_parameters(&own) * DELTA_NUMBER_BYTES;
    }
    return c;
}

/* False once something is NULL. */
static bool all_there(void *const *pointers, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!pointers[i])
            return false;
    return true;
}

static bool open_chunk(delta_ranks *r, int64_t i) {
    delta_chunk *c = &r->chunks[i];
    *c = chunk_of(r, i);
    const delta_shape s = shape_of(c);
    const size_t stored = delta_stored_bytes(c->kind);
    const int64_t width = delta_row_width(&s), outputs = delta_output_width(&s), state = delta_state_size(&s);
    const int64_t map = s.heads * (s.values + s.keys) * s.keys, parameters = delta_parameters(&s);
    const int64_t segments = (c->count + c->segment - 1) / c->segment;
    void *const all[] = {
        c->rows = take_shared(r, i, 0, (c->halo + c->count) * width, stored),
        c->mixed = take_numbers(r, c->count * width),
        c->map = take_numbers(r, map),
        c->entry = take_numbers(r, state),
        c->checkpoints = take_numbers(r, segments * state),
        c->outputs = take(r, c->count * outputs, stored),
        r->output_grads[i] = take_shared(r, i, 1, c->count * outputs, stored),
        c->entry_grad = take_numbers(r, state),
        c->exit_grad = take_numbers(r, state),
        c->states = take_numbers(r, c->segment * state),
        c->parts = take_numbers(r, s.heads * c->segment * (s.values + s.keys)),
        c->mixed_grads = take_numbers(r, c->count * width),
        c->row_grads = take_numbers(r, (c->halo + c->count) * width),
        c->stored_row_grads = take(r, c->count * width, stored),
        c->parameter_parts = take_numbers(r, DELTA_SLICES * parameters),
        c->parameter_grads = take_numbers(r, parameters),
        r->maps[i] = take_numbers(r, c->ranks * map),
        r->entry_grads[i] = take_numbers(r, c->ranks * state),
        r->parameter_grads[i] = take_numbers(r, c->ranks * parameters),
        r->returned[i] = take_numbers(r, c->ranks * c->halo * width),
        r->sent[i] = take(r, is_chunkwise(r) ? 0 : r->tokens * width, stored),
        r->received[i] = take(r, is_chunkwise(r) ? 0 : r->tokens * width, stored),
    };
    c->output_grads = r->output_grads[i];
    c->maps = r->maps[i];
    c->entry_grads = r->entry_grads[i];
    return all_there(all, sizeof all / sizeof *all);
}

bool delta_ranks_open(delta_ranks *r, const stage *s, const delta_plan *plan) {
    memset(r, 0, sizeof *r);
    r->stage = s;
    r->plan = *plan;
    r->tokens = pack_tokens(plan->pack);
    r->rows = r->tokens / s->cp_size;
    const size_t stored = delta_stored_bytes(plan->kind);
    r->input_bytes = (size_t)delta_row_width(&plan->shape) * stored;
    r->output_bytes = (size_t)delta_output_width(&plan->shape) * stored;
    r->parameters = upload(r, plan->parameters, delta_parameters(&plan->shape), DELTA_NUMBER_BYTES);
    bool good = r->parameters && upload_first_tokens(r, plan->pack) && upload_zigzag(r, plan->pack);
    for (int64_t i = 0; good && i < s->count; i++)
        good = open_chunk(r, i);
    r->plan.pack = NULL;
    r->plan.parameters = NULL;
    return good;
}

void delta_ranks_close(delta_ranks *r) {
    for (int64_t i = 0; i < r->allocations; i++)
        cudaFree(r->memory[i]);
    for (int64_t i = 0; i < MAX_RANKS; i++)
        for (int number = 0; number < 2; number++)
            if (r->shared[i][number])
                stage_free_shared(r->stage, r->shared[i][number]);
    memset(r, 0, sizeof *r);
}

/*==============================================================================
 * MARK: - Messages
 *============================================================================*/

/* From one rank's memory to another's, in bytes. */
typedef struct message {
    size_t from, to, bytes;
} message;

/* What rank `from` has for rank `to`; `size` as each kind of talk has it. */
typedef message message_of(const delta_ranks *r, size_t size, int64_t from, int64_t to);

static message all_gather_message(const delta_ranks *r, size_t size, int64_t from, int64_t to) {
    (void)r;
    (void)to;
    return (message){0, (size_t)from * size, size};
}

static message all_to_all_message(const delta_ranks *r, size_t size, int64_t from, int64_t to) {
    (void)r;
    return (message){(size_t)to * size, (size_t)from * size, size};
}

/* Rows of `owner` that `reader` has in its halo: from which token on, and how many. */
static int64_t halo_rows(const delta_ranks *r, int64_t owner, int64_t reader, int64_t *first) {
    const int64_t halo = r->plan.shape.taps - 1, begin = reader * r->rows;
    int64_t from = begin - halo, until = (owner + 1) * r->rows;
    if (from < owner * r->rows)
        from = owner * r->rows;
    if (until > begin)
        until = begin;
    *first = from;
    return owner < reader && until > from ? until - from : 0;
}

/* Places among rows with a halo before them, of rank `rank`. */
static size_t place_of(const delta_ranks *r, int64_t rank, int64_t token, size_t size) {
    return (size_t)(token - rank * r->rows + r->plan.shape.taps - 1) * size;
}

static message halo_message(const delta_ranks *r, size_t size, int64_t from, int64_t to) {
    int64_t first;
    const size_t bytes = (size_t)halo_rows(r, from, to, &first) * size;
    return (message){place_of(r, from, first, size), place_of(r, to, first, size), bytes};
}

/* Back to whose rows they are, where every reader has a place of its own. */
static message returned_message(const delta_ranks *r, size_t size, int64_t from, int64_t to) {
    int64_t first;
    const size_t bytes = (size_t)halo_rows(r, to, from, &first) * size;
    const size_t halo = (size_t)(r->plan.shape.taps - 1) * size;
    return (message){place_of(r, from, first, size), (size_t)from * halo, bytes};
}

static char *at(void *memory, size_t offset) {
    return (char *)memory + offset;
}

static bool copy_message(const delta_ranks *r, const message *m, void *from, void *to) {
    return m->bytes == 0 || CUDA_TRY(r->stage, cudaMemcpyAsync(at(to, m->to), at(from, m->from), m->bytes,
                                                               cudaMemcpyDeviceToDevice, r->stage->stream));
}

static bool tell_simulated(const delta_ranks *r, message_of *of, size_t size, void *const *from,
                           void *const *to) {
    for (int64_t a = 0; a < r->stage->cp_size; a++)
        for (int64_t b = 0; b < r->stage->cp_size; b++) {
            const message m = of(r, size, a, b);
            if (!copy_message(r, &m, from[a], to[b]))
                return false;
        }
    return true;
}

static bool send_and_receive(const delta_ranks *r, message_of *of, size_t size, void *from, void *to) {
    const stage *s = r->stage;
    for (int64_t peer = 0; peer < s->cp_size; peer++) {
        if (peer == s->first)
            continue;
        const message out = of(r, size, s->first, peer), in = of(r, size, peer, s->first);
        if ((out.bytes && !NCCL_TRY(s, ncclSend(at(from, out.from), out.bytes, ncclInt8, (int)peer, s->comm,
                                                s->stream))) ||
            (in.bytes &&
             !NCCL_TRY(s, ncclRecv(at(to, in.to), in.bytes, ncclInt8, (int)peer, s->comm, s->stream))))
            return false;
    }
    return true;
}

/* Collective. from[i] and to[i] belong to rank first + i. */
static bool tell(const delta_ranks *r, message_of *of, size_t size, void *const *from, void *const *to) {
    const stage *s = r->stage;
    if (!s->real)
        return tell_simulated(r, of, size, from, to);
    const message own = of(r, size, s->first, s->first);
    return copy_message(r, &own, from[0], to[0]) && NCCL_TRY(s, ncclGroupStart()) &&
           send_and_receive(r, of, size, from[0], to[0]) && NCCL_TRY(s, ncclGroupEnd());
}

static bool all_gather(const delta_ranks *r, size_t bytes, void *const *from, void *const *to) {
    const stage *s = r->stage;
    if (!s->real || bytes == 0)
        return tell(r, all_gather_message, bytes, from, to);
    return NCCL_TRY(s, ncclAllGather(from[0], to[0], bytes, ncclInt8, s->comm, s->stream));
}

/*==============================================================================
 * MARK: - Rows between layouts
 *============================================================================*/

static bool watched(const delta_ranks *r, bool begin) {
    const delta_watch *w = &r->plan.watch;
    return !w->moves || w->moves(w->context, begin);
}

static bool convert(const delta_ranks *r, bool inputs, bool to_contiguous, void *const *from,
                    void *const *to) {
    const delta_converter *c = &r->plan.converter;
    return watched(r, true) && c->run(c->context, inputs, to_contiguous, from, to) && watched(r, false);
}

static bool move_columns(const delta_ranks *r, const delta_columns *c) {
    return CUDA_TRY(r->stage, delta_move_columns(c, r->stage->stream));
}

/* A row in as many parts as there are ranks, part p of all rows before part p + 1 of any; or back. */
static bool split_rows(const delta_ranks *r, bool back, size_t row_bytes, void *whole, void *parts) {
    const size_t part_bytes = row_bytes / (size_t)r->stage->cp_size;
    for (int64_t p = 0; p < r->stage->cp_size; p++) {
        char *column = at(whole, (size_t)p * part_bytes);
        char *part = at(parts, (size_t)(p * r->rows) * part_bytes);
        const delta_columns c = {.from = back ? part : column,
                                 .to = back ? column : part,
                                 .from_row_bytes = back ? part_bytes : row_bytes,
                                 .to_row_bytes = back ? row_bytes : part_bytes,
                                 .bytes = part_bytes,
                                 .rows = r->rows};
        if (!move_columns(r, &c))
            return false;
    }
    return true;
}

/* Whole rows from all ranks in turn, each in zigzag, into the order of time. */
static bool put_in_order(const delta_ranks *r, size_t row_bytes, void *zigzag, void *ordered) {
    const delta_columns c = {.from = zigzag,
                             .to = ordered,
                             .from_row_bytes = row_bytes,
                             .to_row_bytes = row_bytes,
                             .bytes = row_bytes,
                             .rows = r->tokens,
                             .to_list = r->token_of};
    return move_columns(r, &c);
}

/* Rows of some ranks in zigzag out of those in the order of time. */
static bool take_out(const delta_ranks *r, size_t row_bytes, int64_t rank, int64_t ranks, void *ordered,
                     void *zigzag) {
    const delta_columns c = {.from = ordered,
                             .to = zigzag,
                             .from_row_bytes = row_bytes,
                             .to_row_bytes = row_bytes,
                             .bytes = row_bytes,
                             .rows = ranks * r->rows,
                             .from_list = r->token_of + rank * r->rows};
    return move_columns(r, &c);
}

/* What every rank needs of all ranks' rows, in the order of time: some heads, or everything. */
static bool spread(delta_ranks *r, size_t row_bytes, void *const *rows, void *const *ordered) {
    const int64_t count = r->stage->count;
    const bool headwise = r->plan.mode == DELTA_HEADWISE;
    const size_t share_bytes = headwise ? row_bytes / (size_t)r->stage->cp_size : row_bytes;
    const size_t bytes = (size_t)r->rows * share_bytes;
    bool good = watched(r, true);
    for (int64_t i = 0; good && headwise && i < count; i++)
        good = split_rows(r, false, row_bytes, rows[i], r->sent[i]);
    good = good && (headwise ? tell(r, all_to_all_message, bytes, r->sent, r->received)
                             : all_gather(r, bytes, rows, r->received));
    for (int64_t i = 0; good && i < count; i++)
        good = put_in_order(r, share_bytes, r->received[i], ordered[i]);
    return good && watched(r, false);
}

/* The other way: every rank's own rows, of all heads. */
static bool collect(delta_ranks *r, size_t row_bytes, void *const *ordered, void *const *rows) {
    const int64_t count = r->stage->count, ranks = r->stage->cp_size;
    const size_t share_bytes = row_bytes / (size_t)ranks;
    bool good = watched(r, true);
    if (r->plan.mode == DELTA_ALL_GATHER) {
        for (int64_t i = 0; good && i < count; i++)
            good = take_out(r, row_bytes, r->stage->first + i, 1, ordered[i], rows[i]);
        return good && watched(r, false);
    }
    for (int64_t i = 0; good && i < count; i++)
        good = take_out(r, share_bytes, 0, ranks, ordered[i], r->sent[i]);
    good = good && tell(r, all_to_all_message, (size_t)r->rows * share_bytes, r->sent, r->received);
    for (int64_t i = 0; good && i < count; i++)
        good = split_rows(r, true, row_bytes, rows[i], r->received[i]);
    return good && watched(r, false);
}

/*==============================================================================
 * MARK: - All chunks
 *============================================================================*/

typedef cudaError_t chunk_work(const delta_chunk *c, cudaStream_t stream);

static bool each_does(const delta_ranks *r, chunk_work *const *works, size_t count) {
    for (int64_t i = 0; i < r->stage->count; i++)
        for (size_t w = 0; w < count; w++)
            if (!CUDA_TRY(r->stage, works[w](&r->chunks[i], r->stage->stream)))
                return false;
    return true;
}
#define EACH_DOES(r, ...)                                                                                    \
    each_does(r, (chunk_work *const[]){__VA_ARGS__},                                                         \
              sizeof((chunk_work *const[]){__VA_ARGS__}) / sizeof(chunk_work *))

/* One field of every chunk, behind so many bytes. */
typedef struct fields {
    void *of[MAX_RANKS];
} fields;

static fields fields_of(const delta_ranks *r, size_t offset, size_t bytes) {
    fields f;
    for (int64_t i = 0; i < r->stage->count; i++) {
        void *field;
        memcpy(&field, (const char *)&r->chunks[i] + offset, sizeof field);
        f.of[i] = at(field, bytes);
    }
    return f;
}
#define FIELDS(r, name, bytes) fields_of(r, offsetof(delta_chunk, name), bytes).of

static size_t halo_bytes(const delta_ranks *r, size_t row_bytes) {
    return is_chunkwise(r) ? (size_t)(r->plan.shape.taps - 1) * row_bytes : 0;
}

static size_t state_bytes(const delta_ranks *r) {
    return (size_t)delta_state_size(&r->plan.shape) * DELTA_NUMBER_BYTES;
}

static size_t map_bytes(const delta_ranks *r) {
    const delta_shape *s = &r->plan.shape;
    return (size_t)(s->heads * (s->values + s->keys) * s->keys) * DELTA_NUMBER_BYTES;
}

/* Adds what readers on other ranks have for the rows of this one. */
static bool add_returned(const delta_ranks *r, int64_t i) {
    const delta_chunk *c = &r->chunks[i];
    const int64_t owner = r->stage->first + i, width = delta_row_width(&r->plan.shape);
    const size_t row_bytes = (size_t)width * DELTA_NUMBER_BYTES;
    for (int64_t reader = r->stage->cp_size - 1; reader > owner; reader--) {
        int64_t first;
        const int64_t rows = halo_rows(r, owner, reader, &first);
        const char *from = at(r->returned[i], (size_t)(reader * c->halo) * row_bytes);
        if (rows > 0 && !CUDA_TRY(r->stage, delta_add(c->kind, from,
                                                      at(c->row_grads, place_of(r, owner, first, row_bytes)),
                                                      rows * width, r->stage->stream)))
            return false;
    }
    return true;
}

static bool return_halos(const delta_ranks *r) {
    const size_t row_bytes = (size_t)delta_row_width(&r->plan.shape) * DELTA_NUMBER_BYTES;
    bool good = tell(r, returned_message, row_bytes, FIELDS(r, row_grads, 0), r->returned);
    for (int64_t i = 0; good && i < r->stage->count; i++)
        good = add_returned(r, i);
    return good;
}

static bool chunkwise_forward(delta_ranks *r, void *const *rows, void *const *outputs) {
    return convert(r, true, true, rows, FIELDS(r, rows, halo_bytes(r, r->input_bytes))) &&
           tell(r, halo_message, r->input_bytes, FIELDS(r, rows, 0), FIELDS(r, rows, 0)) &&
           EACH_DOES(r, delta_mix_rows, delta_find_map) &&
           all_gather(r, map_bytes(r), FIELDS(r, map, 0), r->maps) &&
           EACH_DOES(r, delta_fold_maps, delta_run) &&
           convert(r, false, false, FIELDS(r, outputs, 0), outputs);
}

static bool chunkwise_backward(delta_ranks *r, void *const *output_grads, void *const *row_grads) {
    return convert(r, false, true, output_grads, r->output_grads) && EACH_DOES(r, delta_find_grad) &&
           all_gather(r, state_bytes(r), FIELDS(r, entry_grad, 0), r->entry_grads) &&
           EACH_DOES(r, delta_fold_grads, delta_run_back, delta_unmix_rows, delta_sum_parameters) &&
           return_halos(r) && EACH_DOES(r, delta_store_grads) &&
           convert(r, true, false, FIELDS(r, stored_row_grads, 0), row_grads);
}

/* Nothing is before or behind a chunk that has all tokens: folding gives zeros. */
static bool whole_forward(delta_ranks *r, void *const *rows, void *const *outputs) {
    return spread(r, r->input_bytes, rows, FIELDS(r, rows, 0)) &&
           EACH_DOES(r, delta_mix_rows, delta_fold_maps, delta_run) &&
           collect(r, r->output_bytes, FIELDS(r, outputs, 0), outputs);
}

static bool whole_backward(delta_ranks *r, void *const *output_grads, void *const *row_grads) {
    return spread(r, r->output_bytes, output_grads, r->output_grads) &&
           EACH_DOES(r, delta_fold_grads, delta_run_back, delta_unmix_rows, delta_store_grads,
                     delta_sum_parameters) &&
           collect(r, r->input_bytes, FIELDS(r, stored_row_grads, 0), row_grads);
}

bool delta_ranks_forward(delta_ranks *r, void *const *rows, void *const *outputs) {
    return is_chunkwise(r) ? chunkwise_forward(r, rows, outputs) : whole_forward(r, rows, outputs);
}

/* Of parameters every rank has a term of the sum in chunkwise, some heads in headwise, and all of it in all_gather. */
static bool reduce_parameters(delta_ranks *r, void *const *parameter_grads) {
    const stage *s = r->stage;
    const int64_t count = delta_parameters(&r->plan.shape);
    const size_t bytes = (size_t)count * DELTA_NUMBER_BYTES;
    if (r->plan.mode == DELTA_HEADWISE)
        return all_gather(r, bytes / (size_t)s->cp_size, FIELDS(r, parameter_grads, 0), parameter_grads);
    if (is_chunkwise(r) && !all_gather(r, bytes, FIELDS(r, parameter_grads, 0), r->parameter_grads))
        return false;
    for (int64_t i = 0; i < s->count; i++) {
        const delta_chunk *c = &r->chunks[i];
        const void *terms = is_chunkwise(r) ? r->parameter_grads[i] : c->parameter_grads;
        if (!CUDA_TRY(s, delta_sum(c->kind, terms, c->ranks, parameter_grads[i], count, s->stream)))
            return false;
    }
    return true;
}

bool delta_ranks_backward(delta_ranks *r, void *const *output_grads, void *const *row_grads,
                          void *const *parameter_grads) {
    return (is_chunkwise(r) ? chunkwise_backward(r, output_grads, row_grads)
                            : whole_backward(r, output_grads, row_grads)) &&
           reduce_parameters(r, parameter_grads);
}
