/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a law: freed all at once. Every block is one of malloc's and has nothing else in it, so that ASan sees what is read or written
 * before or behind each. */
#ifndef CPROUTE_PROPS_SCRATCH_H
#define CPROUTE_PROPS_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

typedef struct scratch {
    void **blocks;
    size_t count, room;
} scratch;

/* NULL only without memory, not for size 0. */
void *scratch_bytes(scratch *s, size_t size);
int64_t *scratch_int64(scratch *s, int64_t count);
void scratch_free(scratch *s);

#endif
