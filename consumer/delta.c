/* SPDX-License-Identifier: Apache-2.0 */
#include "delta.h"
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    forward_fn *forward;
    backward_fn *backward;
} modes[DELTA_MODE_COUNT] = {
    [DELTA_CHUNKWISE] = {"chunkwise", chunkwise_forward, chunkwise_backward},
    [DELTA_HEADWISE] = {"headwise", headwise_forward, headwise_backward},
    [DELTA_ALL_GATHER] = {"all_gather", all_gather_forward, all_gather_backward},
};

const char *delta_mode_name(delta_mode mode) {
    return (int)mode >= 0 && mode < DELTA_MODE_COUNT ? modes[mode].name : "unknown";
}

bool delta_mode_from_name(const char *name, delta_mode *mode) {
    for (int i = 0; i < DELTA_MODE_COUNT; i++)
        if (strcmp(modes[i].name, name) == 0) {
            *mode = (delta_mode)i;
            return true;
        }
    return false;
}

const char *delta_error_name(const delta_error *error) {
    static const char *const names[] = {[DELTA_OK] = "ok",
                                        [DELTA_BAD_MODE] = "bad_mode",
                                        [DELTA_BAD_SHAPE] = "bad_shape",
                                        [DELTA_NOT_DIVISIBLE_HEADS] = "not_divisible_heads",
                                        [DELTA_NO_MEMORY] = "no_memory"};
    return error->status == DELTA_NOT_ROUTED ? cpr_status_name(error->route.status) : names[error->status];
}

/*==============================================================================
 * MARK: - Groups
 *============================================================================*/

enum { ROUTES_KEPT = 64 };

static void *allocate_by_malloc(void *context, size_t size) {
    (void)context;
    return malloc(size);
}

static void release_by_free(void *context, void *memory, size_t size) {
    (void)context;
    (void)size;
    free(memory);
}

delta_status delta_group_create(const cpr_allocator *allocator, delta_group **group, delta_error *error) {
    static const cpr_allocator by_malloc = {.allocate = allocate_by_malloc, .release = release_by_free};
    static const cpr_cache_options options = {.max_entries = ROUTES_KEPT};
    const cpr_allocator from = allocator ? *allocator : by_malloc;
    delta_group *made = from.allocate(from.context, sizeof *made);
    cpr_error of_cache;
    *error = (delta_error){.status = DELTA_NO_MEMORY};
    if (!made)
        return error->status;
    made->allocator = from;
    if (cpr_cache_create(&options, &from, &made->cache, &of_cache) != CPR_OK) {
        from.release(from.context, made, sizeof *made);
        return error->status;
    }
    *group = made;
    *error = (delta_error){.status = DELTA_OK};
    return DELTA_OK;
}

void delta_group_free(delta_group *group) {
    if (!group)
        return;
    const cpr_allocator from = group->allocator;
    cpr_cache_free(group->cache);
    from.release(from.context, group, sizeof *group);
}

cpr_cache_stats delta_group_stats(delta_group *group) {
    return cpr_cache_get_stats(group->cache);
}

/*==============================================================================
 * MARK: - Calls
 *============================================================================*/

static void hand_over(const ranks *r, scalar *const *made, scalar *const *to, int64_t count) {
    for (int64_t rank = 0; rank < r->size; rank++)
        memcpy(to[rank], made[rank], (size_t)count * sizeof(scalar));
}

static delta_status finish(ranks *r, delta_error *error) {
    ranks_close(r);
    *error = r->error;
    return error->status;
}

/* Modes write into sheets of the call's own, so a failure half-way touches nothing of the caller's. */
delta_status delta_forward(delta_group *group, const delta_layer *layer, const delta_batch *batch,
                           const scalar *const *rows, scalar *const *outputs, delta_error *error) {
    ranks r;
    if (!ranks_open(&r, group, layer, batch))
        return finish(&r, error);
    const int64_t width = delta_output_width(&layer->shape);
    scalar **made = ranks_sheets(&r, r.rows, width);
    if (made && modes[batch->mode].forward(&r, rows, made))
        hand_over(&r, made, outputs, r.rows * width);
    return finish(&r, error);
}

delta_status delta_backward(delta_group *group, const delta_layer *layer, const delta_batch *batch,
                            const scalar *const *rows, const scalar *const *output_grads,
                            scalar *const *row_grads, scalar *const *parameter_grads, delta_error *error) {
    ranks r;
    if (!ranks_open(&r, group, layer, batch))
        return finish(&r, error);
    const int64_t width = delta_row_width(&layer->shape), parameters = delta_parameters(&layer->shape);
    scalar **made = ranks_sheets(&r, r.rows, width);
    scalar **of_parameters = made ? ranks_sheets(&r, parameters, 1) : NULL;
    if (of_parameters && modes[batch->mode].backward(&r, rows, output_grads, made, of_parameters)) {
        hand_over(&r, made, row_grads, r.rows * width);
        hand_over(&r, of_parameters, parameter_grads, parameters);
    }
    return finish(&r, error);
}
