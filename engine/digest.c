/* SPDX-License-Identifier: Apache-2.0 */
#include "digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cu_seqlens.h"

enum { BLOCK_ENTRIES = 128 };

uint64_t cpr_boundaries_digest(const cpr_cu_seqlens *cu_seqlens) {
    int64_t block[BLOCK_ENTRIES];
    size_t filled = 0;
    XXH64_state_t state;
    XXH64_reset(&state, 0);
    int64_t before = -1;
    for (int64_t i = 0; i < cu_seqlens->count; i++) {
        const int64_t entry = cpr_cu_entry(cu_seqlens, i);
        if (entry == before) {
            continue;
        }
        before = entry;
        block[filled++] = entry;
        if (filled == BLOCK_ENTRIES) {
            XXH64_update(&state, block, sizeof block);
            filled = 0;
        }
    }
    XXH64_update(&state, block, filled * sizeof block[0]);
    return XXH64_digest(&state);
}
