/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer: Gated DeltaNet without what acts on one token alone (projections, activations, norms, the output gate), which no
 * distribution of tokens can hurt. Per token a row of numbers comes in, for each head, one after the other:
 *
 *     query[keys] key[keys] value[values] decay strength
 *
 * The first 2 * keys + values of them, the channels, pass a causal convolution of `taps` tokens. The head's state S, values x keys,
 * begins each sequence as 0; at every token it decays, is corrected along the key, and is read by the query:
 *
 *     S = decay * S        S = S + strength * (value - S key) key^T        output = S query
 *
 * Gates (decay, strength) are computed from the token elsewhere, with exponentials; what is left is sums and products. A row of
 * S does not know of the other rows, so a step is written for one row. Arrays hold the numbers of a token, of a head, of a
 * state row one after the other; nothing is strided.
 *
 * Source: Yang, Kautz, Hatamizadeh, Gated Delta Networks, arXiv 2412.06464, equation 10.
 */
#ifndef CPROUTE_CONSUMER_LAYER_H
#define CPROUTE_CONSUMER_LAYER_H

#include "scalar.h"
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DELTA_MOST_KEYS = 256 };

typedef struct delta_shape {
    int64_t heads, keys, values, taps; /* all at least 1, keys at most DELTA_MOST_KEYS */
} delta_shape;

int64_t delta_channels(const delta_shape *shape);     /* of one head */
int64_t delta_head_width(const delta_shape *shape);   /* channels and two gates */
int64_t delta_row_width(const delta_shape *shape);    /* what comes in for a token */
int64_t delta_output_width(const delta_shape *shape); /* what goes out */
int64_t delta_parameters(const delta_shape *shape);   /* taps of all channels of all heads */
int64_t delta_state_size(const delta_shape *shape);   /* of all heads */

/* Parameters are taps[heads][channels][taps]: tap i weighs the token i before. They know of no ranks. */
typedef struct delta_layer {
    const arithmetic *numbers;
    delta_shape shape;
    const scalar *parameters;
} delta_layer;

/* The same layer with some of its heads; rows, outputs and parameters of those are neighbours in the whole ones. */
delta_layer delta_some_heads(const delta_layer *layer, int64_t first, int64_t count);

/*
 * Convolves the channels of the token at `row`, of whose sequence `before` tokens lie right before it in memory, and copies its gates. At
 * most `taps` - 1 of those are read.
 */
void delta_mix(const delta_layer *layer, const scalar *row, int64_t before, scalar *mixed);

/* Adds to the gradients of the rows read, at row_grad and before it, and to those of the parameters. */
void delta_mix_back(const delta_layer *layer, const scalar *row, int64_t before, const scalar *mixed_grad,
                    scalar *row_grad, scalar *parameter_grads);

/* One token of one head, mixed. */
typedef struct delta_head {
    const scalar *query, *key, *value;
    scalar decay, strength;
} delta_head;
delta_head delta_head_of(const delta_layer *layer, const scalar *mixed, int64_t head);

/* Takes one row of the state past a token; returns its output. */
scalar delta_step(const arithmetic *n, const delta_head *token, scalar value, int64_t keys,
                  scalar *state_row);

/* Takes the state of all heads past a token. */
void delta_token(const delta_layer *layer, const scalar *mixed, scalar *state, scalar *output);

/* Takes the gradient of the state from after a token to before it, and adds to those of the token. */
void delta_token_back(const delta_layer *layer, const scalar *mixed, const scalar *state_before,
                      const scalar *output_grad, scalar *state_grad, scalar *mixed_grad);

/* For each token the first one of its sequence. */
void delta_first_tokens(const int64_t *cu_seqlens, int64_t entries, int64_t *first);

/*
 * The layer on one rank, token by token: what everything else is held to. `first` is what delta_first_tokens says, and of
 * every array there is one row a token. Outputs are overwritten. False without memory; then they are untouched.
 */
bool delta_reference(const delta_layer *layer, const int64_t *first, int64_t tokens, const scalar *rows,
                     scalar *outputs);
bool delta_reference_back(const delta_layer *layer, const int64_t *first, int64_t tokens, const scalar *rows,
                          const scalar *output_grads, scalar *row_grads, scalar *parameter_grads);

#ifdef __cplusplus
}
#endif

#endif
