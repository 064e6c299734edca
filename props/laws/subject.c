/* SPDX-License-Identifier: Apache-2.0 */
#include "subject.h"

bool subject_legal(const route_case *c, verdict *v) {
    return c->expected.status == CPR_OK || law_skip(v, "the case is wrong on purpose");
}

bool subject_listable(const route_case *c, verdict *v) {
    if (!subject_legal(c, v))
        return false;
    if (route_case_tokens(c) > CASE_ENUMERABLE)
        return law_skip(v, "too many tokens to list");
    return c->geometry.cp_size <= GROUP_MAX || law_skip(v, "too many ranks to build");
}

cpr_route_request subject_request(const route_case *c) {
    return (cpr_route_request){
        .cu_seqlens = cpr_cu_seqlens_int64(c->cu, c->entries),
        .rows = c->rows,
        .geometry = c->geometry,
        .source = c->source,
        .target = c->target,
        .tp_size = c->tp_size,
    };
}

cpr_route_request request_of_rank(const cpr_route_request *request, int64_t rank) {
    cpr_route_request other = *request;
    other.geometry.cp_rank = rank;
    return other;
}

cpr_route_request request_reversed(const cpr_route_request *request) {
    cpr_route_request reverse = *request;
    reverse.source = request->target;
    reverse.target = request->source;
    return reverse;
}

uint64_t salt_below(uint64_t salt, unsigned draw, uint64_t below) {
    uint64_t state = salt;
    for (unsigned i = 0; i < draw; i++)
        random_next(&state);
    return random_next(&state) % below;
}

bool subject_no_memory(verdict *v) {
    return law_skip(v, "no memory for the law");
}
