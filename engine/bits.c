/* SPDX-License-Identifier: Apache-2.0 */
#include "bits.h"

#include <string.h>

#include "allocator.h"

bool cpr_bits_begin(cpr_bits *bits, int64_t count, const cpr_allocator *allocator) {
    *bits = (cpr_bits){.word_count = count / 64 + (count % 64 != 0), .allocator = allocator};
    bits->words = cpr_allocate(allocator, bits->word_count, sizeof *bits->words);
    if (bits->words == NULL) {
        return false;
    }
    memset(bits->words, 0, (size_t)bits->word_count * sizeof *bits->words);
    return true;
}

void cpr_bits_end(cpr_bits *bits) {
    cpr_release(bits->allocator, bits->words, bits->word_count, sizeof *bits->words);
}
