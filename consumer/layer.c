/* SPDX-License-Identifier: Apache-2.0 */
#include "layer.h"

#include <string.h>

int64_t delta_channels(const delta_shape *shape) {
    return 2 * shape->keys + shape->values;
}

int64_t delta_head_width(const delta_shape *shape) {
    return delta_channels(shape) + 2;
}

int64_t delta_row_width(const delta_shape *shape) {
    return shape->heads * delta_head_width(shape);
}

int64_t delta_output_width(const delta_shape *shape) {
    return shape->heads * shape->values;
}

int64_t delta_parameters(const delta_shape *shape) {
    return shape->heads * delta_channels(shape) * shape->taps;
}

int64_t delta_state_size(const delta_shape *shape) {
    return shape->heads * shape->values * shape->keys;
}

delta_layer delta_some_heads(const delta_layer *layer, int64_t first, int64_t count) {
    delta_layer some = *layer;
    some.shape.heads = first;
    some.parameters += delta_parameters(&some.shape);
    some.shape.heads = count;
    return some;
}

void delta_first_tokens(const int64_t *cu_seqlens, int64_t entries, int64_t *first) {
    for (int64_t i = 0; i + 1 < entries; i++)
        for (int64_t token = cu_seqlens[i]; token < cu_seqlens[i + 1]; token++)
            first[token] = cu_seqlens[i];
}

/*==============================================================================
 * MARK: - Convolution
 *============================================================================*/

static int64_t taps_used(const delta_layer *layer, int64_t before) {
    return before + 1 < layer->shape.taps ? before + 1 : layer->shape.taps;
}

void delta_mix(const delta_layer *layer, const scalar *row, int64_t before, scalar *mixed) {
    const arithmetic *n = layer->numbers;
    const int64_t width = delta_row_width(&layer->shape), head_width = delta_head_width(&layer->shape);
    const int64_t channels = delta_channels(&layer->shape), used = taps_used(layer, before);
    const scalar *taps = layer->parameters;
    memcpy(mixed, row, (size_t)width * sizeof *mixed);
    for (int64_t head = 0; head < width; head += head_width)
        for (int64_t at = head; at < head + channels; at++, taps += layer->shape.taps) {
            mixed[at] = n->multiply(taps[0], row[at]);
            for (int64_t i = 1; i < used; i++)
                mixed[at] = n->add(mixed[at], n->multiply(taps[i], row[at - i * width]));
        }
}

void delta_mix_back(const delta_layer *layer, const scalar *row, int64_t before, const scalar *mixed_grad,
                    scalar *row_grad, scalar *parameter_grads) {
    const arithmetic *n = layer->numbers;
    const int64_t width = delta_row_width(&layer->shape), head_width = delta_head_width(&layer->shape);
    const int64_t channels = delta_channels(&layer->shape), used = taps_used(layer, before);
    const scalar *taps = layer->parameters;
    for (int64_t head = 0; head < width; head += head_width) {
        for (int64_t at = head; at < head + channels; at++) {
            for (int64_t i = 0; i < used; i++) {
                scalar *into = &row_grad[at - i * width];
                *into = n->add(*into, n->multiply(taps[i], mixed_grad[at]));
                parameter_grads[i] =
                    n->add(parameter_grads[i], n->multiply(row[at - i * width], mixed_grad[at]));
            }
            taps += layer->shape.taps;
            parameter_grads += layer->shape.taps;
        }
        for (int64_t gate = head + channels; gate < head + head_width; gate++)
            row_grad[gate] = n->add(row_grad[gate], mixed_grad[gate]);
    }
}

/*==============================================================================
 * MARK: - Recurrence
 *============================================================================*/

static scalar dot(const arithmetic *n, const scalar *a, const scalar *b, int64_t count) {
    scalar sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum = n->add(sum, n->multiply(a[i], b[i]));
    return sum;
}

/* to += factor * from */
static void add_scaled(const arithmetic *n, scalar *to, scalar factor, const scalar *from, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        to[i] = n->add(to[i], n->multiply(factor, from[i]));
}

static void scale(const arithmetic *n, scalar *row, scalar factor, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        row[i] = n->multiply(factor, row[i]);
}

delta_head delta_head_of(const delta_layer *layer, const scalar *mixed, int64_t head) {
    const int64_t keys = layer->shape.keys, channels = delta_channels(&layer->shape);
    const scalar *own = mixed + head * delta_head_width(&layer->shape);
    return (delta_head){own, own + keys, own + 2 * keys, own[channels], own[channels + 1]};
}

scalar delta_step(const arithmetic *n, const delta_head *token, scalar value, int64_t keys,
                  scalar *state_row) {
    scale(n, state_row, token->decay, keys);
    const scalar missing = n->subtract(value, dot(n, state_row, token->key, keys));
    add_scaled(n, state_row, n->multiply(token->strength, missing), token->key, keys);
    return dot(n, state_row, token->query, keys);
}

void delta_token(const delta_layer *layer, const scalar *mixed, scalar *state, scalar *output) {
    const int64_t keys = layer->shape.keys, values = layer->shape.values;
    for (int64_t head = 0; head < layer->shape.heads; head++) {
        const delta_head token = delta_head_of(layer, mixed, head);
        for (int64_t i = 0; i < values; i++, state += keys, output++)
            *output = delta_step(layer->numbers, &token, token.value[i], keys, state);
    }
}

/* Where the gradients of one head of a token are added to. */
typedef struct head_grads {
    scalar *query, *key, *decay, *strength;
} head_grads;

/* The step of one row of the state, backwards. Returns the gradient of its value. */
static scalar step_back(const arithmetic *n, const delta_head *token, scalar value, int64_t keys,
                        const scalar *row_before, scalar output_grad, scalar *row_grad,
                        const head_grads *grads) {
    scalar decayed[DELTA_MOST_KEYS], row_after[DELTA_MOST_KEYS];
    memcpy(decayed, row_before, (size_t)keys * sizeof *decayed);
    scale(n, decayed, token->decay, keys);
    const scalar missing = n->subtract(value, dot(n, decayed, token->key, keys));
    const scalar written = n->multiply(token->strength, missing);
    memcpy(row_after, decayed, (size_t)keys * sizeof *row_after);
    add_scaled(n, row_after, written, token->key, keys);

    /* output = row_after . query */
    add_scaled(n, grads->query, output_grad, row_after, keys);
    add_scaled(n, row_grad, output_grad, token->query, keys);
    /* row_after = decayed + written * key */
    const scalar written_grad = dot(n, row_grad, token->key, keys);
    add_scaled(n, grads->key, written, row_grad, keys);
    /* written = strength * missing */
    *grads->strength = n->add(*grads->strength, n->multiply(written_grad, missing));
    const scalar missing_grad = n->multiply(token->strength, written_grad);
    /* missing = value - decayed . key */
    const scalar reading_grad = n->subtract(0, missing_grad);
    add_scaled(n, grads->key, reading_grad, decayed, keys);
    add_scaled(n, row_grad, reading_grad, token->key, keys);
    /* decayed = decay * row_before */
    *grads->decay = n->add(*grads->decay, dot(n, row_grad, row_before, keys));
    scale(n, row_grad, token->decay, keys);
    return missing_grad;
}

void delta_token_back(const delta_layer *layer, const scalar *mixed, const scalar *state_before,
                      const scalar *output_grad, scalar *state_grad, scalar *mixed_grad) {
    const arithmetic *n = layer->numbers;
    const int64_t keys = layer->shape.keys, values = layer->shape.values;
    const int64_t channels = delta_channels(&layer->shape);
    for (int64_t head = 0; head < layer->shape.heads; head++) {
        const delta_head token = delta_head_of(layer, mixed, head);
        scalar *own = mixed_grad + head * delta_head_width(&layer->shape);
        const head_grads grads = {own, own + keys, own + channels, own + channels + 1};
        for (int64_t i = 0; i < values; i++, state_before += keys, state_grad += keys, output_grad++) {
            scalar *value_grad = own + 2 * keys + i;
            *value_grad = n->add(*value_grad, step_back(n, &token, token.value[i], keys, state_before,
                                                        *output_grad, state_grad, &grads));
        }
    }
}
