/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "laws.h"
#include "scratch.h"
#include "subject.h"
#include <inttypes.h>

static int64_t factor_of(uint64_t salt, int64_t total) {
    const int64_t largest = total == 0 ? INT64_MAX : INT64_MAX / total;
    const int64_t to_2_62 = total == 0 ? INT64_MAX : (INT64_C(1) << 62) / total;
    switch (salt_below(salt, 0, 4)) {
    case 0:
        return 2 + (int64_t)salt_below(salt, 1, 7) <= largest ? 2 + (int64_t)salt_below(salt, 1, 7) : 1;
    case 1:
        return to_2_62 > 0 ? to_2_62 : 1;
    case 2:
        return 1 + (int64_t)salt_below(salt, 1, (uint64_t)largest);
    default:
        return largest;
    }
}

static bool scales(const cpr_run_list *one, const cpr_run_list *scaled, int64_t k, scratch *s, verdict *v) {
    cpr_run_list wanted = *one;
    wanted.runs = scratch_bytes(s, (size_t)one->count * sizeof(cpr_run));
    if (!wanted.runs)
        return subject_no_memory(v);
    wanted.rows *= k;
    for (int64_t i = 0; i < one->count; i++) {
        const cpr_run *run = &one->runs[i];
        wanted.runs[i] = (cpr_run){run->peer, run->source_row * k, run->target_row * k, run->length * k};
    }
    return same_run_list(scaled, "scaled boundaries", &wanted, "the scaled route",
                         "scaled boundaries do not give the scaled route", v);
}

static bool judge_factor(const cpr_route_request *request, const route_case *c, int64_t k,
                         const engine_under_test *engine, const cpr_route *one, scratch *s, verdict *v) {
    int64_t *cu = scratch_int64(s, c->entries);
    if (!cu)
        return subject_no_memory(v);
    for (int64_t i = 0; i < c->entries; i++)
        cu[i] = c->cu[i] * k;
    cpr_route_request scaled_request = *request;
    scaled_request.cu_seqlens = cpr_cu_seqlens_int64(cu, c->entries);
    if (request->rows != CPR_ROWS_UNCHECKED)
        scaled_request.rows = request->rows * k;

    cpr_route *scaled = NULL;
    cpr_error error;
    const cpr_status status = engine->build[BY_INTERVALS](&scaled_request, NULL, &scaled, &error);
    if (!call_ok(status, &error, "the builder with scaled boundaries", v))
        return false;
    bool good = scaled->total_tokens == cu[c->entries - 1] ||
                law_fail(v, "scaled boundaries do not give the scaled route",
                         "tokens %" PRId64 ", should be %" PRId64, scaled->total_tokens, cu[c->entries - 1]);
    good = good && scales(&one->send, &scaled->send, k, s, v) && scales(&one->recv, &scaled->recv, k, s, v);
    const char *why = "";
    if (good && !engine->validate(scaled, NULL, &why))
        good = law_fail(v, "a built route does not validate", "%s", why);
    cpr_route_free(scaled);
    return good;
}

void judge_scale(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_legal(c, v))
        return;
    const cpr_route_request request = subject_request(c);
    const int64_t k = factor_of(c->salt, route_case_tokens(c));
    cpr_route *one;
    if (!engine_builds(engine, &request, &one, v))
        return;
    scratch s = {0};
    judge_factor(&request, c, k, engine, one, &s, v);
    scratch_free(&s);
    cpr_route_free(one);
}
