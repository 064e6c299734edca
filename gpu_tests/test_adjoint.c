/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backward is the adjoint of forward: <A x, y> = <x, A^T y> over all ranks, for random x of the source layout and random y of the
 * target layout, in integers modulo 2^64, where sums do not depend on their order.
 */
#include "tests.h"
#include "trip.h"

#include <inttypes.h>
#include <stdlib.h>

enum { COLUMNS = 24 };

typedef struct vectors {
    payload x, ax, y, aty;
    unsigned long long *sums; /* on the device: <A x, y>, <x, A^T y>, <x, y> */
} vectors;

static bool open_vectors(vectors *v, const stage *s, int64_t rows) {
    const size_t row_bytes = COLUMNS * sizeof(uint64_t);
    v->sums = stage_allocate(s, 3 * sizeof *v->sums);
    return v->sums && payload_make(&v->x, s, rows, row_bytes, 0) &&
           payload_make(&v->ax, s, rows, row_bytes, 0) && payload_make(&v->y, s, rows, row_bytes, 0) &&
           payload_make(&v->aty, s, rows, row_bytes, 0);
}

static void close_vectors(vectors *v) {
    payload_free(&v->x);
    payload_free(&v->ax);
    payload_free(&v->y);
    payload_free(&v->aty);
    cudaFree(v->sums);
}

static bool multiply(const vectors *v, const stage *s, int64_t numbers) {
    for (int64_t i = 0; i < s->count; i++)
        if (!CUDA_TRY(s, gpu_dot(v->ax.rows[i], v->y.rows[i], numbers, &v->sums[0], s->stream)) ||
            !CUDA_TRY(s, gpu_dot(v->x.rows[i], v->aty.rows[i], numbers, &v->sums[1], s->stream)) ||
            !CUDA_TRY(s, gpu_dot(v->x.rows[i], v->y.rows[i], numbers, &v->sums[2], s->stream)))
            return false;
    return true;
}

static bool judge_sums(const vectors *v, const stage *s, const char *name) {
    uint64_t sums[3];
    if (!stage_wait(s) || !CUDA_TRY(s, cudaMemcpy(sums, v->sums, sizeof sums, cudaMemcpyDeviceToHost)))
        return false;
    for (int i = 0; i < 3; i++)
        if (!stage_sum_unsigned(s, &sums[i]))
            return false;
    s->report->cases++;
    if (sums[0] != sums[1])
        return stage_fail(s, "%s, P = %" PRId64 ": <A x, y> = %" PRIu64 ", but <x, A^T y> = %" PRIu64, name,
                          s->cp_size, sums[0], sums[1]);
    /* An A that moved nothing would pass the above. */
    if (s->cp_size > 1 && sums[0] == sums[2])
        return stage_fail(s, "%s, P = %" PRId64 ": <A x, y> = <x, y>: nothing was moved", name, s->cp_size);
    return true;
}

static bool judge_adjoint(const stage *s, const pack *p, cpr_layout source, cpr_layout target,
                          uint64_t seed) {
    const int64_t rows = pack_tokens(p) / s->cp_size, numbers = rows * COLUMNS;
    conversion c;
    vectors v = {0};
    stage_step(s, "adjoint of %s -> %s, %s", cpr_layout_name(source), cpr_layout_name(target), p->name);
    bool good = conversion_open(&c, s, p, source, target, COLUMNS * sizeof(uint64_t)) &&
                open_vectors(&v, s, rows) &&
                CUDA_TRY(s, cudaMemsetAsync(v.sums, 0, 3 * sizeof *v.sums, s->stream));
    for (int64_t i = 0; good && i < s->count; i++)
        good =
            CUDA_TRY(s, gpu_random(v.x.rows[i], numbers, seed + (uint64_t)(2 * (s->first + i)), s->stream)) &&
            CUDA_TRY(s,
                     gpu_random(v.y.rows[i], numbers, seed + (uint64_t)(2 * (s->first + i) + 1), s->stream));
    good = good && conversion_run(&c, CPR_FORWARD, v.x.rows, v.ax.rows) &&
           conversion_run(&c, CPR_BACKWARD, v.y.rows, v.aty.rows) && multiply(&v, s, numbers) &&
           judge_sums(&v, s, p->name);
    close_vectors(&v);
    conversion_close(&c);
    return good;
}

bool test_adjoint(stage *s) {
    pack *p = malloc(sizeof *p);
    bool good = p || stage_fail(s, "no memory for a pack");
    for (int kind = PACK_RAGGED; good && kind <= PACK_EMPTY_SLOTS; kind++) {
        pack_make((pack_kind)kind, s->cp_size, p);
        good = judge_adjoint(s, p, CPR_ZIGZAG, CPR_CONTIGUOUS, (uint64_t)kind * 1000) &&
               judge_adjoint(s, p, CPR_CONTIGUOUS, CPR_ZIGZAG, (uint64_t)kind * 1000 + 500);
    }
    free(p);
    return good;
}
