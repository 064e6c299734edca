/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"
#include <inttypes.h>
#include <stdalign.h>
#include <stdlib.h>

struct ledger_block {
    struct ledger_block *next;
    size_t size;
    alignas(max_align_t) unsigned char bytes[];
};

static void *ledger_allocate(void *context, size_t size) {
    ledger *books = context;
    books->zero_sized |= size == 0;
    if (++books->allocations == books->fail_at)
        return NULL;
    struct ledger_block *block = malloc(sizeof *block + size);
    if (!block)
        return NULL;
    block->next = books->live;
    block->size = size;
    books->live = block;
    books->live_blocks++;
    books->live_bytes += size;
    if (books->live_bytes > books->peak_bytes)
        books->peak_bytes = books->live_bytes;
    return block->bytes;
}

/* A pointer is believed only if it is found among the live ones, so a strange one is counted and not
 * followed. */
static void ledger_release(void *context, void *memory, size_t size) {
    ledger *books = context;
    struct ledger_block **at = &books->live;
    while (*at && (*at)->bytes != memory)
        at = &(*at)->next;
    if (!*at) {
        books->mistakes++;
        return;
    }
    struct ledger_block *block = *at;
    books->mistakes += block->size != size;
    books->live_blocks--;
    books->live_bytes -= block->size;
    *at = block->next;
    free(block);
}

cpr_allocator ledger_allocator(ledger *books) {
    return (cpr_allocator){ledger_allocate, ledger_release, books};
}

static void free_live(ledger *books) {
    while (books->live) {
        struct ledger_block *next = books->live->next;
        free(books->live);
        books->live = next;
    }
}

bool ledger_settled(ledger *books, const char *by_whom, verdict *v) {
    free_live(books);
    if (books->live_blocks != 0)
        return law_fail(v, "memory is leaked", "%s keeps %" PRIu64 " blocks, %zu bytes", by_whom,
                        books->live_blocks, books->live_bytes);
    if (books->mistakes != 0)
        return law_fail(v, "memory is released wrongly",
                        "%s released %" PRIu64 " blocks with a wrong size or pointer", by_whom,
                        books->mistakes);
    if (books->zero_sized)
        return law_fail(v, "an allocation of no bytes", "%s asked the allocator for 0 bytes", by_whom);
    return true;
}
