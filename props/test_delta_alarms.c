/* SPDX-License-Identifier: Apache-2.0 */
/* The laws about the layer notice layers that are wrong. Faults in its source are in planted/delta. */
#include "alarms.h"
#include <stdlib.h>
#include <string.h>

typedef struct planted {
    const char *bug;
    delta_engine engine;
    const char *noticed_by[LAWS_OF_AN_ALARM];
} planted;

static int64_t rows_of(const delta_batch *batch) {
    return batch->cu_seqlens[batch->entries - 1] / batch->cp_size;
}

static delta_status forward_ranks_swapped(delta_group *group, const delta_layer *layer,
                                          const delta_batch *batch, const scalar *const *rows,
                                          scalar *const *outputs, delta_error *error) {
    scalar *swapped[64];
    for (int64_t rank = 0; rank < batch->cp_size; rank++)
        swapped[rank] = outputs[batch->cp_size - 1 - rank];
    return delta_forward(group, layer, batch, rows, swapped, error);
}

static delta_status backward_off_by_a_little(delta_group *group, const delta_layer *layer,
                                             const delta_batch *batch, const scalar *const *rows,
                                             const scalar *const *output_grads, scalar *const *row_grads,
                                             scalar *const *parameter_grads, delta_error *error) {
    const delta_status status =
        delta_backward(group, layer, batch, rows, output_grads, row_grads, parameter_grads, error);
    const int64_t count = delta_row_width(&layer->shape) * rows_of(batch);
    if (status == DELTA_OK && count > 0)
        row_grads[0][count - 1] = layer->numbers->add(row_grads[0][count - 1], 0.5);
    return status;
}

/* A pack of one row for each rank's two chunks, times how often it was called: boundaries that the cache does not know. */
static delta_status forward_with_a_stranger(delta_group *group, const delta_layer *layer,
                                            const delta_batch *batch, const scalar *const *rows,
                                            scalar *const *outputs, delta_error *error) {
    static int64_t calls;
    const int64_t length = 2 * batch->cp_size * (1 + calls++ % 50);
    const int64_t cu[] = {0, length};
    const delta_batch stranger = {DELTA_CHUNKWISE, batch->cp_size, cu, 2};
    const size_t most = (size_t)(length * delta_row_width(&layer->shape));
    scalar *noise = calloc(most, sizeof *noise), *unused = calloc(most, sizeof *unused);
    const scalar *in[64];
    scalar *out[64];
    for (int64_t rank = 0; rank < batch->cp_size; rank++) {
        in[rank] = noise;
        out[rank] = unused;
    }
    if (noise && unused)
        delta_forward(group, layer, &stranger, in, out, error);
    free(noise);
    free(unused);
    return delta_forward(group, layer, batch, rows, outputs, error);
}

/* As if gradients were not summed over the ranks. */
static delta_status backward_rank_alone(delta_group *group, const delta_layer *layer,
                                        const delta_batch *batch, const scalar *const *rows,
                                        const scalar *const *output_grads, scalar *const *row_grads,
                                        scalar *const *parameter_grads, delta_error *error) {
    const delta_status status =
        delta_backward(group, layer, batch, rows, output_grads, row_grads, parameter_grads, error);
    if (status == DELTA_OK && batch->cp_size > 1)
        memset(parameter_grads[1], 0, (size_t)delta_parameters(&layer->shape) * sizeof(scalar));
    return status;
}

static delta_status forward_touching(delta_group *group, const delta_layer *layer, const delta_batch *batch,
                                     const scalar *const *rows, scalar *const *outputs, delta_error *error) {
    const delta_status status = delta_forward(group, layer, batch, rows, outputs, error);
    if (status == DELTA_NOT_DIVISIBLE_HEADS && rows_of(batch) > 0)
        outputs[0][0] = 0;
    return status;
}

static delta_status forward_any_heads(delta_group *group, const delta_layer *layer, const delta_batch *batch,
                                      const scalar *const *rows, scalar *const *outputs, delta_error *error) {
    const delta_status status = delta_forward(group, layer, batch, rows, outputs, error);
    if (status == DELTA_NOT_DIVISIBLE_HEADS)
        *error = (delta_error){.status = DELTA_OK};
    return error->status;
}

static bool any_prefix(const char *name, delta_mode *mode) {
    for (int i = 0; i < DELTA_MODE_COUNT; i++)
        if (strncmp(name, delta_mode_name((delta_mode)i), strlen(name)) == 0) {
            *mode = (delta_mode)i;
            return true;
        }
    return false;
}

static const planted alarms[] = {
    {"outputs of ranks swapped", {.forward = forward_ranks_swapped}, {"delta_exact", "delta_rounding"}},
    {"one gradient off", {.backward = backward_off_by_a_little}, {"delta_exact", "delta_rounding"}},
    {"routes built for nothing", {.forward = forward_with_a_stranger}, {"delta_exact"}},
    {"gradients not summed over ranks", {.backward = backward_rank_alone}, {"delta_exact", "delta_rounding"}},
    {"an output touched on failure", {.forward = forward_touching}, {"delta_errors"}},
    {"any number of heads taken", {.forward = forward_any_heads}, {"delta_errors"}},
    {"a mode known by a part of its name", {.mode_from_name = any_prefix}, {"delta_errors"}},
};

static const delta_engine *plant(const delta_engine *wrong) {
    static delta_engine engine;
    engine = the_delta_engine;
    engine.forward = wrong->forward ? wrong->forward : engine.forward;
    engine.backward = wrong->backward ? wrong->backward : engine.backward;
    engine.mode_from_name = wrong->mode_from_name ? wrong->mode_from_name : engine.mode_from_name;
    return &engine;
}

static alarm alarm_at(size_t number) {
    const planted *a = &alarms[number];
    return (alarm){a->bug, a->noticed_by, plant(&a->engine)};
}

int main(void) {
    return alarm_tests(&(alarm_suite){.name = "delta alarms",
                                      .family = &delta_family,
                                      .engine = &the_delta_engine,
                                      .cases_without_alarm = 100,
                                      .alarm_count = sizeof alarms / sizeof *alarms,
                                      .alarm_at = alarm_at});
}
