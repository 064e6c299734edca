/* SPDX-License-Identifier: Apache-2.0 */
#include "shared_route.h"

#include <stdatomic.h>

#include "allocator.h"

typedef struct shared_route {
    atomic_int_fast64_t users;
    cpr_route route;
} shared_route;

static shared_route *shared_of(const cpr_route *route) {
    return (shared_route *)((char *)(uintptr_t)route - offsetof(shared_route, route));
}

const cpr_route *cpr_route_share(cpr_route *route) {
    const cpr_allocator allocator = route->allocator;
    shared_route *shared = cpr_allocate(&allocator, 1, sizeof *shared);
    if (shared == NULL) {
        return NULL;
    }
    atomic_init(&shared->users, 1);
    shared->route = *route;
    cpr_release(&allocator, route, 1, sizeof *route);
    return &shared->route;
}

void cpr_route_retain(const cpr_route *shared) {
    atomic_fetch_add_explicit(&shared_of(shared)->users, 1, memory_order_relaxed);
}

int64_t cpr_route_shared_bytes(const cpr_route *shared) {
    return (int64_t)sizeof(shared_route) +
           (shared->send.count + shared->recv.count) * (int64_t)sizeof(cpr_run);
}

void cpr_route_release(const cpr_route *route) {
    if (route == NULL) {
        return;
    }
    shared_route *shared = shared_of(route);
    if (atomic_fetch_sub_explicit(&shared->users, 1, memory_order_acq_rel) > 1) {
        return;
    }
    const cpr_allocator allocator = route->allocator;
    cpr_release(&allocator, route->send.runs, route->send.count, sizeof(cpr_run));
    cpr_release(&allocator, route->recv.runs, route->recv.count, sizeof(cpr_run));
    cpr_release(&allocator, shared, 1, sizeof *shared);
}
