/* SPDX-License-Identifier: Apache-2.0 */
/* All tokens of some heads on every rank: an all-to-all, the layer as one rank runs it, and an all-to-all back. */
#include "ranks.h"

#include <string.h>

typedef struct share {
    delta_layer layer;
    columns rows, outputs;
    int64_t first_parameter;
} share;

static share share_of(const ranks *r, int64_t rank) {
    const int64_t heads = r->layer->shape.heads / r->size;
    const delta_layer layer = delta_some_heads(r->layer, rank * heads, heads);
    const int64_t width = delta_row_width(&layer.shape), outputs = delta_output_width(&layer.shape);
    return (share){.layer = layer,
                   .rows = {rank * width, width, r->size * width},
                   .outputs = {rank * outputs, outputs, r->size * outputs},
                   .first_parameter = rank * delta_parameters(&layer.shape)};
}

static bool forward_on(ranks *r, int64_t rank, const scalar *const *rows, scalar *const *outputs) {
    const share own = share_of(r, rank);
    scalar *stream = ranks_gather(r, own.rows, rows);
    scalar *made = stream ? ranks_numbers(r, r->tokens * own.outputs.count) : NULL;
    if (!made)
        return false;
    if (!delta_reference(&own.layer, r->first, r->tokens, stream, made))
        return ranks_no_memory(r);
    return ranks_scatter(r, own.outputs, made, outputs);
}

bool headwise_forward(ranks *r, const scalar *const *rows, scalar *const *outputs) {
    for (int64_t rank = 0; rank < r->size; rank++)
        if (!forward_on(r, rank, rows, outputs))
            return false;
    return true;
}

static bool backward_on(ranks *r, int64_t rank, const scalar *const *rows, const scalar *const *output_grads,
                        scalar *const *row_grads, scalar *const *parameter_grads) {
    const share own = share_of(r, rank);
    const int64_t parameters = delta_parameters(&own.layer.shape);
    scalar *stream = ranks_gather(r, own.rows, rows);
    scalar *grads = stream ? ranks_gather(r, own.outputs, output_grads) : NULL;
    scalar *made = grads ? ranks_numbers(r, r->tokens * own.rows.count) : NULL;
    scalar *of_parameters = made ? ranks_numbers(r, parameters) : NULL;
    if (!of_parameters)
        return false;
    if (!delta_reference_back(&own.layer, r->first, r->tokens, stream, grads, made, of_parameters))
        return ranks_no_memory(r);
    for (int64_t to = 0; to < r->size; to++)
        memcpy(parameter_grads[to] + own.first_parameter, of_parameters,
               (size_t)parameters * sizeof *of_parameters);
    return ranks_scatter(r, own.rows, made, row_grads);
}

bool headwise_backward(ranks *r, const scalar *const *rows, const scalar *const *output_grads,
                       scalar *const *row_grads, scalar *const *parameter_grads) {
    for (int64_t rank = 0; rank < r->size; rank++)
        if (!backward_on(r, rank, rows, output_grads, row_grads, parameter_grads))
            return false;
    return true;
}
