/* SPDX-License-Identifier: Apache-2.0 */
/* All tokens of all heads on every rank, which keeps its own. Gradients of parameters come out whole everywhere. */
#include "ranks.h"

static columns all(int64_t width) {
    return (columns){0, width, width};
}

static bool forward_on(ranks *r, int64_t rank, const scalar *const *rows, scalar *own) {
    const int64_t outputs = delta_output_width(&r->layer->shape);
    scalar *stream = ranks_gather(r, all(delta_row_width(&r->layer->shape)), rows);
    scalar *made = stream ? ranks_numbers(r, r->tokens * outputs) : NULL;
    if (!made)
        return false;
    if (!delta_reference(r->layer, r->first, r->tokens, stream, made))
        return ranks_no_memory(r);
    return ranks_take(r, rank, all(outputs), made, own);
}

bool all_gather_forward(ranks *r, const scalar *const *rows, scalar *const *outputs) {
    for (int64_t rank = 0; rank < r->size; rank++)
        if (!forward_on(r, rank, rows, outputs[rank]))
            return false;
    return true;
}

static bool backward_on(ranks *r, int64_t rank, const scalar *const *rows, const scalar *const *output_grads,
                        scalar *own, scalar *parameter_grads) {
    const int64_t width = delta_row_width(&r->layer->shape);
    scalar *stream = ranks_gather(r, all(width), rows);
    scalar *grads = stream ? ranks_gather(r, all(delta_output_width(&r->layer->shape)), output_grads) : NULL;
    scalar *made = grads ? ranks_numbers(r, r->tokens * width) : NULL;
    if (!made)
        return false;
    if (!delta_reference_back(r->layer, r->first, r->tokens, stream, grads, made, parameter_grads))
        return ranks_no_memory(r);
    return ranks_take(r, rank, all(width), made, own);
}

bool all_gather_backward(ranks *r, const scalar *const *rows, const scalar *const *output_grads,
                         scalar *const *row_grads, scalar *const *parameter_grads) {
    for (int64_t rank = 0; rank < r->size; rank++)
        if (!backward_on(r, rank, rows, output_grads, row_grads[rank], parameter_grads[rank]))
            return false;
    return true;
}
