/* SPDX-License-Identifier: Apache-2.0 */
/* What laws about the layer call, so that a test can put a wrong one in its place. */
#ifndef CPROUTE_PROPS_DELTA_ENGINE_H
#define CPROUTE_PROPS_DELTA_ENGINE_H

#include "consumer/delta.h"

typedef struct delta_engine {
    delta_status (*forward)(delta_group *group, const delta_layer *layer, const delta_batch *batch,
                            const scalar *const *rows, scalar *const *outputs, delta_error *error);
    delta_status (*backward)(delta_group *group, const delta_layer *layer, const delta_batch *batch,
                             const scalar *const *rows, const scalar *const *output_grads,
                             scalar *const *row_grads, scalar *const *parameter_grads, delta_error *error);
    bool (*mode_from_name)(const char *name, delta_mode *mode);
} delta_engine;

/* The consumer itself. */
extern const delta_engine the_delta_engine;

#endif
