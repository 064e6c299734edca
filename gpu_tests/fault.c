/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"

#include <inttypes.h>
#include <string.h>

enum { GRACE_S = 20, SEQUENCES_PER_RANK = 16, MOST_WAITS = 10000 };

bool fault_pack(const stage *s, int64_t tokens, pack *p) {
    pack_spread(tokens, SEQUENCES_PER_RANK * s->cp_size, s->cp_size, p);
    cpr_route *route = build_route(s, p, s->first, CPR_ZIGZAG, CPR_CONTIGUOUS);
    if (!route)
        return false;
    int64_t splits[MAX_RANKS];
    bool good = true;
    for (int side = CPR_SEND; side <= CPR_RECV; side++) {
        cpr_error error;
        good = good && stage_cpr(s, cpr_route_splits(route, (cpr_side)side, splits, s->cp_size, &error),
                                 &error, "splits");
        for (int64_t r = 0; good && r < s->cp_size; r++)
            good = splits[r] > 0 ||
                   stage_fail(
                       s, "the pack of the fault tests has no rows between ranks %" PRId64 " and %" PRId64,
                       s->first, r);
    }
    cpr_route_free(route);
    return good;
}

static bool fits(int64_t value, int64_t wanted) {
    return wanted == ANYTHING || value == wanted;
}

bool fault_is(const stage *s, const char *what, const cpr_error *error, const char *name, int64_t index,
              int64_t got, int64_t wanted) {
    if (!strcmp(cpr_status_name(error->status), name) && fits(error->index, index) && fits(error->got, got) &&
        fits(error->wanted, wanted))
        return true;
    return stage_fail(s,
                      "%s: rank %" PRId64 " got %s | %" PRId64 " | %" PRId64 " | %" PRId64
                      "; wanted %s | %" PRId64 " | %" PRId64 " | %" PRId64 " (%" PRId64 ": anything)",
                      what, s->first, cpr_status_name(error->status), error->index, error->got, error->wanted,
                      name, index, got, wanted, (int64_t)ANYTHING);
}

static bool is_of_a_lost_rank(cpr_status status) {
    return status == CPR_NCCL_ERROR || status == CPR_TIMEOUT || status == CPR_PEER_FAILED ||
           status == CPR_CUDA_ERROR;
}

cpr_status fault_run(const stage *s, const trip *t, cpr_error *error) {
    const void *from = t->start.rows[0];
    void *to = t->away.rows[0];
    return t->conversion.direct
               ? cpr_cuda_conversion_run(t->conversion.direct, CPR_FORWARD, from, to, s->stream, error)
               : cpr_cuda_exchange_run(t->conversion.exchange, CPR_FORWARD, from, to, s->stream, error);
}

static cpr_status run_and_wait(const stage *s, const trip *t, int64_t runs, cpr_error *error) {
    for (int64_t i = 0; i < runs; i++)
        if (fault_run(s, t, error) != CPR_OK)
            return error->status;
    return cpr_cuda_group_wait(s->group, s->stream, error);
}

bool fault_ends_in_error(const stage *s, trip *t, int64_t runs) {
    const double limit = (double)s->timeout_ms * 1e-3 + GRACE_S;
    const double begun = seconds_now();
    cpr_error error = {0}, again;
    double call_begun = begun;
    for (int64_t i = 0; i < MOST_WAITS && error.status == CPR_OK && seconds_now() - begun < limit; i++) {
        call_begun = seconds_now();
        run_and_wait(s, t, runs, &error);
    }
    const double took = seconds_now() - call_begun;
    if (error.status == CPR_OK)
        return stage_fail(s, "rank %" PRId64 ": exchanges with a lost rank went well for %.1f s", s->first,
                          seconds_now() - begun);
    if (!is_of_a_lost_rank(error.status))
        return stage_fail(s,
                          "rank %" PRId64 ": a lost rank ended in %s | %" PRId64 " | %" PRId64 " | %" PRId64,
                          s->first, cpr_status_name(error.status), error.index, error.got, error.wanted);
    if (took > limit)
        return stage_fail(s, "rank %" PRId64 ": the error took %.1f s; the timeout is %" PRId64 " ms",
                          s->first, took, s->timeout_ms);
    if (!report_figure(s->report, "seconds until the error", took) ||
        !report_figure(s->report, "its status", (double)error.status))
        return false;
    stage_step(s, "the error stays (%s)", cpr_status_name(error.status));
    const cpr_status later = run_and_wait(s, t, 1, &again);
    if (later != error.status)
        return stage_fail(s, "rank %" PRId64 ": after %s the next call answers %s", s->first,
                          cpr_status_name(error.status), cpr_status_name(later));
    return cpr_cuda_group_aborted(s->group) ||
           stage_fail(s, "rank %" PRId64 ": after %s the communicator is not aborted", s->first,
                      cpr_status_name(error.status));
}
