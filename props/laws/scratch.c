/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"
#include <stdalign.h>
#include <stdlib.h>

struct scratch_block {
    struct scratch_block *before;
    alignas(max_align_t) unsigned char bytes[];
};

void *scratch_bytes(scratch *s, size_t size) {
    struct scratch_block *block = malloc(sizeof *block + size);
    if (!block)
        return NULL;
    block->before = s->last;
    s->last = block;
    return block->bytes;
}

int64_t *scratch_int64(scratch *s, int64_t count) {
    return scratch_bytes(s, (size_t)count * sizeof(int64_t));
}

void scratch_free(scratch *s) {
    while (s->last) {
        struct scratch_block *before = s->last->before;
        free(s->last);
        s->last = before;
    }
}
