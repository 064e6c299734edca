/* SPDX-License-Identifier: Apache-2.0 */
#include "delta_world.h"
#include "oracle.h"
#include "subject.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const delta_engine the_delta_engine = {delta_forward, delta_backward, delta_mode_from_name};

static const scalar UNTOUCHED = -12345.678; /* of no kind's results: those of the field are not negative */

/*==============================================================================
 * MARK: - Numbers
 *============================================================================*/

static scalar *numbers_new(scratch *memory, int64_t count, scalar filling) {
    scalar *made = scratch_bytes(memory, (size_t)count * sizeof *made);
    for (int64_t i = 0; made && i < count; i++)
        made[i] = filling;
    return made;
}

static scalar **shards_new(const delta_world *w, int64_t rows, int64_t width) {
    scalar **shards = scratch_bytes(w->memory, (size_t)w->pack->cp_size * sizeof *shards);
    for (int64_t rank = 0; shards && rank < w->pack->cp_size; rank++)
        if (!(shards[rank] = numbers_new(w->memory, rows * width, UNTOUCHED)))
            return NULL;
    return shards;
}

static void draw(const arithmetic *n, uint64_t seed, scalar *to, int64_t count) {
    uint64_t state = seed;
    for (int64_t i = 0; i < count; i++)
        to[i] = n->draw(random_next(&state));
}

static uint64_t seed_of(const delta_case *c, int64_t batch, uint64_t what) {
    uint64_t state = c->salt * 64 + (uint64_t)batch * 4 + what;
    return random_next(&state);
}

scalar *delta_world_parameters(const delta_case *c, const arithmetic *numbers, scratch *memory) {
    scalar *made = numbers_new(memory, delta_parameters(&c->shape), 0);
    if (made)
        draw(numbers, seed_of(c, 0, 0), made, delta_parameters(&c->shape));
    return made;
}

static void draw_gates(const delta_world *w, uint64_t seed) {
    const int64_t head = delta_head_width(&w->c->shape), channels = delta_channels(&w->c->shape);
    const int64_t heads = w->tokens * w->c->shape.heads;
    uint64_t state = seed;
    for (int64_t i = 0; i < heads; i++)
        for (int64_t gate = channels; gate < head; gate++)
            w->rows_in[i * head + gate] = w->layer.numbers->draw_gate(random_next(&state));
}

/*==============================================================================
 * MARK: - Ranks
 *============================================================================*/

static void spread(const delta_world *w, const scalar *sheet, int64_t width, scalar **shards) {
    for (int64_t rank = 0; rank < w->pack->cp_size; rank++)
        for (int64_t row = 0; row < w->rows; row++)
            memcpy(shards[rank] + row * width, sheet + w->token_of[rank * w->rows + row] * width,
                   (size_t)width * sizeof *sheet);
}

bool delta_world_make(delta_world *w, const delta_case *c, int64_t batch, const arithmetic *numbers,
                      const scalar *parameters, scratch *memory, verdict *v) {
    const delta_pack *pack = &c->batch[batch];
    const oracle_pack definition = {pack->cu, pack->entries, pack->cp_size};
    *w = (delta_world){.c = c, .pack = pack, .number_of_batch = batch, .memory = memory};
    w->layer = (delta_layer){numbers, c->shape, parameters};
    w->tokens = pack->cu[pack->entries - 1];
    w->rows = w->tokens / pack->cp_size;
    const int64_t width = delta_row_width(&c->shape), out = delta_output_width(&c->shape);
    w->token_of = scratch_int64(memory, w->tokens);
    w->rows_in = numbers_new(memory, w->tokens * width, 0);
    w->grads_in = numbers_new(memory, w->tokens * out, 0);
    w->rank_rows = shards_new(w, w->rows, width);
    w->rank_grads = shards_new(w, w->rows, out);
    if (!w->token_of || !w->rows_in || !w->grads_in || !w->rank_rows || !w->rank_grads)
        return subject_no_memory(v);
    for (int64_t rank = 0; rank < pack->cp_size; rank++)
        oracle_tokens(&definition, CPR_ZIGZAG, rank, w->token_of + rank * w->rows);
    draw(numbers, seed_of(c, batch, 1), w->rows_in, w->tokens * width);
    draw_gates(w, seed_of(c, batch, 2));
    draw(numbers, seed_of(c, batch, 3), w->grads_in, w->tokens * out);
    spread(w, w->rows_in, width, w->rank_rows);
    spread(w, w->grads_in, out, w->rank_grads);
    return true;
}

bool delta_world_reference(const delta_world *w, const arithmetic *numbers, delta_sheets *sheets,
                           verdict *v) {
    const delta_shape *s = &w->c->shape;
    delta_layer layer = w->layer;
    layer.numbers = numbers;
    int64_t *first = scratch_int64(w->memory, w->tokens);
    sheets->outputs = numbers_new(w->memory, w->tokens * delta_output_width(s), 0);
    sheets->row_grads = numbers_new(w->memory, w->tokens * delta_row_width(s), 0);
    sheets->parameter_grads = numbers_new(w->memory, delta_parameters(s), 0);
    if (!first || !sheets->outputs || !sheets->row_grads || !sheets->parameter_grads)
        return subject_no_memory(v);
    delta_first_tokens(w->pack->cu, w->pack->entries, first);
    return (delta_reference(&layer, first, w->tokens, w->rows_in, sheets->outputs) &&
            delta_reference_back(&layer, first, w->tokens, w->rows_in, w->grads_in, sheets->row_grads,
                                 sheets->parameter_grads)) ||
           subject_no_memory(v);
}

bool delta_world_shards(const delta_world *w, delta_shards *shards, verdict *v) {
    shards->outputs = shards_new(w, w->rows, delta_output_width(&w->c->shape));
    shards->row_grads = shards_new(w, w->rows, delta_row_width(&w->c->shape));
    shards->parameter_grads = shards_new(w, delta_parameters(&w->c->shape), 1);
    return (shards->outputs && shards->row_grads && shards->parameter_grads) || subject_no_memory(v);
}

static bool filled(const scalar *numbers, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (numbers[i] != UNTOUCHED)
            return false;
    return true;
}

bool delta_world_untouched(const delta_world *w, const delta_shards *shards, const char *when, verdict *v) {
    for (int64_t rank = 0; rank < w->pack->cp_size; rank++)
        if (!filled(shards->outputs[rank], w->rows * delta_output_width(&w->c->shape)) ||
            !filled(shards->row_grads[rank], w->rows * delta_row_width(&w->c->shape)) ||
            !filled(shards->parameter_grads[rank], delta_parameters(&w->c->shape)))
            return law_fail(v, "an output is touched on failure", "%s: rank %" PRId64, when, rank);
    return true;
}

/*==============================================================================
 * MARK: - Comparing
 *============================================================================*/

/* Far below what is rounded away, and far above what underflows in a float. */
static const scalar UNDERFLOW = 0x1p-100;

static bool is_near(scalar got, scalar wanted, const scalar *bound) {
    return bound ? fabs(got - wanted) <= *bound + UNDERFLOW : got == wanted;
}

/* `row` counts the rows of the rank; `at` is the place of the right number and of its bound. */
static bool same_row(const delta_world *w, int64_t rank, int64_t row, const scalar *got, const scalar *wanted,
                     const scalar *bound, int64_t width, const char *reason, verdict *v) {
    for (int64_t i = 0; i < width; i++)
        if (!is_near(got[i], wanted[i], bound ? &bound[i] : NULL))
            return law_fail(v, reason,
                            "micro-batch %" PRId64 ", %s on %" PRId64 " ranks, %s, rank %" PRId64
                            " row %" PRId64 " number %" PRId64
                            ": %.10g, on one rank %.10g, may differ by %.3g",
                            w->number_of_batch, delta_mode_name(w->pack->mode), w->pack->cp_size,
                            w->layer.numbers->name, rank, row, i, got[i], wanted[i], bound ? bound[i] : 0);
    return true;
}

static bool same_tokens(const delta_world *w, scalar *const *got, const scalar *wanted, const scalar *bound,
                        int64_t width, const char *reason, verdict *v) {
    for (int64_t rank = 0; rank < w->pack->cp_size; rank++)
        for (int64_t row = 0; row < w->rows; row++) {
            const int64_t at = w->token_of[rank * w->rows + row] * width;
            if (!same_row(w, rank, row, got[rank] + row * width, wanted + at, bound ? bound + at : NULL,
                          width, reason, v))
                return false;
        }
    return true;
}

bool delta_world_same_outputs(const delta_world *w, const delta_shards *got, const delta_sheets *wanted,
                              const delta_sheets *bound, verdict *v) {
    return same_tokens(w, got->outputs, wanted->outputs, bound ? bound->outputs : NULL,
                       delta_output_width(&w->c->shape), "outputs are not those of one rank", v);
}

bool delta_world_same_grads(const delta_world *w, const delta_shards *got, const delta_sheets *wanted,
                            const delta_sheets *bound, verdict *v) {
    const delta_shape *s = &w->c->shape;
    if (!same_tokens(w, got->row_grads, wanted->row_grads, bound ? bound->row_grads : NULL,
                     delta_row_width(s), "gradients of rows are not those of one rank", v))
        return false;
    for (int64_t rank = 0; rank < w->pack->cp_size; rank++)
        if (!same_row(w, rank, 0, got->parameter_grads[rank], wanted->parameter_grads,
                      bound ? bound->parameter_grads : NULL, delta_parameters(s),
                      "gradients of parameters are not those of one rank", v))
            return false;
    return true;
}

bool delta_refused(const delta_error *got, const delta_error *wanted, const char *call, verdict *v) {
    const cpr_error *a = &got->route, *b = &wanted->route;
    if (got->status == wanted->status && got->got == wanted->got && got->wanted == wanted->wanted &&
        a->status == b->status && a->index == b->index && a->got == b->got && a->wanted == b->wanted)
        return true;
    return law_fail(v, "not the error that is expected",
                    "%s: %s, got %" PRId64 " want %" PRId64 ", route [%" PRId64 "] got %" PRId64
                    " want %" PRId64 "; expected %s, got %" PRId64 " want %" PRId64 ", route [%" PRId64
                    "] got %" PRId64 " want %" PRId64,
                    call, delta_error_name(got), got->got, got->wanted, a->index, a->got, a->wanted,
                    delta_error_name(wanted), wanted->got, wanted->wanted, b->index, b->got, b->wanted);
}

bool delta_world_forward(const delta_world *w, const delta_engine *engine, delta_group *group,
                         const delta_shards *shards, verdict *v) {
    const delta_batch batch = delta_batch_of(w->pack);
    const delta_error none = {.status = DELTA_OK};
    delta_error error;
    engine->forward(group, &w->layer, &batch, (const scalar *const *)w->rank_rows, shards->outputs, &error);
    return delta_refused(&error, &none, "forward", v);
}

bool delta_world_backward(const delta_world *w, const delta_engine *engine, delta_group *group,
                          const delta_shards *shards, verdict *v) {
    const delta_batch batch = delta_batch_of(w->pack);
    const delta_error none = {.status = DELTA_OK};
    delta_error error;
    engine->backward(group, &w->layer, &batch, (const scalar *const *)w->rank_rows,
                     (const scalar *const *)w->rank_grads, shards->row_grads, shards->parameter_grads,
                     &error);
    return delta_refused(&error, &none, "backward", v);
}

bool delta_world_group(const delta_case *c, delta_group **group, verdict *v) {
    delta_error error;
    for (int64_t i = 0; i < c->batches; i++)
        if (delta_expected(&c->shape, &c->batch[i]).status != DELTA_OK)
            return law_skip(v, "a micro-batch is wrong on purpose");
    return delta_group_create(NULL, group, &error) == DELTA_OK || subject_no_memory(v);
}
