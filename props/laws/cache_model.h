/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strict model of the validity cache: a plain list, searched from end to end, that knows the true contents of every tensor.
 * It says what a lookup must answer, whether it must hit, and whether a stale answer would be excused because of a
 * write that the version guard is documented to be blind to.
 */
#ifndef CPROUTE_PROPS_CACHE_MODEL_H
#define CPROUTE_PROPS_CACHE_MODEL_H

#include "cache_world.h"

enum { MODEL_CAPTURERS = 16, MODEL_TENSORS = 4 };

typedef struct model_contents {
    int64_t count;
    int64_t entries[CACHE_ENTRIES_MAX]; /* without empty sequences */
} model_contents;

/* What the version guard looks at, and what it cannot see. */
typedef struct model_state {
    bool present;
    uint64_t identity, storage, version, untracked;
    int64_t offset, stride, count, device_index;
    cpr_device device;
    cpr_dtype dtype;
} model_state;

typedef struct model_question {
    bool verdict;
    cpr_guard guard;
    cpr_geometry geometry;
    cpr_layout source, target;
    int64_t tp_size;
} model_question;

typedef struct model_entry {
    model_question question;
    int state_count; /* version guard */
    model_state states[MODEL_TENSORS];
    model_contents contents;
    model_contents kv; /* of a verdict under the version guard */
    int64_t rows;
    uint64_t used;
    bool superseded;
    int capturer_count;
    struct {
        uint64_t identity, when;
    } capturers[MODEL_CAPTURERS];
    const cpr_route *route; /* that the cache gave; NULL: not seen yet */
} model_entry;

typedef struct model {
    model_entry *entries;
    int count, room;
    uint64_t clock;
    int64_t max_entries;
    uint64_t hits, misses, builds, bypasses, checks, evictions;
} model;

/* A lookup, and what is right for it. */
typedef struct model_answer {
    cpr_error error;
    bool hit;
    bool nothing; /* no route is handed out */
    bool stale;   /* what is kept was made for other contents */
    bool excused; /* and the version guard could not see it */
    cpr_route
        *oracle; /* the right route for the true contents, NULL where there is none or it was not asked for */
    model_entry *entry; /* kept for it, if any; good until the next call */
} model_answer;

void model_begin(model *m, int64_t max_entries);
void model_end(model *m);

/* What is right for the contents that the lookup reads. The caller frees *route, NULL where there is none. */
cpr_error model_build(const cpr_lookup *lookup, cpr_route **route);

/* Answers, and changes the model as the lookup changes the cache. `captured` is the route of the capture that is replayed. The caller
 * frees the oracle. */
model_answer model_get(model *m, const world *w, const world_tensor *t, const cpr_lookup *lookup);
model_answer model_prebuild(model *m, const world *w, const world_tensor *t, const cpr_lookup *lookup);

typedef struct model_params {
    const world_tensor *q, *q_padded, *kv, *kv_padded; /* NULL: absent */
} model_params;
model_answer model_resolve(model *m, const world *w, const model_params *tensors,
                           const cpr_packed_params *params, const cpr_lookup *lookup);

void model_invalidate(model *m, uint64_t identity);
void model_freed(model *m, uint64_t identity);
void model_release(model *m, uint64_t identity);
void model_clear(model *m);
void model_limit(model *m, int64_t max_entries);

int64_t model_captured(const model *m);

/* Adds to trusting[identity % count], for every entry, each tensor that it knows. */
void model_count_trust(const model *m, int32_t *trusting, uint64_t count);

#endif
