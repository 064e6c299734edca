/* SPDX-License-Identifier: Apache-2.0 */
/* Judges a case in a process of its own, so that a law which crashes or hangs is a law with a verdict like any other. */
#ifndef CPROUTE_PROPS_ISOLATE_H
#define CPROUTE_PROPS_ISOLATE_H

#include "shrink.h"
#include <sys/types.h>

/* Judges in this process; *log becomes what was drawn, and is complete before the law is called. */
void judge_logged(const law *l, const uint8_t *bytes, size_t length, void *subject, choice_log *log,
                  verdict *v);

/* What another process writes and this one reads. NULL without memory. */
void *shared_memory(size_t size);
void shared_memory_free(void *memory, size_t size);

/* Where an isolated judgement leaves its answer. */
typedef struct isolated {
    choice_log log;
    verdict v;
} isolated;

/* `answer` is shared memory. A law that takes longer than `timeout_s` hangs; that and crashes are failures with a
 * reason of their own. The law's output is dropped. */
void judge_isolated(const law *l, const uint8_t *bytes, size_t length, void *subject, unsigned timeout_s,
                    isolated *answer);

/* The reason of the failure that a process ended with, NULL if it ended well. Static. */
const char *failure_of_exit(int status);
extern const char *const REASON_HANG;

/* In a process just forked: signals do what they do by default, whatever the parent made of them. */
void restore_signals(void);

/* waitpid for a process that is ours, through interruptions. */
int wait_for(pid_t process);

#endif
