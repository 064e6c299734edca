/* SPDX-License-Identifier: Apache-2.0 */
/* How long something may take, and pauses between two looks at whether it is done. */
#ifndef CPROUTE_DEADLINE_H
#define CPROUTE_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

typedef struct cpr_deadline {
    int64_t begun_ns;
    int64_t limit_ms;
} cpr_deadline;

static inline int64_t cpr_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline cpr_deadline cpr_deadline_in(int64_t limit_ms) {
    return (cpr_deadline){.begun_ns = cpr_clock_ns(), .limit_ms = limit_ms};
}

static inline int64_t cpr_deadline_waited_ms(const cpr_deadline *deadline) {
    return (cpr_clock_ns() - deadline->begun_ns) / 1000000;
}

static inline bool cpr_deadline_passed(const cpr_deadline *deadline) {
    return cpr_deadline_waited_ms(deadline) >= deadline->limit_ms;
}

/* What is done soon is noticed at once; what takes long costs no processor. */
static inline void cpr_deadline_pause(const cpr_deadline *deadline) {
    enum { SOON_MS = 1, PAUSE_NS = 50000 };
    if (cpr_deadline_waited_ms(deadline) >= SOON_MS) {
        const struct timespec pause = {.tv_nsec = PAUSE_NS};
        nanosleep(&pause, NULL);
    }
}

#endif
