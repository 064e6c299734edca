/* SPDX-License-Identifier: Apache-2.0 */
/* Judges a case in a process of its own, so that a law which crashes or hangs is a law with a verdict like any other. */
#ifndef CPROUTE_PROPS_ISOLATE_H
#define CPROUTE_PROPS_ISOLATE_H

#include "shrink.h"
#include <sys/types.h>

/* What another process writes and this one reads. NULL without memory. */
void *shared_memory(size_t size);
void shared_memory_free(void *memory, size_t size);

/* `v` is in shared memory. A law that takes longer than `timeout_s` hangs; that and crashes are failures with a reason of
 * their own. The law's output is dropped. */
void judge_isolated(const law *l, const void *subject, unsigned timeout_s, verdict *v);

/* The reason of the failure that a process ended with, NULL if it ended well. Static. */
const char *failure_of_exit(int status);
extern const char *const REASON_HANG;

/* The verdict on a case whose judgement ended a process. */
void verdict_of_lost_law(verdict *v, const char *reason);

/* In a process just forked: signals do what they do by default, whatever the parent made of them. */
void restore_signals(void);

/* waitpid for a process that is ours, through interruptions. */
int wait_for(pid_t process);

#endif
