/* SPDX-License-Identifier: Apache-2.0 */
#include "give_up.h"

#include "deadline.h"
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Shared by who waits and who aborts; the last of them frees it. */
typedef struct giving_up {
    ncclComm_t comm;
    int device; /* -1: unknown */
    atomic_bool done;
    atomic_int holders;
} giving_up;

static void let_go(giving_up *a) {
    if (atomic_fetch_sub(&a->holders, 1) == 1) {
        free(a);
    }
}

/* A thread begins on device 0, on which NCCL would make a context when it goes back to it. */
static void *abort_in_background(void *context) {
    giving_up *a = context;
    if (a->device >= 0) {
        (void)cudaSetDevice(a->device);
    }
    (void)ncclCommAbort(a->comm);
    atomic_store(&a->done, true);
    let_go(a);
    return NULL;
}

static bool start_thread(giving_up *a) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the caller's threads' */
    const bool started = pthread_create(&thread, &attributes, abort_in_background, a) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return started;
}

static int current_device(void) {
    int device = -1;
    return cudaGetDevice(&device) == cudaSuccess ? device : -1;
}

void cpr_comm_give_up(ncclComm_t comm, int64_t limit_ms) {
    giving_up *a = malloc(sizeof *a);
    if (a != NULL) {
        *a = (giving_up){.comm = comm, .device = current_device()};
        atomic_init(&a->done, false);
        atomic_init(&a->holders, 2);
        if (!start_thread(a)) {
            free(a);
            a = NULL;
        }
    }
    if (a == NULL) { /* what other ranks wait for must end all the same */
        (void)ncclCommAbort(comm);
        return;
    }
    const cpr_deadline deadline = cpr_deadline_in(limit_ms);
    while (!atomic_load(&a->done) && !cpr_deadline_passed(&deadline)) {
        cpr_deadline_pause(&deadline);
    }
    let_go(a);
}
