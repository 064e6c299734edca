/* SPDX-License-Identifier: Apache-2.0 */
#include "layer.h"

#include <stdlib.h>
#include <string.h>

static scalar *zeros(int64_t count) {
    return calloc((size_t)count + 1, sizeof(scalar));
}

/* Of all tokens: mixed rows, and the state before each; states and rows are there for one token more than there is. */
static void run(const delta_layer *layer, const int64_t *first, int64_t tokens, const scalar *rows,
                scalar *mixed, scalar *states, scalar *outputs) {
    const delta_shape *shape = &layer->shape;
    const int64_t width = delta_row_width(shape), state_size = delta_state_size(shape);
    const size_t state_bytes = (size_t)state_size * sizeof(scalar);
    for (int64_t t = 0; t < tokens; t++) {
        scalar *state = states + t * state_size, *next = state + state_size;
        if (t == first[t])
            memset(state, 0, state_bytes);
        memcpy(next, state, state_bytes);
        delta_mix(layer, rows + t * width, t - first[t], mixed + t * width);
        delta_token(layer, mixed + t * width, next, outputs + t * delta_output_width(shape));
    }
}

static void run_back(const delta_layer *layer, const int64_t *first, int64_t tokens, const scalar *rows,
                     const scalar *mixed, const scalar *states, const scalar *output_grads,
                     scalar *state_grad, scalar *mixed_grad, scalar *row_grads, scalar *parameter_grads) {
    const delta_shape *shape = &layer->shape;
    const int64_t width = delta_row_width(shape), state_size = delta_state_size(shape);
    for (int64_t t = tokens - 1; t >= 0; t--) {
        memset(mixed_grad, 0, (size_t)width * sizeof *mixed_grad);
        delta_token_back(layer, mixed + t * width, states + t * state_size,
                         output_grads + t * delta_output_width(shape), state_grad, mixed_grad);
        if (t == first[t])
            memset(state_grad, 0, (size_t)state_size * sizeof *state_grad);
        delta_mix_back(layer, rows + t * width, t - first[t], mixed_grad, row_grads + t * width,
                       parameter_grads);
    }
}

bool delta_reference(const delta_layer *layer, const int64_t *first, int64_t tokens, const scalar *rows,
                     scalar *outputs) {
    scalar *mixed = zeros(tokens * delta_row_width(&layer->shape));
    scalar *states = zeros((tokens + 1) * delta_state_size(&layer->shape));
    const bool good = mixed && states;
    if (good)
        run(layer, first, tokens, rows, mixed, states, outputs);
    free(mixed);
    free(states);
    return good;
}

bool delta_reference_back(const delta_layer *layer, const int64_t *first, int64_t tokens, const scalar *rows,
                          const scalar *output_grads, scalar *row_grads, scalar *parameter_grads) {
    const delta_shape *shape = &layer->shape;
    const int64_t width = delta_row_width(shape), state_size = delta_state_size(shape);
    scalar *mixed = zeros(tokens * width), *states = zeros((tokens + 1) * state_size);
    scalar *outputs = zeros(tokens * delta_output_width(shape));
    scalar *state_grad = zeros(state_size), *mixed_grad = zeros(width);
    const bool good = mixed && states && outputs && state_grad && mixed_grad;
    if (good) {
        memset(row_grads, 0, (size_t)(tokens * width) * sizeof *row_grads);
        memset(parameter_grads, 0, (size_t)delta_parameters(shape) * sizeof *parameter_grads);
        run(layer, first, tokens, rows, mixed, states, outputs);
        run_back(layer, first, tokens, rows, mixed, states, output_grads, state_grad, mixed_grad, row_grads,
                 parameter_grads);
    }
    free(mixed);
    free(states);
    free(outputs);
    free(state_grad);
    free(mixed_grad);
    return good;
}
