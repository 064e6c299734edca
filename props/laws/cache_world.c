/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_world.h"
#include <stdlib.h>
#include <string.h>

enum { ADDRESS_STEP = 1024, ENTRY_BYTES = 8 };

void world_begin(world *w, uint64_t first_identity) {
    memset(w, 0, sizeof *w);
    w->last_identity = first_identity;
    for (int i = 0; i < CACHE_NAMES_MAX; i++)
        w->named[i] = -1;
}

const world_tensor *world_named(const world *w, uint8_t name) {
    return name >= CACHE_NAMES_MAX || w->named[name] < 0 ? NULL : &w->tensors[w->named[name]];
}

uint64_t world_version(const world *w, const world_tensor *t) {
    return w->counters[t->counter].version;
}

uint64_t world_untracked(const world *w, const world_tensor *t) {
    return w->storages[t->storage].untracked + w->counters[t->counter].set;
}

uint64_t world_address(const world *w, const world_tensor *t) {
    return w->storages[t->storage].address + (uint64_t)t->offset * ENTRY_BYTES;
}

static int64_t *entry_at(world_storage *s, const world_tensor *t, int64_t i) {
    return &s->values[t->offset + i * t->stride];
}

void world_entries(const world *w, const world_tensor *t, int64_t entries[CACHE_ENTRIES_MAX]) {
    for (int64_t i = 0; i < t->count; i++) {
        const int64_t value = w->storages[t->storage].values[t->offset + i * t->stride];
        entries[i] = t->dtype == CPR_INT64 ? value : (int32_t)value;
    }
}

/*------------------------------------------------------------------------------
 * Life and death
 *----------------------------------------------------------------------------*/

static int free_storage(const world *w) {
    int i = 0;
    while (w->storages[i].users > 0)
        i++;
    return i;
}

static int free_counter(const world *w) {
    int i = 0;
    while (w->counters[i].users > 0)
        i++;
    return i;
}

static int free_tensor(const world *w) {
    int i = 0;
    while (w->tensors[i].users > 0)
        i++;
    return i;
}

static bool address_in_use(const world *w, uint64_t address) {
    for (int i = 0; i < WORLD_TENSORS; i++)
        if (w->storages[i].users > 0 && w->storages[i].address == address)
            return true;
    return false;
}

static bool identity_in_use(const world *w, uint64_t identity) {
    for (int i = 0; i < WORLD_TENSORS; i++)
        if (w->tensors[i].users > 0 && w->tensors[i].identity == identity)
            return true;
    return w->held && w->held(w->context, identity);
}

static int make_storage(world *w, const int64_t *data, int64_t count, uint64_t wanted_address) {
    const int made = free_storage(w);
    const bool again = wanted_address != 0 && !address_in_use(w, wanted_address);
    w->storages[made] = (world_storage){
        .users = 1, .address = again ? wanted_address : (w->last_address += ADDRESS_STEP), .count = count};
    memcpy(w->storages[made].values, data, (size_t)count * sizeof *data);
    return made;
}

static int make_counter(world *w) {
    const int made = free_counter(w);
    w->counters[made] = (world_counter){.users = 1};
    return made;
}

static uint64_t make_identity(world *w, uint64_t wanted) {
    return wanted != 0 && !identity_in_use(w, wanted) ? wanted : ++w->last_identity;
}

static void leave_tensor(world *w, int which) {
    world_tensor *t = &w->tensors[which];
    if (--t->users > 0)
        return;
    w->storages[t->storage].users--;
    w->counters[t->counter].users--;
    if (w->freed)
        w->freed(w->context, t->identity);
}

static void unname(world *w, uint8_t name) {
    const int which = w->named[name];
    if (which < 0)
        return;
    w->ghosts[name] = (world_ghost){.identity = w->tensors[which].identity,
                                    .address = w->storages[w->tensors[which].storage].address};
    w->named[name] = -1;
    leave_tensor(w, which);
}

/* The name keeps its parameters object if it has one. */
static void put_name(world *w, uint8_t name, int which) {
    const bool fresh = w->named[name] < 0;
    unname(w, name);
    w->named[name] = which;
    if (fresh) {
        w->params[name] = ++w->last_params;
        w->params_from[name] = 0;
    }
}

static void step_new(world *w, const cache_op *op) {
    const world_ghost none = {0};
    const world_ghost ghost = op->other < CACHE_NAMES_MAX ? w->ghosts[op->other] : none;
    const int which = free_tensor(w);
    w->tensors[which] = (world_tensor){
        .users = 1,
        .identity = make_identity(w, ghost.identity),
        .storage = make_storage(w, op->data, op->count, ghost.address),
        .counter = make_counter(w),
        .stride = 1,
        .count = op->count,
        .dtype = op->dtype,
        .device = op->device,
        .device_index = op->device_index,
        .inference = op->inference,
    };
    put_name(w, op->name, which);
}

/* Entries beyond the base are cut off. */
static void step_view(world *w, const cache_op *op) {
    const world_tensor *base = world_named(w, op->other);
    if (!base)
        return;
    world_tensor view = *base;
    const int64_t high = op->high < base->count ? op->high : base->count;
    const int64_t low = op->low < high ? op->low : high;
    view.users = 1;
    view.count = op->stride > 0 ? (high - low + op->stride - 1) / op->stride : high - low;
    view.offset = base->offset + low * base->stride;
    view.stride = base->stride * op->stride;
    if ((int)op->dtype != CACHE_SAME_DTYPE)
        view.dtype = op->dtype;
    view.identity = make_identity(w, 0);
    const int which = free_tensor(w);
    w->tensors[which] = view;
    w->storages[view.storage].users++;
    w->counters[view.counter].users++;
    put_name(w, op->name, which);
}

static void step_clone(world *w, const cache_op *op) {
    if (!world_named(w, op->other) || op->name == op->other)
        return;
    const int which = w->named[op->other];
    w->tensors[which].users++;
    unname(w, op->name);
    put_name(w, op->name, which);
    w->params_from[op->name] = w->params[op->other];
}

static void step_rebind(world *w, const cache_op *op) {
    const int which = w->named[op->name];
    if (which < 0)
        return;
    world_tensor *t = &w->tensors[which];
    const int storage = make_storage(w, op->data, op->count, 0);
    w->storages[t->storage].users--;
    t->storage = storage;
    t->offset = 0;
    t->stride = 1;
    t->count = op->count;
}

static void step_write(world *w, const cache_op *op) {
    const int which = w->named[op->name];
    if (which < 0 || w->tensors[which].count <= op->index)
        return;
    const world_tensor *t = &w->tensors[which];
    world_storage *s = &w->storages[t->storage];
    *entry_at(s, t, op->index) = op->value;
    if (op->kind == CACHE_WRITE)
        w->counters[t->counter].version++;
    else
        s->untracked++;
}

static void step_set_version(world *w, const cache_op *op) {
    const int which = w->named[op->name];
    if (which < 0)
        return;
    world_counter *counter = &w->counters[w->tensors[which].counter];
    counter->version = (uint64_t)op->value;
    counter->set++;
}

void world_step(world *w, const cache_op *op) {
    switch (op->kind) {
    case CACHE_NEW:
        step_new(w, op);
        break;
    case CACHE_VIEW:
        step_view(w, op);
        break;
    case CACHE_CLONE:
        step_clone(w, op);
        break;
    case CACHE_FREE:
        unname(w, op->name);
        break;
    case CACHE_REBIND:
        step_rebind(w, op);
        break;
    case CACHE_WRITE:
    case CACHE_RAW_WRITE:
        step_write(w, op);
        break;
    case CACHE_SET_VERSION:
        step_set_version(w, op);
        break;
    default:
        break;
    }
}

void world_end(world *w) {
    for (int i = 0; i < CACHE_NAMES_MAX; i++)
        unname(w, (uint8_t)i);
}

/*------------------------------------------------------------------------------
 * Views in memory
 *----------------------------------------------------------------------------*/

static void put_entry(void *block, int64_t i, cpr_dtype dtype, int64_t value) {
    if (dtype == CPR_INT64)
        memcpy((char *)block + i * 8, &value, 8);
    else
        memcpy((char *)block + i * 4, &(int32_t){(int32_t)value}, 4);
}

bool world_view_make(const world *w, const world_tensor *t, bool blind, world_view *view) {
    const world_storage *s = &w->storages[t->storage];
    const int64_t stride = t->device == CPR_CPU ? t->stride : 1;
    const int64_t slots = t->count > 0 ? (t->count - 1) * stride + 1 : 0;
    const size_t bytes = (size_t)slots * (t->dtype == CPR_INT64 ? 8 : 4);
    *view = (world_view){
        .tensor =
            {
                .handle = t->identity,
                .storage = s->address,
                .storage_offset = t->offset,
                .stride = t->stride,
                .device = t->device,
                .device_index = t->device_index,
                .generation = t->inference ? 0 : world_version(w, t),
                .has_generation = !t->inference,
                .view = {.count = t->count, .stride = stride, .dtype = t->dtype, .device = CPR_CPU},
            },
    };
    if (blind || slots == 0)
        return true;
    view->block = malloc(bytes);
    if (!view->block)
        return false;
    view->tensor.view.data = view->block;
    memset(view->block, 0x5a, bytes);
    for (int64_t i = 0; i < t->count; i++)
        put_entry(view->block, i * stride, t->dtype, s->values[t->offset + i * t->stride]);
    return true;
}

void world_view_free(world_view *view) {
    free(view->block);
    view->block = NULL;
}
