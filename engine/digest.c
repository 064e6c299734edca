/* SPDX-License-Identifier: Apache-2.0 */
#include "digest.h"

#include "cu_seqlens.h"
#include "error.h"
#include "tensor_ranks.h"
#include "xxh64.h"

/* Reads four entries. Does each differ from the one before it, the first one from `before`? */
static inline bool read_distinct(cpr_entries *entries, int64_t before, uint64_t four[4]) {
    bool distinct = true;
    for (int i = 0; i < 4; i++) {
        const int64_t entry = cpr_entries_read(entries);
        distinct &= entry != before;
        four[i] = (uint64_t)entry;
        before = entry;
    }
    return distinct;
}

/* Equal neighbours count once. Where there are none, entries are hashed by fours as they are read. */
uint64_t cpr_boundaries_digest(const cpr_cu_seqlens *cu_seqlens) {
    cpr_xxh64 state = cpr_xxh64_begin(0);
    cpr_entries entries = cpr_entries_from(cu_seqlens, 0);
    int64_t before = -1;
    for (int64_t left = cu_seqlens->count; left > 0;) {
        cpr_entries ahead = entries;
        uint64_t four[4];
        if (state.words % 4 == 0 && left >= 4 && read_distinct(&ahead, before, four)) {
            cpr_xxh64_add_stripe(&state, four);
            before = (int64_t)four[3];
            entries = ahead;
            left -= 4;
            continue;
        }
        const int64_t entry = cpr_entries_read(&entries);
        if (entry != before) {
            cpr_xxh64_add(&state, (uint64_t)entry);
            before = entry;
        }
        left--;
    }
    return cpr_xxh64_end(&state);
}

static bool is_in_order(const int64_t *group_ranks, int64_t count) {
    for (int64_t logical = 0; group_ranks != NULL && logical < count; logical++) {
        if (group_ranks[logical] != logical) {
            return false;
        }
    }
    return true;
}

uint64_t cpr_grouped_digest(uint64_t boundaries_digest, int64_t cp_size, const cpr_tensor_ranks *tp) {
    const int64_t tp_size = cpr_tp_size(tp);
    const int64_t count = cp_size * tp_size;
    uint64_t digest = boundaries_digest;
    if (tp_size > 1) {
        digest = cpr_xxh64_of(&tp_size, 1, digest);
    }
    if (!is_in_order(tp->group_ranks, count)) {
        digest = cpr_xxh64_of(tp->group_ranks, count, digest);
    }
    return digest;
}

uint64_t cpr_padded_digest(uint64_t boundaries_digest, int64_t cp_size) {
    return cpr_xxh64_of(&cp_size, 1, boundaries_digest);
}

enum { DIGEST_OF_NONE = 0, DIGEST_INSTEAD_OF_NONE = 1 };

uint64_t cpr_route_digest(const cpr_route *route) {
    if (route == NULL) {
        return DIGEST_OF_NONE;
    }
    const int64_t facts[] = {
        (int)route->source,
        (int)route->target,
        route->geometry.cp_size,
        route->total_tokens,
        (int64_t)route->boundaries_digest,
    };
    const uint64_t digest = cpr_xxh64_of(facts, (int64_t)(sizeof facts / sizeof facts[0]), 0);
    return digest == DIGEST_OF_NONE ? DIGEST_INSTEAD_OF_NONE : digest;
}

cpr_status cpr_digests_check(const uint64_t *digests, int64_t count, cpr_error *error) {
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    if (count < 1) {
        return cpr_fail(outcome, CPR_BAD_CP_SIZE, -1, count, 1);
    }
    for (int64_t rank = 1; rank < count; rank++) {
        if (digests[rank] != digests[0]) {
            return cpr_fail(outcome, CPR_DIVERGENT_METADATA, rank, (int64_t)digests[rank],
                            (int64_t)digests[0]);
        }
    }
    /* Ranks that were all refused agree, but have nothing to exchange. */
    if (digests[0] == DIGEST_OF_NONE) {
        return cpr_fail(outcome, CPR_DIVERGENT_METADATA, 0, DIGEST_OF_NONE, DIGEST_OF_NONE);
    }
    return cpr_succeed(outcome);
}
