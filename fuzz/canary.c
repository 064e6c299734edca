/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canary: the equivalence law over an engine whose interval builder has one planted bug. For P = 3, and only if
 * an empty slot lies between two sequences that hold tokens, it answers for the next rank. No seed is given, so
 * a fuzzer that does not find it within seconds has decoding, feedback or judging broken, and its silence on the
 * real laws means nothing.
 */
#include "fuzzed_law.h"
#include "laws/laws.h"
#include <string.h>

/* Views need no alignment. */
static int64_t entry(const cpr_cu_seqlens *cu, int64_t i) {
    const bool narrow = cu->dtype == CPR_INT32;
    const char *at = (const char *)cu->data + (narrow ? 4 : 8) * i * cu->stride;
    int32_t four;
    int64_t eight;
    memcpy(&four, at, sizeof four);
    if (narrow)
        return four;
    memcpy(&eight, at, sizeof eight);
    return eight;
}

static bool empty_slot_between_sequences(const cpr_cu_seqlens *cu) {
    bool seen_tokens = false, seen_slot_after = false;
    for (int64_t i = 1; i < cu->count; i++) {
        bool empty = entry(cu, i) == entry(cu, i - 1);
        if (!empty && seen_slot_after)
            return true;
        seen_slot_after = seen_tokens && (seen_slot_after || empty);
        seen_tokens = seen_tokens || !empty;
    }
    return false;
}

static cpr_status build_with_bug(const cpr_route_request *request, const cpr_allocator *allocator,
                                 cpr_route **route, cpr_error *error) {
    cpr_status status = the_engine.build[BY_INTERVALS](request, allocator, route, error);
    if (status != CPR_OK || request->geometry.cp_size != 3 ||
        !empty_slot_between_sequences(&request->cu_seqlens))
        return status;
    cpr_route_free(*route);
    cpr_route_request wrong = *request;
    wrong.geometry.cp_rank = (request->geometry.cp_rank + 1) % 3;
    return the_engine.build[BY_INTERVALS](&wrong, allocator, route, error);
}

static void judge_canary(const void *subject, verdict *v) {
    engine_under_test engine = the_engine;
    engine.build[BY_INTERVALS] = build_with_bug;
    judge_equivalence(subject, &engine, v);
}

const law *fuzzed_law(void) {
    static const law canary = {
        .id = "canary",
        .meaning = "a planted bug that every fuzzer must find",
        .family = &route_family,
        .judge = judge_canary,
    };
    return &canary;
}
