/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_key.h"

#include <string.h>

#include "cu_seqlens.h"

_Static_assert(sizeof(cache_state) == 7 * sizeof(int64_t) + 2 * sizeof(int32_t), "states compare as bytes");
_Static_assert(sizeof(cache_question) == 3 * sizeof(int64_t) + 4 * sizeof(int32_t),
               "questions compare as bytes");

bool cache_readable(const cpr_cu_seqlens *boundaries) {
    return boundaries->device == CPR_CPU && (boundaries->data != NULL || boundaries->count < 1);
}

cpr_guard cache_guard_of(const cpr_tensor *tensor, cpr_guard guard) {
    if (guard == CPR_GUARD_VERSION || guard == CPR_GUARD_CONTENT) {
        return guard;
    }
    return cache_readable(&tensor->view) ? CPR_GUARD_CONTENT : CPR_GUARD_VERSION;
}

cache_state cache_state_of(const cpr_tensor *tensor) {
    if (tensor == NULL) {
        return (cache_state){.dtype = CACHE_ABSENT};
    }
    return (cache_state){
        .handle = tensor->handle,
        .storage = tensor->storage,
        .generation = tensor->generation,
        .storage_offset = tensor->storage_offset,
        .stride = tensor->stride,
        .count = tensor->view.count,
        .device_index = tensor->device_index,
        .device = (int32_t)tensor->device,
        .dtype = (int32_t)tensor->view.dtype,
    };
}

void cache_key_of_lookup(const cpr_lookup *lookup, cache_key *key) {
    const cpr_guard guard = cache_guard_of(&lookup->tensor, lookup->guard);
    key->question = (cache_question){
        .cp_size = lookup->geometry.cp_size,
        .cp_rank = lookup->geometry.cp_rank,
        .tp_size = lookup->tp_size == 0 ? 1 : lookup->tp_size,
        .source = (int32_t)lookup->source,
        .target = (int32_t)lookup->target,
        .guard = (int32_t)guard,
    };
    key->boundaries = lookup->tensor.view;
    key->state_count = 0;
    if (guard == CPR_GUARD_VERSION) {
        key->states[key->state_count++] = cache_state_of(&lookup->tensor);
    }
}

/* The finalizer of splitmix64: every bit of the value moves every bit of the result. */
static uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

static uint64_t question_hash(const cache_question *question) {
    const uint64_t sizes = (uint64_t)question->cp_size * UINT64_C(0x9e3779b97f4a7c15) +
                           (uint64_t)question->cp_rank * UINT64_C(0xff51afd7ed558ccd) +
                           (uint64_t)question->tp_size;
    const uint64_t kinds = (uint64_t)(uint32_t)question->source | (uint64_t)(uint32_t)question->target << 16 |
                           (uint64_t)(uint32_t)question->guard << 32 |
                           (uint64_t)(uint32_t)question->verdict << 48;
    return sizes ^ (kinds * UINT64_C(0xd6e8feb86659fd93));
}

uint64_t cache_key_place(uint64_t handle, const cache_question *question) {
    return mix(handle * UINT64_C(0x9e3779b97f4a7c15) ^ question_hash(question));
}

static bool hash_boundaries(const cpr_cu_seqlens *boundaries, uint64_t *hash) {
    if (!cache_readable(boundaries) || boundaries->count < 1 ||
        (boundaries->dtype != CPR_INT32 && boundaries->dtype != CPR_INT64) ||
        cpr_cu_entry(boundaries, 0) != 0) {
        return false;
    }
    int64_t before = 0;
    for (int64_t i = 1; i < boundaries->count; i++) {
        const int64_t entry = cpr_cu_entry(boundaries, i);
        if (entry != before) {
            *hash = (*hash ^ (uint64_t)entry) * UINT64_C(0x9e3779b97f4a7c15);
            *hash ^= *hash >> 32;
            before = entry;
        }
    }
    return true;
}

bool cache_key_hash(cache_key *key) {
    if (key->question.guard == CPR_GUARD_VERSION) {
        key->hash = mix(key->states[0].handle);
        return true;
    }
    uint64_t hash = question_hash(&key->question);
    if (!hash_boundaries(&key->boundaries, &hash)) {
        return false;
    }
    key->hash = mix(hash);
    return true;
}

static bool questions_equal(const cache_key *a, const cache_key *b) {
    return memcmp(&a->question, &b->question, sizeof a->question) == 0;
}

/* Of equal questions, which have equally many states. */
static bool states_equal(const cache_key *a, const cache_key *b) {
    return memcmp(a->states, b->states, (size_t)a->state_count * sizeof a->states[0]) == 0;
}

cache_sequences cache_sequences_of(const cpr_cu_seqlens *boundaries) {
    return (cache_sequences){.boundaries = boundaries, .entry = 0, .end = 0};
}

bool cache_sequences_next(cache_sequences *sequences) {
    while (++sequences->entry < sequences->boundaries->count) {
        const int64_t end = cpr_cu_entry(sequences->boundaries, sequences->entry);
        if (end != sequences->end) {
            sequences->end = end;
            return true;
        }
    }
    return false;
}

static bool sequences_equal(const cpr_cu_seqlens *a, const cpr_cu_seqlens *b) {
    cache_sequences in_a = cache_sequences_of(a);
    cache_sequences in_b = cache_sequences_of(b);
    bool more_a = cache_sequences_next(&in_a);
    bool more_b = cache_sequences_next(&in_b);
    while (more_a && more_b && in_a.end == in_b.end) {
        more_a = cache_sequences_next(&in_a);
        more_b = cache_sequences_next(&in_b);
    }
    return !more_a && !more_b;
}

static size_t entry_size(const cpr_cu_seqlens *boundaries) {
    return boundaries->dtype == CPR_INT32 ? sizeof(int32_t) : sizeof(int64_t);
}

bool cache_boundaries_same(const cpr_cu_seqlens *a, const cpr_cu_seqlens *b) {
    if (a->dtype != b->dtype || a->count != b->count) {
        return false;
    }
    if (a->stride == 1 && b->stride == 1) {
        return memcmp(a->data, b->data, (size_t)a->count * entry_size(a)) == 0;
    }
    int64_t i = 0;
    while (i < a->count && cpr_cu_entry(a, i) == cpr_cu_entry(b, i)) {
        i++;
    }
    return i == a->count;
}

bool cache_key_same(const cache_key *a, const cache_key *b) {
    return questions_equal(a, b) &&
           (a->question.guard == CPR_GUARD_VERSION
                ? states_equal(a, b)
                : cache_readable(&b->boundaries) && cache_boundaries_same(&a->boundaries, &b->boundaries));
}

bool cache_key_equal(const cache_key *a, const cache_key *b) {
    return a->hash == b->hash && questions_equal(a, b) &&
           (a->question.guard == CPR_GUARD_VERSION ? states_equal(a, b)
                                                   : sequences_equal(&a->boundaries, &b->boundaries));
}

bool cache_key_same_place(const cache_key *a, const cache_key *b) {
    if (!questions_equal(a, b) || a->state_count == 0) {
        return false;
    }
    int64_t i = 0;
    while (i < a->state_count && a->states[i].handle == b->states[i].handle &&
           (a->states[i].dtype == CACHE_ABSENT) == (b->states[i].dtype == CACHE_ABSENT)) {
        i++;
    }
    return i == a->state_count;
}

bool cache_key_trusts(const cache_key *key, uint64_t handle) {
    for (int64_t i = 0; i < key->state_count; i++) {
        if (key->states[i].handle == handle && key->states[i].dtype != CACHE_ABSENT) {
            return true;
        }
    }
    return false;
}

int64_t cache_boundaries_bytes(const cpr_cu_seqlens *boundaries) {
    return boundaries->count * (int64_t)entry_size(boundaries);
}

static void copy_entries(const cpr_cu_seqlens *from, size_t size, char *to) {
    const char *data = from->data;
    for (int64_t i = 0; i < from->count; i++) {
        memcpy(to + (size_t)i * size, data + i * from->stride * (int64_t)size, size);
    }
}

void cache_boundaries_copy(cpr_cu_seqlens *boundaries, void *memory) {
    const size_t size = entry_size(boundaries);
    if (boundaries->stride == 1) {
        memcpy(memory, boundaries->data, (size_t)boundaries->count * size);
    } else {
        copy_entries(boundaries, size, memory);
    }
    boundaries->data = memory;
    boundaries->stride = 1;
}
