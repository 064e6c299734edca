/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer of gpu_tests with no GPU: its host code against the stand-in for CUDA and NCCL, its kernels block by block as loops, ranks
 * simulated or in threads; judged by the laws that judge it on GPUs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "corpus_table.h"
#include "cuda_double.h"
#include "delta_judge.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MOST_THREADS = 3, DRAWN = 24, DRAWN_FOR_THREADS = 5, ARENA_BYTES = 1 << 20 };

/* pack.c wants a corpus, and nothing here does. */
const corpus_row corpus_rows[1];
const int64_t corpus_row_count = 0;

/*------------------------------------------------------------------------------
 * A stage
 *----------------------------------------------------------------------------*/

bool stage_cuda(const stage *s, cudaError_t result, const char *what, const char *file, int line_number) {
    return result == cudaSuccess || stage_fail(s, "%s:%d: %s", file, line_number, what);
}

bool stage_nccl(const stage *s, ncclResult_t result, const char *what, const char *file, int line_number) {
    return result == ncclSuccess || stage_fail(s, "%s:%d: %s", file, line_number, what);
}

bool stage_cpr(const stage *s, cpr_status status, const cpr_error *error, const char *what) {
    return status == CPR_OK || stage_fail(s, "%s: %s", what, cpr_status_name(error->status));
}

bool stage_wait(const stage *s) {
    cpr_error error;
    return s->real ? cpr_cuda_group_wait(s->group, s->stream, &error) == CPR_OK
                   : cudaStreamSynchronize(s->stream) == cudaSuccess;
}

void *stage_allocate(const stage *s, size_t bytes) {
    void *memory = NULL;
    (void)s;
    assert_int_equal(cudaMalloc(&memory, bytes ? bytes : 1), cudaSuccess);
    return memory;
}

/* All ranks ask alike. */
void *stage_allocate_shared(const stage *s, size_t bytes) {
    if (!s->real || !s->direct)
        return stage_allocate(s, bytes);
    const size_t begin = s->arena->used;
    s->arena->used += (bytes + 15) / 16 * 16;
    s->arena->blocks++;
    assert_true(s->arena->used <= s->arena->size);
    return (char *)cpr_cuda_window_memory(s->arena->window) + begin;
}

void stage_free_shared(const stage *s, void *memory) {
    if (!s->real || !s->direct)
        cudaFree(memory);
    else if (--s->arena->blocks == 0)
        s->arena->used = 0;
}

static void open_simulated(stage *s, report *r, int64_t ranks, bool direct) {
    memset(r, 0, sizeof *r);
    *s = (stage){.report = r, .cp_size = ranks, .count = ranks, .direct = direct};
    assert_int_equal(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), cudaSuccess);
}

static void close_simulated(stage *s) {
    assert_int_equal(cudaStreamDestroy(s->stream), cudaSuccess);
    assert_int_equal(double_held(), 0);
}

static void expect(bool good, const report *r) {
    if (!good)
        fail_msg("%s", r->reason);
    assert_true(r->cases > 0);
}

/*------------------------------------------------------------------------------
 * Simulated ranks
 *----------------------------------------------------------------------------*/

/* With a route, and without. */
static void the_laws_hold_for(delta_case *c, int64_t ranks, const char *name) {
    for (int direct = 0; direct <= 1; direct++) {
        stage s;
        report r;
        open_simulated(&s, &r, ranks, direct);
        expect(delta_judge(&s, c, name), &r);
        close_simulated(&s);
    }
}

static void the_laws_hold_on_simulated_ranks(void **state) {
    (void)state;
    for (int64_t i = 0; i < DRAWN; i++) {
        delta_case c;
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "drawn %d", (int)i);
        delta_case_draw_for(1, i, 0, &c);
        the_laws_hold_for(&c, c.batch[0].cp_size, name);
    }
}

static void heads_are_of_any_size(void **state) {
    (void)state;
    delta_case c;
    delta_case_of_heads(2, 33, 40, &c);
    the_laws_hold_for(&c, 2, "heads of 33 x 40");
}

static void halos_are_of_several_ranks(void **state) {
    (void)state;
    delta_case c;
    delta_case_of_short_ranks(5, &c);
    the_laws_hold_for(&c, 5, "short ranks");
}

static void damage_is_seen(void **state) {
    (void)state;
    stage s;
    report r;
    open_simulated(&s, &r, 3, false);
    expect(delta_judge_control(&s), &r);
    close_simulated(&s);
}

/*------------------------------------------------------------------------------
 * Ranks in threads
 *----------------------------------------------------------------------------*/

typedef struct player {
    int64_t rank, ranks;
    bool direct;
    ncclComm_t comm;
    report report;
    bool good;
    int64_t held;
} player;

static void *rank_plays(void *context) {
    player *p = context;
    const cpr_cuda_group_options group_options = {.timeout_ms = 60000};
    arena shared = {.size = ARENA_BYTES};
    stage s = {.report = &p->report,
               .arena = &shared,
               .cp_size = p->ranks,
               .first = p->rank,
               .count = 1,
               .real = true,
               .direct = p->direct,
               .comm = p->comm};
    cpr_error error;
    (void)cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking);
    p->good = cpr_cuda_group_create(p->comm, &group_options, NULL, &s.group, &error) == CPR_OK &&
              cpr_cuda_window_create(s.group, NULL, ARENA_BYTES, NULL, &shared.window, &error) == CPR_OK;
    for (int64_t i = 0; p->good && i < DRAWN_FOR_THREADS; i++) {
        delta_case c;
        if (i == 0)
            delta_case_of_short_ranks(p->ranks, &c);
        else
            delta_case_draw_for((uint64_t)p->ranks, i, p->ranks, &c);
        p->good = delta_judge(&s, &c, "drawn");
    }
    cpr_cuda_window_release(shared.window);
    cpr_cuda_group_free(s.group);
    (void)cudaStreamDestroy(s.stream);
    p->held = double_held();
    return NULL;
}

static void ranks_play(int64_t ranks, bool direct) {
    static player players[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    double_world *world = double_world_make((int)ranks);
    memset(players, 0, sizeof players);
    if (direct)
        double_world_reachable(world);
    for (int64_t i = 0; i < ranks; i++) {
        players[i].rank = i;
        players[i].ranks = ranks;
        players[i].direct = direct;
        players[i].comm = double_comm_make(world, (int)i);
        assert_int_equal(pthread_create(&threads[i], NULL, rank_plays, &players[i]), 0);
    }
    for (int64_t i = 0; i < ranks; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int64_t i = 0; i < ranks; i++) {
        expect(players[i].good, &players[i].report);
        assert_int_equal(players[i].held, 0);
        double_comm_free(players[i].comm);
    }
    double_world_free(world);
}

static void the_laws_hold_on_ranks_that_talk(void **state) {
    (void)state;
    for (int64_t ranks = 2; ranks <= MOST_THREADS; ranks++)
        ranks_play(ranks, false);
}

static void the_laws_hold_without_a_route(void **state) {
    (void)state;
    ranks_play(2, true);
    ranks_play(3, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_laws_hold_on_simulated_ranks), cmocka_unit_test(heads_are_of_any_size),
        cmocka_unit_test(halos_are_of_several_ranks),       cmocka_unit_test(damage_is_seen),
        cmocka_unit_test(the_laws_hold_on_ranks_that_talk), cmocka_unit_test(the_laws_hold_without_a_route),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
