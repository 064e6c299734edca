/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TIMEOUT_MS = 40000,
    FAULT_TIMEOUT_MS = 4000, /* test_lost_rank.c has a rank sleep for longer */
    MEETING_S = 60,
    SMALLEST_SIMULATED = 2,
    LARGEST_SIMULATED = 8,
    QUICK_SIMULATED = 3,
};

bool test_skip(const stage *s, const char *reason) {
    if (s->report->state == RANK_RUNNING) {
        s->report->state = RANK_SKIPPED;
        snprintf(s->report->reason, sizeof s->report->reason, "%s", reason);
    }
    return true;
}

/* What NCCL reads when it starts. */
static void set_environment(const job *j, const run_setup *setup, int64_t rank) {
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    if (j->fault) /* a dead rank is not knocked at for a minute */
        setenv("NCCL_SOCKET_RETRY_CNT", "4", 0);
    if (!setup->shares_gpus)
        return;
    /* NCCL takes two ranks on one GPU for a mistake, unless it is told, or they seem to be on different hosts. */
    if (setup->one_host) {
        setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
        return;
    }
    char host[32];
    snprintf(host, sizeof host, "cproute-rank-%" PRId64, rank);
    setenv("NCCL_HOSTID", host, 1);
    setenv("NCCL_NET", "Socket", 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_IB_DISABLE", "1", 1);
}

static bool share_id(const stage *s, const job *j, const run_setup *setup, int64_t rank, ncclUniqueId *id) {
    board *b = s->board;
    stage_step(s, "ncclGetUniqueId");
    if (rank == 0 && !NCCL_TRY(s, ncclGetUniqueId(id)))
        return false;
    stage_step(s, "meets the other ranks");
    if (setup->by.launcher) {
        const char *why;
        return meeting_share_id(&setup->by, j->number, MEETING_S, id, &why) || stage_fail(s, "%s", why);
    }
    if (rank == 0) {
        b->id = *id;
        atomic_store(&b->id_there, true);
        return true;
    }
    const double until = seconds_now() + MEETING_S;
    while (!atomic_load(&b->id_there)) {
        if (seconds_now() > until)
            return stage_fail(s, "rank 0 gave no NCCL id in %d s", MEETING_S);
        usleep(500);
    }
    *id = b->id;
    return true;
}

static bool play_real(const job *j, const run_setup *setup, stage *s, int64_t rank) {
    ncclUniqueId id;
    return share_id(s, j, setup, rank, &id) && stage_open_real(s, &id, rank, setup->ranks) && j->play(s);
}

/* The simulation of every size in turn. */
static bool play_simulated(const job *j, const run_setup *setup, stage *s) {
    const bool once = j->where == ONCE || j->where == BOTH_ONCE;
    const int64_t largest = once                    ? SMALLEST_SIMULATED
                            : setup->options->quick ? QUICK_SIMULATED
                                                    : LARGEST_SIMULATED;
    bool good = true;
    for (int64_t ranks = SMALLEST_SIMULATED; good && ranks <= largest; ranks++) {
        good = stage_open_simulated(s, ranks) && j->play(s);
        stage_close(s);
    }
    return good;
}

void job_play(const job *j, const run_setup *setup, board *b, int64_t local_rank) {
    report *r = &b->reports[local_rank];
    const int64_t rank = setup->first_rank + local_rank;
    const int64_t device = setup->by.launcher ? setup->by.local_rank : j->real ? local_rank : 0;
    stage s = {
        .options = setup->options,
        .report = r,
        .board = b,
        .local_ranks = setup->local_ranks,
        .shares_gpus = setup->shares_gpus,
        .one_host = setup->one_host,
        .timeout_ms = j->fault ? FAULT_TIMEOUT_MS : TIMEOUT_MS,
        .never_blocks = j->fault && !j->blocks,
    };
    r->state = RANK_RUNNING;
    stage_step(&s, "starts CUDA");
    set_environment(j, setup, rank);
    if (CUDA_TRY(&s, cudaSetDevice((int)(device % setup->gpus))) && CUDA_TRY(&s, cudaFree(NULL)) &&
        (j->real ? play_real(j, setup, &s, rank) : play_simulated(j, setup, &s)) &&
        r->state == RANK_RUNNING) {
        stage_step(&s, "frees what it has");
        const bool lost =
            s.group && cpr_cuda_group_aborted(s.group); /* and maybe the device's context with it */
        stage_close(&s);
        if (lost || CUDA_TRY(&s, cudaDeviceSynchronize()))
            r->state = RANK_PASSED;
    } else if (r->state == RANK_RUNNING)
        report_fail(r, "the test failed and told no reason, at: %s", r->step);
}
