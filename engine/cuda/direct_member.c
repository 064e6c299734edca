/* SPDX-License-Identifier: Apache-2.0 */
#include "direct_member.h"

#include "plan.h"

#include <stdatomic.h>

int64_t cpr_direct_bytes(const cpr_cuda_conversion_request *request) {
    return request->rows * (int64_t)request->row_bytes;
}

cpr_error cpr_direct_request_refused(const cpr_cuda_conversion_request *request, cpr_geometry geometry) {
    /* Offsets that nothing is wrong with: they are judged by each run. */
    const cpr_cu_seqlens legal = cpr_cu_seqlens_int64(&request->rows, 1);
    const cpr_error refused =
        cpr_conversion_refused(&legal, geometry, (int)request->source, (int)request->target, CPR_CPU);
    if (refused.status != CPR_OK) {
        return refused;
    }
    if (request->row_bytes == 0) {
        return cpr_found(CPR_OVERFLOW, -1, 0, 1);
    }
    if (request->rows < 0) {
        return cpr_found(CPR_TOTAL_MISMATCH, -1, request->rows, 0);
    }
    const int64_t widest = request->row_bytes > INT64_MAX / 4 ? INT64_MAX : (int64_t)request->row_bytes;
    const int64_t divisor = widest > geometry.cp_size ? widest : geometry.cp_size;
    const int64_t most = INT64_MAX / 4 / divisor;
    return request->rows > most ? cpr_found(CPR_OVERFLOW, -1, request->rows, most) : cpr_nothing_found();
}

static bool is_aligned(const cpr_cu_seqlens *cu_seqlens) {
    const size_t entry_bytes = cu_seqlens->dtype == CPR_INT64 ? sizeof(int64_t) : sizeof(int32_t);
    return (uintptr_t)cu_seqlens->data % entry_bytes == 0;
}

static cpr_error refusal_of(const cpr_cu_seqlens *on_device, const cpr_direct_member *member,
                            cpr_direction direction, const void *target) {
    const cpr_geometry geometry = {member->facts.ranks, member->rank};
    const cpr_error refused =
        cpr_conversion_refused(on_device, geometry, member->facts.source, member->facts.target, CPR_CUDA);
    if (refused.status != CPR_OK) {
        return refused;
    }
    if (!is_aligned(on_device)) {
        return cpr_found(CPR_DEVICE, -1, -1, CPR_CUDA);
    }
    const int64_t rows = member->facts.rows / member->facts.ranks;
    const cpr_rows from = {member->source, rows}, to = {target, rows};
    cpr_error error = cpr_nothing_found();
    if (cpr_direction_check(direction, &error) == CPR_OK) {
        (void)cpr_rows_check(&from, &to, member->row_bytes, &error);
    }
    return error;
}

static uint64_t digest_of(const cpr_direct_member *member) {
    uint64_t digest = cpr_stirred_in((uint64_t)member->facts.source, (uint64_t)member->facts.target);
    digest = cpr_stirred_in(digest, (uint64_t)member->facts.ranks);
    digest = cpr_stirred_in(digest, (uint64_t)member->facts.rows);
    return cpr_stirred_in(digest, member->row_bytes);
}

cpr_direct_member cpr_direct_member_of(const cpr_cuda_conversion_request *request,
                                       const cpr_cu_seqlens *on_device, cpr_geometry geometry,
                                       cpr_direction direction, const void *source, const void *target) {
    const bool forward = direction == CPR_FORWARD;
    cpr_direct_member member = {
        .offsets = cpr_offsets_of(on_device),
        .facts = {.source = (int)(forward ? request->source : request->target),
                  .target = (int)(forward ? request->target : request->source),
                  .ranks = geometry.cp_size,
                  .rows = request->rows * geometry.cp_size,
                  .tp_size = request->tp_size},
        .rank = geometry.cp_rank,
        .row_bytes = request->row_bytes,
        .source = source,
    };
    member.refusal = refusal_of(on_device, &member, direction, target);
    member.call_digest = digest_of(&member);
    return member;
}

/* As a seqlock is read, by loads that are not kept: what is written there comes from a device, which may fail in the middle. */
cpr_error cpr_direct_report_read(const cpr_direct_report *report, uint64_t *told) {
    const volatile cpr_direct_report *there = report;
    enum { MOST_LOOKS = 1000 };
    for (int look = 0; look < MOST_LOOKS; look++) {
        const uint64_t raised = there->raised;
        atomic_thread_fence(memory_order_acquire);
        if (raised == *told) {
            return cpr_nothing_found();
        }
        const cpr_error error = {there->error.status, there->error.index, there->error.got,
                                 there->error.wanted};
        atomic_thread_fence(memory_order_acquire);
        if (there->begun == raised) {
            *told = raised;
            return error;
        }
    }
    return cpr_nothing_found(); /* whole: it may be there another time */
}
