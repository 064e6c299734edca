/* SPDX-License-Identifier: Apache-2.0 */
/* cproute_gpu_tests: `--help` tells how it is used. This process forks, watches and tells; it never starts CUDA itself. */
#include "kit/isolate.h"
#include "measured.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    EXIT_GOOD = 0,
    EXIT_FINDINGS = 1,
    EXIT_USAGE = 2,
    PROBE_S = 60,
    OLDEST_MAJOR = 8, /* compute capability; ci/cmake/cuda.cmake has code for it and for what is newer */
    NCCL_SHARES_GPUS = 23000 /* the first version with NCCL_MULTI_RANK_GPU_ENABLE */
};

/*==============================================================================
 * MARK: - The machine
 *============================================================================*/

static void read_driver_version(machine *m) {
    FILE *file = fopen("/proc/driver/nvidia/version", "r");
    char text[200];
    if (!file)
        return;
    const bool there = fgets(text, sizeof text, file);
    fclose(file);
    /* NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  date: the first word that begins with a digit and has a dot */
    for (char *word = there ? strtok(text, " \t\n") : NULL; word; word = strtok(NULL, " \t\n"))
        if (*word >= '0' && *word <= '9' && strchr(word, '.')) {
            snprintf(m->driver, sizeof m->driver, "%s", word);
            return;
        }
}

/* The devices before the first that is too old. */
static int64_t new_enough(machine *m, int count) {
    int i = 0;
    while (i < count && i < DEVICES_MAX && m->devices[i].major >= OLDEST_MAJOR)
        i++;
    if (i == 0 && count > 0)
        snprintf(m->no_gpu, sizeof m->no_gpu, "%.100s has compute capability %d.%d, and %d.0 is needed",
                 m->devices[0].name, m->devices[0].major, m->devices[0].minor, OLDEST_MAJOR);
    return i;
}

static void probe(machine *m) {
    int count = 0;
    cudaDriverGetVersion(&m->cuda_driver);
    cudaRuntimeGetVersion(&m->cuda_runtime);
    ncclGetVersion(&m->nccl);
    read_driver_version(m);
    const cudaError_t result = cudaGetDeviceCount(&count);
    if (m->cuda_driver == 0)
        snprintf(m->no_gpu, sizeof m->no_gpu, "no NVIDIA driver is installed (libcuda)");
    else if (result != cudaSuccess)
        snprintf(m->no_gpu, sizeof m->no_gpu, "%s", cudaGetErrorString(result));
    else if (count == 0)
        snprintf(m->no_gpu, sizeof m->no_gpu, "the CUDA runtime finds no device");
    for (int i = 0; i < count && i < DEVICES_MAX; i++) {
        struct cudaDeviceProp properties;
        if (cudaGetDeviceProperties(&properties, i) != cudaSuccess)
            continue;
        snprintf(m->devices[i].name, sizeof m->devices[i].name, "%s", properties.name);
        m->devices[i].multiprocessors = properties.multiProcessorCount;
        m->devices[i].major = properties.major;
        m->devices[i].minor = properties.minor;
        m->devices[i].gib = (double)properties.totalGlobalMem / (double)(1 << 30);
    }
    m->gpus = result == cudaSuccess ? new_enough(m, count) : 0;
    m->probed = true;
}

/* In a process of its own: one that has started CUDA can fork no ranks. */
static void probe_aside(machine *m) {
    const pid_t process = fork();
    if (process == 0) {
        alarm(PROBE_S);
        probe(m);
        _exit(0);
    }
    int status = 0;
    if (process > 0)
        waitpid(process, &status, 0);
    if (!m->probed)
        snprintf(m->no_gpu, sizeof m->no_gpu, "the CUDA runtime did not answer within %d s, or died",
                 PROBE_S);
}

/*==============================================================================
 * MARK: - The run
 *============================================================================*/

static run_setup set_up(const options *o, const machine *m) {
    run_setup setup = {.options = o, .gpus = m->gpus, .in_process = o->in_process};
    if (!o->oversubscribe && !o->ranks && !o->in_process)
        setup.by = meeting_launcher();
    if (setup.by.launcher) {
        setup.ranks = setup.by.ranks;
        setup.first_rank = setup.by.rank;
        setup.local_ranks = 1;
        return setup;
    }
    setup.shares_gpus = o->oversubscribe > m->gpus;
    setup.one_host = o->one_host;
    setup.ranks = setup.local_ranks = o->oversubscribe ? o->oversubscribe : o->ranks ? o->ranks : m->gpus;
    return setup;
}

/* Ranks that share a GPU, as GPUs of one host. */
static bool can_share_host(const machine *m) {
    return m->nccl >= NCCL_SHARES_GPUS;
}

/* NULL: it can be run here. */
static const char *reason_to_skip(const job *j, const run_setup *setup, const machine *m) {
    static char few[120];
    if (m->gpus == 0)
        return m->no_gpu;
    if (!j->real && setup->by.launcher)
        return "needs no other ranks: run it without a launcher";
    if (j->real && setup->in_process)
        return "needs processes of its own, which --in-process forbids";
    if (j->real && setup->one_host && !can_share_host(m))
        return "--one-host needs NCCL 2.30: before, ranks of one host could not share a GPU";
    if (j->real && setup->ranks < j->least_ranks) {
        snprintf(few, sizeof few,
                 "needs %lld ranks, and here is one GPU: --oversubscribe %lld has them share it",
                 (long long)j->least_ranks, (long long)j->least_ranks);
        return few;
    }
    return NULL;
}

static void run_one(const job *j, const run_setup *setup, const machine *m, board *b, job_result *result) {
    const char *reason = reason_to_skip(j, setup, m);
    if (!reason) {
        job_run(j, setup, b, result);
        return;
    }
    memset(b, 0, sizeof *b);
    memset(result, 0, sizeof *result);
    result->outcome = JOB_SKIPPED;
    snprintf(result->text, sizeof result->text, "%s", reason);
}

static void add(totals *t, const job_result *result) {
    t->passed += result->outcome == JOB_PASSED;
    t->failed += result->outcome == JOB_FAILED;
    t->skipped += result->outcome == JOB_SKIPPED;
    t->wrong += result->wrong;
}

/* Of several launchers, that of rank 0 tells; the others tell only what fails. */
static int run_all(const options *o, const machine *m, const run_setup *setup, board *b, FILE *json,
                   int count, char **arguments) {
    static job_result result; /* large */
    const bool tells = setup->first_rank == 0;
    const job *jobs;
    const int64_t job_count = job_list(&jobs);
    totals t = {0};
    if (tells)
        table_header(stdout, m, setup);
    if (json)
        json_begin(json, m, setup, count, arguments);
    bool first = true;
    for (int64_t i = 0; i < job_count; i++) {
        if (!options_choose(o, jobs[i].name))
            continue;
        run_one(&jobs[i], setup, m, b, &result);
        add(&t, &result);
        if (tells || result.outcome == JOB_FAILED)
            table_job(tells ? stdout : stderr, &jobs[i], &result, b);
        if (json) {
            json_job(json, &jobs[i], &result, b, first);
            fflush(json);
        }
        first = false;
    }
    if (json)
        json_end(json, &t);
    if (tells)
        table_footer(stdout, &t);
    if (first) {
        fprintf(stderr, "cproute_gpu_tests: no test is named so; --list lists them\n");
        return EXIT_USAGE;
    }
    return t.failed || t.wrong ? EXIT_FINDINGS : EXIT_GOOD;
}

static void list_jobs(const options *o) {
    const job *jobs;
    const int64_t count = job_list(&jobs);
    for (int64_t i = 0; i < count; i++)
        if (options_choose(o, jobs[i].name))
            printf("%-28s %s\n", jobs[i].name, jobs[i].meaning);
}

static int wrong_use(const char *text) {
    fprintf(stderr, "cproute_gpu_tests: %s\n", text);
    return EXIT_USAGE;
}

int main(int count, char **arguments) {
    options o;
    int exit_code;
    if (!options_read(count, arguments, &o, &exit_code))
        return exit_code;
    if (o.list) {
        list_jobs(&o);
        return EXIT_GOOD;
    }
    if (o.packs) {
        static pack p; /* large */
        measured_tell(stdout, o.packs, &p);
        return EXIT_GOOD;
    }
    board *b = shared_memory(sizeof *b);
    machine *m = shared_memory(sizeof *m);
    if (!b || !m)
        return wrong_use("no memory");
    if (o.in_process)
        probe(m);
    else
        probe_aside(m);
    if (o.gpus) {
        printf("%lld %s\n", (long long)m->gpus, !m->gpus ? m->no_gpu : can_share_host(m) ? "one-host" : "");
        return EXIT_GOOD;
    }
    const run_setup setup = set_up(&o, m);
    if (setup.ranks > MAX_RANKS)
        return wrong_use("more than 64 ranks");
    if (m->gpus && o.ranks > m->gpus)
        return wrong_use("--ranks asks for more GPUs than there are; --oversubscribe has ranks share them");
    FILE *json = o.json && setup.first_rank == 0 ? fopen(o.json, "w") : NULL;
    if (o.json && setup.first_rank == 0 && !json)
        return wrong_use("the file of --json cannot be written");
    exit_code = run_all(&o, m, &setup, b, json, count, arguments);
    if (o.in_process)
        cudaDeviceReset(); /* what looks for leaks looks now */
    if (json && fclose(json) != 0)
        return wrong_use("the file of --json cannot be written");
    return exit_code;
}
