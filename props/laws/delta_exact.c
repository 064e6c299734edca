/* SPDX-License-Identifier: Apache-2.0 */
#include "delta_world.h"
#include "laws.h"
#include "subject.h"

#include <inttypes.h>
#include <string.h>

/* A training step: what the next micro-batch finds, whatever its mode and its ranks. */
static void descend(const delta_layer *layer, const scalar *grads, scalar *parameters) {
    static const scalar rate = 3;
    const arithmetic *n = layer->numbers;
    for (int64_t i = 0; i < delta_parameters(&layer->shape); i++)
        parameters[i] = n->subtract(parameters[i], n->multiply(rate, grads[i]));
}

/* Forward again, as recomputation does: the same, and by the routes that are there. */
static bool recomputes(const delta_world *w, const delta_engine *engine, delta_group *group,
                       const delta_sheets *wanted, const delta_shards *shards, verdict *v) {
    const uint64_t builds = delta_group_stats(group).builds;
    if (!delta_world_forward(w, engine, group, shards, v) ||
        !delta_world_same_outputs(w, shards, wanted, NULL, v))
        return false;
    const uint64_t again = delta_group_stats(group).builds - builds;
    return again == 0 || law_fail(v, "recomputing builds routes again", "micro-batch %" PRId64 ": %" PRIu64,
                                  w->number_of_batch, again);
}

static bool batch_is_exact(const delta_case *c, int64_t batch, const delta_engine *engine, delta_group *group,
                           scalar *parameters, scratch *memory, verdict *v) {
    delta_world w;
    delta_sheets wanted;
    delta_shards shards;
    if (!delta_world_make(&w, c, batch, &in_field, parameters, memory, v) ||
        !delta_world_reference(&w, &in_field, &wanted, v) || !delta_world_shards(&w, &shards, v) ||
        !delta_world_forward(&w, engine, group, &shards, v) ||
        !delta_world_same_outputs(&w, &shards, &wanted, NULL, v) ||
        !recomputes(&w, engine, group, &wanted, &shards, v) ||
        !delta_world_backward(&w, engine, group, &shards, v) ||
        !delta_world_same_grads(&w, &shards, &wanted, NULL, v))
        return false;
    descend(&w.layer, shards.parameter_grads[w.pack->cp_size - 1], parameters);
    return true;
}

void judge_delta_exact(const delta_case *c, const delta_engine *engine, verdict *v) {
    scratch memory = {0};
    delta_group *group;
    if (!delta_world_group(c, &group, v))
        return;
    scalar *parameters = delta_world_parameters(c, &in_field, &memory);
    if (!parameters)
        subject_no_memory(v);
    for (int64_t i = 0; parameters && i < c->batches; i++)
        if (!batch_is_exact(c, i, engine, group, parameters, &memory, v))
            break;
    delta_group_free(group);
    scratch_free(&memory);
}
