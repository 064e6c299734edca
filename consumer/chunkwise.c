/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contiguous time on every rank. A token takes each row s of the state to s A + b, with A and b its own, so a rank's whole chunk
 * takes it to s M + B. Both are found without knowing s, by the steps themselves: from rows of the identity, of value 0, they
 * make M; from zero rows, of the values, B. Where a sequence begins, M becomes 0: what was before does not matter.
 *
 * Backwards likewise: with G the gradient of the state behind the chunk, the one before it is G M^T + C.
 */
#include "ranks.h"

#include <string.h>

/* One rank's chunk. */
typedef struct chunk {
    int64_t begin; /* its first token */
    int64_t halo;  /* rows of tokens before it, at the front of `rows` */
    scalar *rows;  /* contiguous */
    scalar *mixed;
    scalar *map;        /* B and then M of each head: (values + keys) x keys */
    scalar *entry;      /* the state before its first token */
    scalar *states;     /* before each token, and after the last */
    scalar *row_grads;  /* as rows */
    scalar *exit_grad;  /* of the state after its last token, from later chunks */
    scalar *entry_grad; /* of the state before its first token, C to begin with */
    scalar *parameter_grads;
} chunk;

static int64_t map_size(const delta_shape *s) {
    return s->heads * (s->values + s->keys) * s->keys;
}

static bool chunk_make(ranks *r, int64_t rank, chunk *c) {
    const delta_shape *s = &r->layer->shape;
    const int64_t width = delta_row_width(s), state = delta_state_size(s);
    c->begin = rank * r->rows;
    c->halo = s->taps - 1;
    return (c->rows = ranks_numbers(r, (c->halo + r->rows) * width)) &&
           (c->mixed = ranks_numbers(r, r->rows * width)) && (c->map = ranks_numbers(r, map_size(s))) &&
           (c->entry = ranks_numbers(r, state)) && (c->states = ranks_numbers(r, (r->rows + 1) * state)) &&
           (c->row_grads = ranks_numbers(r, (c->halo + r->rows) * width)) &&
           (c->exit_grad = ranks_numbers(r, state)) && (c->entry_grad = ranks_numbers(r, state)) &&
           (c->parameter_grads = ranks_numbers(r, delta_parameters(s)));
}

static chunk *chunks_make(ranks *r) {
    chunk *chunks = ranks_bytes(r, r->size, sizeof *chunks);
    for (int64_t rank = 0; chunks && rank < r->size; rank++)
        if (!chunk_make(r, rank, &chunks[rank]))
            return NULL;
    return chunks;
}

static scalar *own_rows(const ranks *r, const chunk *c, scalar *rows) {
    return rows + c->halo * delta_row_width(&r->layer->shape);
}

static bool begins_sequence(const ranks *r, int64_t token) {
    return r->first[token] == token;
}

/*==============================================================================
 * MARK: - Convolution and its halo
 *============================================================================*/

/* The row that token has on its rank, among `rows` or `row_grads`. */
static scalar *row_of(const ranks *r, chunk *chunks, int64_t token, bool grads) {
    chunk *owner = &chunks[token / r->rows];
    scalar *rows = own_rows(r, owner, grads ? owner->row_grads : owner->rows);
    return rows + token % r->rows * delta_row_width(&r->layer->shape);
}

/* The last rows of the ranks before: of several, where chunks are shorter than the convolution. */
static void fetch_halos(const ranks *r, chunk *chunks) {
    const int64_t width = delta_row_width(&r->layer->shape);
    for (int64_t rank = 0; r->rows > 0 && rank < r->size; rank++) {
        chunk *c = &chunks[rank];
        for (int64_t back = 1; back <= c->halo && back <= c->begin; back++)
            memcpy(own_rows(r, c, c->rows) - back * width, row_of(r, chunks, c->begin - back, false),
                   (size_t)width * sizeof(scalar));
    }
}

/* The gradients of the halo go back to whose rows they are. */
static void return_halos(const ranks *r, chunk *chunks) {
    const int64_t width = delta_row_width(&r->layer->shape);
    const arithmetic *n = r->layer->numbers;
    for (int64_t rank = 0; r->rows > 0 && rank < r->size; rank++) {
        chunk *c = &chunks[rank];
        for (int64_t back = 1; back <= c->halo && back <= c->begin; back++) {
            scalar *to = row_of(r, chunks, c->begin - back, true);
            const scalar *from = own_rows(r, c, c->row_grads) - back * width;
            for (int64_t i = 0; i < width; i++)
                to[i] = n->add(to[i], from[i]);
        }
    }
}

static void mix(const ranks *r, chunk *c) {
    const int64_t width = delta_row_width(&r->layer->shape);
    for (int64_t i = 0; i < r->rows; i++) {
        const int64_t token = c->begin + i;
        delta_mix(r->layer, own_rows(r, c, c->rows) + i * width, token - r->first[token],
                  c->mixed + i * width);
    }
}

/*==============================================================================
 * MARK: - Maps
 *============================================================================*/

static void map_of_nothing(const delta_shape *s, scalar *map) {
    memset(map, 0, (size_t)map_size(s) * sizeof *map);
    for (int64_t head = 0; head < s->heads; head++, map += (s->values + s->keys) * s->keys)
        for (int64_t i = 0; i < s->keys; i++)
            map[(s->values + i) * s->keys + i] = 1;
}

static void map_token(const delta_layer *layer, const scalar *mixed, scalar *map) {
    const delta_shape *s = &layer->shape;
    for (int64_t head = 0; head < s->heads; head++) {
        const delta_head token = delta_head_of(layer, mixed, head);
        for (int64_t i = 0; i < s->values + s->keys; i++, map += s->keys)
            delta_step(layer->numbers, &token, i < s->values ? token.value[i] : 0, s->keys, map);
    }
}

static void find_map(const ranks *r, chunk *c) {
    const delta_shape *s = &r->layer->shape;
    map_of_nothing(s, c->map);
    for (int64_t i = 0; i < r->rows; i++) {
        if (begins_sequence(r, c->begin + i))
            memset(c->map, 0, (size_t)map_size(s) * sizeof *c->map);
        map_token(r->layer, c->mixed + i * delta_row_width(s), c->map);
    }
}

/* state = state M + B */
static void apply_map(const delta_layer *layer, const scalar *map, scalar *state) {
    const arithmetic *n = layer->numbers;
    const int64_t keys = layer->shape.keys, values = layer->shape.values;
    scalar made[DELTA_MOST_KEYS];
    for (int64_t head = 0; head < layer->shape.heads; head++, map += (values + keys) * keys) {
        const scalar *matrix = map + values * keys;
        for (int64_t v = 0; v < values; v++, state += keys) {
            memcpy(made, map + v * keys, (size_t)keys * sizeof *made);
            for (int64_t i = 0; i < keys; i++)
                for (int64_t j = 0; j < keys; j++)
                    made[j] = n->add(made[j], n->multiply(state[i], matrix[i * keys + j]));
            memcpy(state, made, (size_t)keys * sizeof *made);
        }
    }
}

/* grad = grad M^T + C */
static void apply_map_back(const delta_layer *layer, const scalar *map, const scalar *c, scalar *grad) {
    const arithmetic *n = layer->numbers;
    const int64_t keys = layer->shape.keys, values = layer->shape.values;
    scalar made[DELTA_MOST_KEYS];
    for (int64_t head = 0; head < layer->shape.heads; head++, map += (values + keys) * keys) {
        const scalar *matrix = map + values * keys;
        for (int64_t v = 0; v < values; v++, grad += keys, c += keys) {
            memcpy(made, c, (size_t)keys * sizeof *made);
            for (int64_t i = 0; i < keys; i++)
                for (int64_t j = 0; j < keys; j++)
                    made[i] = n->add(made[i], n->multiply(grad[j], matrix[i * keys + j]));
            memcpy(grad, made, (size_t)keys * sizeof *made);
        }
    }
}

/* Every rank has all maps by then, and folds those of the ranks before it. */
static void find_entries(const ranks *r, chunk *chunks) {
    for (int64_t rank = 0; rank < r->size; rank++)
        for (int64_t before = 0; before < rank; before++)
            apply_map(r->layer, chunks[before].map, chunks[rank].entry);
}

static void find_exit_grads(const ranks *r, chunk *chunks) {
    for (int64_t rank = 0; rank < r->size; rank++)
        for (int64_t after = r->size - 1; after > rank; after--)
            apply_map_back(r->layer, chunks[after].map, chunks[after].entry_grad, chunks[rank].exit_grad);
}

/*==============================================================================
 * MARK: - A chunk with the state that enters it
 *============================================================================*/

static void run(const ranks *r, chunk *c, scalar *outputs) {
    const delta_shape *s = &r->layer->shape;
    const int64_t size = delta_state_size(s);
    memcpy(c->states, c->entry, (size_t)size * sizeof *c->states);
    for (int64_t i = 0; i < r->rows; i++) {
        scalar *state = c->states + i * size, *next = state + size;
        if (begins_sequence(r, c->begin + i))
            memset(state, 0, (size_t)size * sizeof *state);
        memcpy(next, state, (size_t)size * sizeof *state);
        delta_token(r->layer, c->mixed + i * delta_row_width(s), next, outputs + i * delta_output_width(s));
    }
}

/* Takes the gradient of the state to before the chunk; those of mixed rows are left in `mixed_grads`. */
static void run_back(const ranks *r, const chunk *c, const scalar *output_grads, scalar *state_grad,
                     scalar *mixed_grads) {
    const delta_shape *s = &r->layer->shape;
    const int64_t width = delta_row_width(s), size = delta_state_size(s);
    memset(mixed_grads, 0, (size_t)(r->rows * width) * sizeof *mixed_grads);
    for (int64_t i = r->rows - 1; i >= 0; i--) {
        delta_token_back(r->layer, c->mixed + i * width, c->states + i * size,
                         output_grads + i * delta_output_width(s), state_grad, mixed_grads + i * width);
        if (begins_sequence(r, c->begin + i))
            memset(state_grad, 0, (size_t)size * sizeof *state_grad);
    }
}

static void mix_back(const ranks *r, chunk *c, const scalar *mixed_grads) {
    const int64_t width = delta_row_width(&r->layer->shape);
    for (int64_t i = 0; i < r->rows; i++) {
        const int64_t token = c->begin + i, at = i * width;
        delta_mix_back(r->layer, own_rows(r, c, c->rows) + at, token - r->first[token], mixed_grads + at,
                       own_rows(r, c, c->row_grads) + at, c->parameter_grads);
    }
}

/*==============================================================================
 * MARK: - All chunks
 *============================================================================*/

static scalar **own_sheets(ranks *r, chunk *chunks, bool grads) {
    scalar **sheets = ranks_bytes(r, r->size, sizeof *sheets);
    for (int64_t rank = 0; sheets && rank < r->size; rank++)
        sheets[rank] = own_rows(r, &chunks[rank], grads ? chunks[rank].row_grads : chunks[rank].rows);
    return sheets;
}

/* Everything up to outputs, which are in contiguous. */
static bool run_all(ranks *r, chunk *chunks, const scalar *const *rows, scalar **outputs) {
    scalar **own = own_sheets(r, chunks, false);
    if (!own || !ranks_exchange(r, CPR_ZIGZAG, CPR_CONTIGUOUS, delta_row_width(&r->layer->shape), rows, own))
        return false;
    fetch_halos(r, chunks);
    for (int64_t rank = 0; rank < r->size; rank++) {
        mix(r, &chunks[rank]);
        find_map(r, &chunks[rank]);
    }
    find_entries(r, chunks);
    for (int64_t rank = 0; rank < r->size; rank++)
        run(r, &chunks[rank], outputs[rank]);
    return true;
}

bool chunkwise_forward(ranks *r, const scalar *const *rows, scalar *const *outputs) {
    const int64_t width = delta_output_width(&r->layer->shape);
    chunk *chunks = chunks_make(r);
    scalar **made = chunks ? ranks_sheets(r, r->rows, width) : NULL;
    return made && run_all(r, chunks, rows, made) &&
           ranks_exchange(r, CPR_CONTIGUOUS, CPR_ZIGZAG, width, (const scalar *const *)made, outputs);
}

static void run_all_back(ranks *r, chunk *chunks, scalar *const *output_grads, scalar *mixed_grads) {
    for (int64_t rank = 0; rank < r->size; rank++)
        run_back(r, &chunks[rank], output_grads[rank], chunks[rank].entry_grad, mixed_grads);
    find_exit_grads(r, chunks);
    for (int64_t rank = 0; rank < r->size; rank++) {
        run_back(r, &chunks[rank], output_grads[rank], chunks[rank].exit_grad, mixed_grads);
        mix_back(r, &chunks[rank], mixed_grads);
    }
    return_halos(r, chunks);
}

static void sum_parameter_grads(const ranks *r, const chunk *chunks, scalar *const *parameter_grads) {
    const arithmetic *n = r->layer->numbers;
    for (int64_t i = 0; i < delta_parameters(&r->layer->shape); i++) {
        scalar sum = 0;
        for (int64_t rank = 0; rank < r->size; rank++)
            sum = n->add(sum, chunks[rank].parameter_grads[i]);
        for (int64_t rank = 0; rank < r->size; rank++)
            parameter_grads[rank][i] = sum;
    }
}

bool chunkwise_backward(ranks *r, const scalar *const *rows, const scalar *const *output_grads,
                        scalar *const *row_grads, scalar *const *parameter_grads) {
    const int64_t width = delta_row_width(&r->layer->shape), out = delta_output_width(&r->layer->shape);
    chunk *chunks = chunks_make(r);
    scalar **outputs = chunks ? ranks_sheets(r, r->rows, out) : NULL;
    scalar **grads = outputs ? ranks_sheets(r, r->rows, out) : NULL;
    scalar *mixed_grads = grads ? ranks_numbers(r, r->rows * width) : NULL;
    scalar **own_grads = mixed_grads ? own_sheets(r, chunks, true) : NULL;
    if (!own_grads || !run_all(r, chunks, rows, outputs) ||
        !ranks_exchange(r, CPR_ZIGZAG, CPR_CONTIGUOUS, out, output_grads, grads))
        return false;
    run_all_back(r, chunks, grads, mixed_grads);
    sum_parameter_grads(r, chunks, parameter_grads);
    return ranks_exchange(r, CPR_CONTIGUOUS, CPR_ZIGZAG, width, (const scalar *const *)own_grads, row_grads);
}
