/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"
#include <stdbool.h>
#include <stdlib.h>

static bool has_room(scratch *s) {
    if (s->count < s->room)
        return true;
    const size_t room = s->room > 0 ? 2 * s->room : 32;
    void **blocks = realloc(s->blocks, room * sizeof *blocks);
    if (!blocks)
        return false;
    s->blocks = blocks;
    s->room = room;
    return true;
}

void *scratch_bytes(scratch *s, size_t size) {
    void *block = has_room(s) ? malloc(size > 0 ? size : 1) : NULL;
    if (block)
        s->blocks[s->count++] = block;
    return block;
}

int64_t *scratch_int64(scratch *s, int64_t count) {
    return scratch_bytes(s, (size_t)count * sizeof(int64_t));
}

void scratch_free(scratch *s) {
    while (s->count > 0)
        free(s->blocks[--s->count]);
    free(s->blocks);
    *s = (scratch){0};
}
