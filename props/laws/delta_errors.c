/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals: a legal micro-batch with one or two things wrong, and whichever allocation fails. */
#include "delta_world.h"
#include "laws.h"
#include "ledger.h"
#include "subject.h"

#include <string.h>

typedef void make_wrong(delta_case *c, uint64_t amount);

static void spoil_mode(delta_case *c, uint64_t amount) {
    static const int modes[] = {DELTA_MODE_COUNT, -1, 1000};
    c->batch[0].mode = (delta_mode)modes[amount % 3];
}

static void spoil_shape(delta_case *c, uint64_t amount) {
    int64_t *const sizes[] = {&c->shape.heads, &c->shape.keys, &c->shape.values, &c->shape.taps};
    *sizes[amount % 4] = amount / 4 % 2 ? -1 : 0;
    if (amount / 8 % 8 == 7)
        c->shape = (delta_shape){1, DELTA_MOST_KEYS + 1, 1, 1};
}

static void spoil_size(delta_case *c, uint64_t amount) {
    c->batch[0].cp_size = amount % 2 ? 0 : -1;
}

static void spoil_entries(delta_case *c, uint64_t amount) {
    (void)amount;
    c->batch[0].entries = 0;
}

static void spoil_start(delta_case *c, uint64_t amount) {
    for (int64_t i = 0; i < c->batch[0].entries; i++)
        c->batch[0].cu[i] += amount % 2 ? 1 : 2 * c->batch[0].cp_size;
}

static void spoil_order(delta_case *c, uint64_t amount) {
    delta_pack *pack = &c->batch[0];
    if (pack->entries > 1)
        pack->cu[1 + (int64_t)amount % (pack->entries - 1)] = -1;
}

/* Time that does not divide. */
static void spoil_length(delta_case *c, uint64_t amount) {
    delta_pack *pack = &c->batch[0];
    if (pack->entries > 1 && pack->cp_size > 1)
        for (int64_t i = 1 + (int64_t)amount % (pack->entries - 1); i < pack->entries; i++)
            pack->cu[i] += 1 + (int64_t)(amount / 32) % pack->cp_size;
}

static void spoil_heads(delta_case *c, uint64_t amount) {
    delta_pack *pack = &c->batch[0];
    pack->mode = DELTA_HEADWISE;
    if (pack->cp_size > 1)
        c->shape.heads = pack->cp_size * (int64_t)(1 + amount % 2) + 1;
}

static make_wrong *const mistakes[] = {spoil_mode,  spoil_shape, spoil_size,   spoil_entries,
                                       spoil_start, spoil_order, spoil_length, spoil_heads};
enum { MISTAKES = sizeof mistakes / sizeof *mistakes };

/* The good micro-batch's arrays do for the wrong call: it must not look at them. */
static bool refuses(const delta_world *w, const delta_case *wrong_case, const delta_engine *engine,
                    delta_group *group, const delta_shards *shards, verdict *v) {
    const delta_error wanted = delta_expected(&wrong_case->shape, &wrong_case->batch[0]);
    const delta_batch batch = delta_batch_of(&wrong_case->batch[0]);
    delta_layer layer = w->layer;
    delta_error error;
    layer.shape = wrong_case->shape;
    if (wanted.status == DELTA_OK)
        return true;
    engine->forward(group, &layer, &batch, (const scalar *const *)w->rank_rows, shards->outputs, &error);
    if (!delta_refused(&error, &wanted, "forward", v))
        return false;
    engine->backward(group, &layer, &batch, (const scalar *const *)w->rank_rows,
                     (const scalar *const *)w->rank_grads, shards->row_grads, shards->parameter_grads,
                     &error);
    return delta_refused(&error, &wanted, "backward", v) &&
           delta_world_untouched(w, shards, delta_error_name(&wanted), v);
}

static bool refuses_mistakes(const delta_world *w, const delta_engine *engine, delta_group *group,
                             const delta_shards *shards, verdict *v) {
    const uint64_t salt = w->c->salt;
    for (unsigned i = 0; i < MISTAKES; i++)
        for (unsigned k = i; k < MISTAKES; k++) {
            delta_case made = *w->c;
            mistakes[i](&made, salt_below(salt, i, 1 << 16));
            if (k != i)
                mistakes[k](&made, salt_below(salt, k, 1 << 16));
            if (!refuses(w, &made, engine, group, shards, v))
                return false;
        }
    return true;
}

static bool names_are_told_apart(const delta_engine *engine, verdict *v) {
    static const char *const strangers[] = {"", "Chunkwise", "chunkwise ", "chunk", "allgather", "zigzag"};
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        delta_mode mode = DELTA_MODE_COUNT;
        if (engine->mode_from_name(strangers[i], &mode) || mode != DELTA_MODE_COUNT)
            return law_fail(v, "a mode of no name", "'%s'", strangers[i]);
    }
    for (int i = 0; i < DELTA_MODE_COUNT; i++) {
        delta_mode mode = DELTA_MODE_COUNT;
        if (!engine->mode_from_name(delta_mode_name((delta_mode)i), &mode) || (int)mode != i)
            return law_fail(v, "a mode is not known by its name", "%s", delta_mode_name((delta_mode)i));
    }
    return true;
}

/* One allocation of a call, by the salt, does not succeed. */
static bool survives_no_memory(const delta_world *w, const delta_engine *engine, const delta_shards *shards,
                               verdict *v) {
    enum { FIRST_ALLOCATIONS = 200 };
    ledger books = {0};
    const cpr_allocator allocator = ledger_allocator(&books);
    const delta_batch batch = delta_batch_of(w->pack);
    const delta_error wanted = {.status = DELTA_NO_MEMORY};
    delta_group *group;
    delta_error error;
    books.fail_at = 1 + salt_below(w->c->salt, MISTAKES, FIRST_ALLOCATIONS);
    if (delta_group_create(&allocator, &group, &error) == DELTA_OK) {
        engine->backward(group, &w->layer, &batch, (const scalar *const *)w->rank_rows,
                         (const scalar *const *)w->rank_grads, shards->row_grads, shards->parameter_grads,
                         &error);
        delta_group_free(group);
    }
    const bool failed = books.allocations >= books.fail_at;
    if (!ledger_settled(&books, "backward without memory", v) || !failed)
        return v->outcome != LAW_FAILED;
    return delta_refused(&error, &wanted, "backward without memory", v) &&
           delta_world_untouched(w, shards, "no_memory", v);
}

void judge_delta_errors(const delta_case *c, const delta_engine *engine, verdict *v) {
    scratch memory = {0};
    delta_world w;
    delta_shards shards;
    delta_group *group;
    delta_error error;
    if (delta_expected(&c->shape, &c->batch[0]).status != DELTA_OK) {
        law_skip(v, "it is wrong already");
        return;
    }
    if (delta_group_create(NULL, &group, &error) != DELTA_OK) {
        subject_no_memory(v);
        return;
    }
    const scalar *parameters = delta_world_parameters(c, &in_field, &memory);
    if (!parameters)
        subject_no_memory(v);
    else if (names_are_told_apart(engine, v) &&
             delta_world_make(&w, c, 0, &in_field, parameters, &memory, v) &&
             delta_world_shards(&w, &shards, v) && refuses_mistakes(&w, engine, group, &shards, v))
        survives_no_memory(&w, engine, &shards, v);
    delta_group_free(group);
    scratch_free(&memory);
}
