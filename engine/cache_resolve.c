/* SPDX-License-Identifier: Apache-2.0 */
/* Which boundaries a packed batch is routed by, and whether they are fit for it. */
#include "cache.h"
#include "error.h"
#include "request.h"

static int64_t sequence_count(const cpr_cu_seqlens *boundaries) {
    cache_sequences sequences = cache_sequences_of(boundaries);
    int64_t count = 0;
    while (cache_sequences_next(&sequences)) {
        count++;
    }
    return count;
}

static cpr_status compare(const cpr_cu_seqlens *q, const cpr_cu_seqlens *kv, cpr_error *error) {
    cache_sequences in_q = cache_sequences_of(q);
    cache_sequences in_kv = cache_sequences_of(kv);
    for (;;) {
        const bool more_q = cache_sequences_next(&in_q);
        const bool more_kv = cache_sequences_next(&in_kv);
        if (more_q != more_kv) {
            return cpr_fail(error, CPR_DIVERGENT_METADATA, -1, sequence_count(kv), sequence_count(q));
        }
        if (!more_q) {
            return cpr_succeed(error);
        }
        if (in_q.end != in_kv.end) {
            return cpr_fail(error, CPR_DIVERGENT_METADATA, in_kv.entry, in_kv.end, in_q.end);
        }
    }
}

cpr_status cache_boundaries_agree(const cpr_route_request *q, const cpr_cu_seqlens *kv, cpr_error *error) {
    cpr_route_request request = *q;
    request.cu_seqlens = *kv;
    int64_t rows;
    return cpr_request_validate(&request, &rows, error) != CPR_OK ? error->status
                                                                  : compare(&q->cu_seqlens, kv, error);
}

typedef struct chosen {
    const cpr_tensor *q, *kv; /* NULL if absent */
} chosen;

static chosen choose(const cpr_packed_params *params) {
    return (chosen){
        .q = params->has_q_padded ? &params->q_padded
             : params->has_q      ? &params->q
                                  : NULL,
        .kv = params->has_kv_padded ? &params->kv_padded
              : params->has_kv      ? &params->kv
                                    : NULL,
    };
}

/* All four are trusted: which ones are chosen depends on which are there. */
static bool trust_all(const cpr_packed_params *params, cache_key *key) {
    const cpr_tensor *const present[CACHE_STATES_MAX] = {
        params->has_q ? &params->q : NULL,
        params->has_q_padded ? &params->q_padded : NULL,
        params->has_kv ? &params->kv : NULL,
        params->has_kv_padded ? &params->kv_padded : NULL,
    };
    bool counted = true;
    for (key->state_count = 0; key->state_count < CACHE_STATES_MAX; key->state_count++) {
        const cpr_tensor *tensor = present[key->state_count];
        key->states[key->state_count] = cache_state_of(tensor);
        counted = counted && (tensor == NULL || tensor->has_generation);
    }
    return counted;
}

static cpr_guard guard_of(chosen tensors, cpr_guard guard) {
    const cpr_guard of_q = cache_guard_of(tensors.q, guard);
    return tensors.kv != NULL && of_q == CPR_GUARD_CONTENT ? cache_guard_of(tensors.kv, guard) : of_q;
}

static bool plainly_equal(const cpr_cu_seqlens *q, const cpr_cu_seqlens *kv) {
    return cache_readable(q) && cache_readable(kv) && (q->dtype == CPR_INT32 || q->dtype == CPR_INT64) &&
           q->count > 0 && cache_boundaries_same(q, kv);
}

/* Contents are compared whether or not q is known: equal ones are as legal as q is. */
static cpr_status check_contents(const cpr_route_request *q, const cpr_tensor *kv, cpr_error *error) {
    int64_t rows;
    if (kv == NULL || plainly_equal(&q->cu_seqlens, &kv->view)) {
        return cpr_succeed(error);
    }
    return cpr_request_validate(q, &rows, error) != CPR_OK ? error->status
                                                           : cache_boundaries_agree(q, &kv->view, error);
}

cpr_status cpr_cache_resolve(cpr_cache *cache, const cpr_packed_params *params, int64_t rows, int64_t cp_size,
                             cpr_layout layout, cpr_guard guard, cpr_tensor *resolved, bool *hit,
                             cpr_error *error) {
    error = CPR_ERROR_OR_UNWANTED(error);
    const chosen tensors = choose(params);
    if (tensors.q == NULL) {
        return cpr_fail(error, CPR_EMPTY_CU_SEQLENS, -1, 0, 1);
    }
    cpr_lookup lookup = {
        .tensor = *tensors.q,
        .rows = rows,
        .geometry = {.cp_size = cp_size, .cp_rank = 0},
        .source = layout,
        .target = layout,
        .guard = guard_of(tensors, guard),
    };
    cache_ask ask;
    cache_ask_of_lookup(&lookup, &ask);
    ask.key.question.verdict = 1;
    ask.place = cache_key_place(ask.handle, &ask.key.question);
    if (lookup.guard == CPR_GUARD_VERSION) {
        ask.bypass = !trust_all(params, &ask.key);
        ask.companion = tensors.kv != NULL ? &tensors.kv->view : NULL;
    } else if (check_contents(&ask.request, tensors.kv, error) != CPR_OK) {
        return error->status;
    }
    const cpr_route *none;
    bool found;
    if (cache_obtain(cache, &ask, &none, &found, error) == CPR_OK) {
        *resolved = *tensors.q;
        if (hit != NULL) {
            *hit = found;
        }
    }
    return error->status;
}
