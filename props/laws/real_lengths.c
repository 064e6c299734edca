/* SPDX-License-Identifier: Apache-2.0 */
#include "real_lengths.h"

static int64_t real_length(uint64_t salt, int64_t length) {
    enum { ALL, NONE, SOME, KINDS };
    const uint64_t kind = salt_below(salt, 40, KINDS);
    return kind == ALL ? length : kind == NONE ? 0 : (int64_t)salt_below(salt, 41, (uint64_t)length + 1);
}

int64_t *real_boundaries(const route_case *c, scratch *s) {
    int64_t *real = scratch_int64(s, c->entries);
    if (!real)
        return NULL;
    real[0] = 0;
    for (int64_t i = 0; i + 1 < c->entries; i++)
        real[i + 1] = real[i] + real_length(c->salt + (uint64_t)i, c->cu[i + 1] - c->cu[i]);
    return real;
}
