/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"
#include <inttypes.h>
#include <stdalign.h>
#include <stdlib.h>

#define LIVE UINT64_C(0x6c6976652d626c6b)
#define DEAD UINT64_C(0x646561642d626c6b)

typedef struct ledger_block {
    uint64_t state; /* bytes before the block; an underrun or a strange pointer shows in them */
    size_t size;
    alignas(max_align_t) unsigned char bytes[];
} ledger_block;

static void *ledger_allocate(void *context, size_t size) {
    ledger *books = context;
    books->zero_sized |= size == 0;
    if (++books->allocations == books->fail_at)
        return NULL;
    ledger_block *block = malloc(sizeof *block + size);
    if (!block)
        return NULL;
    block->state = LIVE;
    block->size = size;
    books->live_blocks++;
    books->live_bytes += size;
    if (books->live_bytes > books->peak_bytes)
        books->peak_bytes = books->live_bytes;
    return block->bytes;
}

static void ledger_release(void *context, void *memory, size_t size) {
    ledger *books = context;
    if (!memory) {
        books->mistakes++;
        return;
    }
    ledger_block *block = (ledger_block *)((unsigned char *)memory - offsetof(ledger_block, bytes));
    if (block->state != LIVE) {
        books->mistakes++;
        return;
    }
    books->mistakes += block->size != size;
    books->live_blocks--;
    books->live_bytes -= block->size;
    block->state = DEAD;
    free(block);
}

cpr_allocator ledger_allocator(ledger *books) {
    return (cpr_allocator){ledger_allocate, ledger_release, books};
}

bool ledger_settled(const ledger *books, const char *by_whom, verdict *v) {
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
