/* SPDX-License-Identifier: Apache-2.0 */
#include "sync_count.h"

#ifndef CPROUTE_CUPTI_LIBRARY

const char *sync_count_open(void) {
    return "built without CUPTI, which counts the calls";
}

void sync_count_close(void) {
}

void sync_count_into(sync_count *count) {
    (void)count;
}

#else

#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* CUPTI is loaded by who counts, and by nobody else. */
static struct {
    CUptiResult (*subscribe)(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *context);
    CUptiResult (*unsubscribe)(CUpti_SubscriberHandle subscriber);
    CUptiResult (*enable_domain)(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                 CUpti_CallbackDomain domain);
} cupti;

static const char *load_cupti(void) {
    void *library = dlopen(CPROUTE_CUPTI_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return "CUPTI cannot be loaded, which counts the calls";
    /* dlsym gives object pointers, which POSIX lets be those of functions */
    *(void **)&cupti.subscribe = dlsym(library, "cuptiSubscribe");
    *(void **)&cupti.unsubscribe = dlsym(library, "cuptiUnsubscribe");
    *(void **)&cupti.enable_domain = dlsym(library, "cuptiEnableDomain");
    return cupti.subscribe && cupti.unsubscribe && cupti.enable_domain ? NULL : "CUPTI lacks a function";
}

/* Runtime functions and the driver functions that they call are told of, both. A wait is counted in each: what is reported is the
 * larger of the two, so that neither hides the other. */
typedef struct tally {
    int64_t waits, reads, allocations, queries, calls;
} tally;

static struct {
    sync_count *count;
    tally runtime, driver;
    pthread_t thread;
    CUpti_SubscriberHandle subscriber;
} counter;

static bool has(const char *name, const char *part) {
    return strstr(name, part) != NULL;
}

/* Names end in versions and per-thread variants: cuMemcpyDtoH_v2_ptds, cudaMemcpy_v3020. */
static bool is_wait(const char *name) {
    return has(name, "Synchronize") || (has(name, "Memcpy") && !has(name, "Async") && !has(name, "Graph"));
}

static bool is_read(const char *name) {
    return has(name, "MemcpyDtoH");
}

static bool is_allocation(const char *name) {
    static const char *const parts[] = {"Malloc",       "MemAlloc",      "MemFree",        "HostAlloc",
                                        "MallocHost",   "HostRegister",  "HostUnregister", "MemCreate",
                                        "MemMap",       "MemUnmap",      "MemRelease",     "cudaFree",
                                        "StreamCreate", "StreamDestroy", "EventCreate",    "EventDestroy"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (has(name, parts[i]))
            return true;
    return false;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static void CUPTIAPI on_call(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                             const void *data) {
    (void)unused, (void)id;
    const CUpti_CallbackData *call = data;
    sync_count *count = counter.count;
    if (call->callbackSite != CUPTI_API_ENTER || !pthread_equal(pthread_self(), counter.thread) || !count)
        return;
    tally *mine = domain == CUPTI_CB_DOMAIN_RUNTIME_API ? &counter.runtime : &counter.driver;
    const char *name = call->functionName;
    mine->calls++;
    if (is_read(name))
        mine->reads++;
    if (has(name, "StreamQuery") || has(name, "EventQuery"))
        mine->queries++;
    if (is_wait(name)) {
        mine->waits++;
        snprintf(count->last_wait, sizeof count->last_wait, "%s", name);
    }
    if (is_allocation(name)) {
        mine->allocations++;
        snprintf(count->last_allocation, sizeof count->last_allocation, "%s", name);
    }
}

static void settle(void) {
    const tally *r = &counter.runtime, *d = &counter.driver;
    if (counter.count) {
        counter.count->waits += larger(r->waits, d->waits);
        counter.count->reads += larger(r->reads, d->reads);
        counter.count->allocations += larger(r->allocations, d->allocations);
        counter.count->queries += larger(r->queries, d->queries);
        counter.count->calls += larger(r->calls, d->calls);
    }
    counter.runtime = counter.driver = (tally){0};
}

void sync_count_into(sync_count *count) {
    settle();
    counter.count = count;
}

const char *sync_count_open(void) {
    const char *reason = load_cupti();
    if (reason)
        return reason;
    counter.count = NULL;
    counter.thread = pthread_self();
    if (cupti.subscribe(&counter.subscriber, on_call, NULL) != CUPTI_SUCCESS)
        return "CUPTI takes no subscriber: a profiler or compute-sanitizer is at work";
    if (cupti.enable_domain(1, counter.subscriber, CUPTI_CB_DOMAIN_DRIVER_API) != CUPTI_SUCCESS ||
        cupti.enable_domain(1, counter.subscriber, CUPTI_CB_DOMAIN_RUNTIME_API) != CUPTI_SUCCESS) {
        cupti.unsubscribe(counter.subscriber);
        return "CUPTI does not tell of calls";
    }
    return NULL;
}

void sync_count_close(void) {
    sync_count_into(NULL);
    cupti.unsubscribe(counter.subscriber);
}

#endif
