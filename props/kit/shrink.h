/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shrinks failing bytes to the shortlex minimum that this reaches: fewer bytes first, then smaller ones from left to
 * right. It knows nothing of laws, only whether bytes still fail in the same way.
 */
#ifndef CPROUTE_PROPS_SHRINK_H
#define CPROUTE_PROPS_SHRINK_H

#include "law.h"

/* Decodes the bytes and answers whether they still fail; *log is then what was in fact chosen. */
typedef bool (*still_fails_fn)(void *context, const uint8_t *bytes, size_t length, choice_log *log);

typedef struct shrink_report {
    size_t attempts, successes;
    size_t drawn; /* bytes that were drawn from before: as for those after, zeros past the end count */
} shrink_report;

/* bytes[0..*length) must fail; what they become fails too. `bytes` has room for CHOICE_LOG_BYTES: bytes are first written
 * out as they were read, zeros past the end included. Stops early after max_attempts. */
shrink_report shrink(uint8_t *bytes, size_t *length, still_fails_fn still_fails, void *context,
                     size_t max_attempts);

/* The same for a law, staying with the reason of the first failure. With `isolate` attempts run in another process, so that
 * crashes and hangs (over `timeout_s`) shrink too. */
shrink_report shrink_law(const law *law, uint8_t *bytes, size_t *length, bool isolate, unsigned timeout_s,
                         size_t max_attempts);

#endif
