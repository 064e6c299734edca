/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "group.h"
#include "laws.h"
#include "subject.h"
#include <inttypes.h>
#include <string.h>

typedef struct meeting {
    const engine_under_test *engine;
    const route_case *c;
    const group *routes;
    uint64_t *digests; /* of every rank, each in its place */
} meeting;

/* What every rank comes to when one of them brings another digest. Rank 0 sets the measure. */
static bool refused(const meeting *m, int64_t rank, uint64_t strange, const char *what, verdict *v) {
    const uint64_t own = m->digests[rank];
    if (strange == own)
        return law_fail(v, "a digest does not tell a difference", "%s", what);
    if (m->routes->size == 1)
        return true;
    m->digests[rank] = strange;
    cpr_error error;
    const cpr_status status = m->engine->digests_check(m->digests, m->routes->size, &error);
    const int64_t first = rank == 0 ? 1 : rank;
    const cpr_error wanted = {CPR_DIVERGENT_METADATA, first, (int64_t)m->digests[first],
                              (int64_t)m->digests[0]};
    m->digests[rank] = own;
    return call_refused(status, &error, wanted, what, v);
}

static bool tells(const meeting *m, int64_t rank, cpr_route changed, const char *what, verdict *v) {
    return refused(m, rank, m->engine->route_digest(&changed), what, v);
}

static bool tells_fields(const meeting *m, int64_t rank, verdict *v) {
    const cpr_route own = *m->routes->routes[rank];
    cpr_route source = own, target = own, ranks = own, tokens = own, offsets = own;
    source.source = (cpr_layout)((own.source + 1) % CPR_LAYOUT_COUNT);
    target.target = (cpr_layout)((own.target + 1) % CPR_LAYOUT_COUNT);
    ranks.geometry.cp_size++;
    tokens.total_tokens++;
    offsets.boundaries_digest ^= UINT64_C(1) << salt_below(m->c->salt, 50, 64);
    return tells(m, rank, source, "another source layout", v) &&
           tells(m, rank, target, "another target layout", v) && tells(m, rank, ranks, "another group", v) &&
           tells(m, rank, tokens, "other tokens", v) && tells(m, rank, offsets, "other boundaries", v) &&
           refused(m, rank, m->engine->route_digest(NULL), "a rank that was refused", v);
}

/* Ranks that were all refused agree, and must not exchange all the same. */
static bool tells_that_none_has_a_route(const meeting *m, verdict *v) {
    const uint64_t own = m->digests[0], none = m->engine->route_digest(NULL);
    for (int64_t rank = 0; rank < m->routes->size; rank++)
        m->digests[rank] = none;
    cpr_error error;
    const cpr_status status = m->engine->digests_check(m->digests, m->routes->size, &error);
    const cpr_error wanted = {CPR_DIVERGENT_METADATA, 0, (int64_t)none, (int64_t)none};
    for (int64_t rank = 0; rank < m->routes->size; rank++)
        m->digests[rank] = own;
    return call_refused(status, &error, wanted, "ranks that were all refused", v);
}

/* One inner boundary is moved to the one before it: another pack, and maybe another number of sequences. */
static bool tells_moved_boundary(const meeting *m, int64_t rank, scratch *s, verdict *v) {
    const route_case *c = m->c;
    int64_t *cu = scratch_int64(s, c->entries);
    if (!cu)
        return subject_no_memory(v);
    memcpy(cu, c->cu, (size_t)c->entries * sizeof *cu);
    int64_t moved = c->entries - 2;
    while (moved > 0 && (cu[moved] == cu[moved - 1] || cu[moved] == cu[c->entries - 1]))
        moved--;
    if (moved <= 0)
        return true;
    const int64_t old = cu[moved];
    for (int64_t i = moved; cu[i] == old; i++)
        cu[i] = cu[moved - 1];
    cpr_route_request request = subject_request(c);
    request.cu_seqlens = cpr_cu_seqlens_int64(cu, c->entries);
    request.geometry.cp_rank = rank;
    cpr_route *stranger = NULL;
    cpr_error error;
    const bool good = call_ok(m->engine->build[BY_INTERVALS](&request, NULL, &stranger, &error), &error,
                              "the builder with a boundary moved", v) &&
                      tells(m, rank, *stranger, "a boundary moved", v);
    cpr_route_free(stranger);
    return good;
}

static void judge(const meeting *m, scratch *s, verdict *v) {
    for (int64_t rank = 0; rank < m->routes->size; rank++) {
        m->digests[rank] = m->engine->route_digest(m->routes->routes[rank]);
        if (m->digests[rank] != m->digests[0]) {
            law_fail(v, "ranks of one request have other digests", "rank %" PRId64, rank);
            return;
        }
    }
    const int64_t rank = (int64_t)salt_below(m->c->salt, 51, (uint64_t)m->routes->size);
    cpr_error error;
    if (call_ok(m->engine->digests_check(m->digests, m->routes->size, &error), &error, "digests_check", v) &&
        tells_fields(m, rank, v) && tells_that_none_has_a_route(m, v))
        tells_moved_boundary(m, rank, s, v);
}

void judge_digest(const route_case *c, const engine_under_test *engine, verdict *v) {
    group g;
    const cpr_route_request request = subject_request(c);
    if (!subject_listable(c, v) || !group_build(&g, engine, &request, v))
        return;
    scratch s = {0};
    const meeting m = {engine, c, &g, scratch_bytes(&s, (size_t)g.size * sizeof(uint64_t))};
    if (m.digests)
        judge(&m, &s, v);
    else
        subject_no_memory(v);
    scratch_free(&s);
    group_free(&g);
}
