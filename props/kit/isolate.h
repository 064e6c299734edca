/* SPDX-License-Identifier: Apache-2.0 */
/* Judges a case in a process of its own, so that a law which crashes or hangs is a law with a verdict like any other. */
#ifndef CPROUTE_PROPS_ISOLATE_H
#define CPROUTE_PROPS_ISOLATE_H

#include "shrink.h"
#include <sys/types.h>

/* What another process writes and this one reads. NULL without memory. */
void *shared_memory(size_t size);
void shared_memory_free(void *memory, size_t size);

/* A law at work in another process, which is replaced when the law ends it. */
typedef struct workshop {
    const law *l;
    void *subject;      /* to be drawn into; both processes see it */
    unsigned timeout_s; /* a law that takes longer hangs */
    verdict *answer;
    pid_t worker; /* 0: none */
    int wire;
} workshop;

/* False without memory. */
bool workshop_open(workshop *w, const law *l, unsigned timeout_s);
void workshop_close(workshop *w);

/* Judges w->subject. Crashes and hangs are failures with a reason of their own; a failure is one only if a worker fresh
 * from the start finds it. What the law prints is dropped. */
const verdict *workshop_judge(workshop *w);

/* The reason of the failure that a process ended with, NULL if it ended well. Static. */
const char *failure_of_exit(int status);
extern const char *const REASON_HANG;

/* The verdict on a case whose judgement ended a process. */
void verdict_of_lost_law(verdict *v, const char *reason);

/* In a process just forked: signals do what they do by default, whatever the parent made of them. */
void restore_signals(void);

/* The status that a child ends with, waited for through interruptions. */
int wait_for(pid_t process);

#endif
