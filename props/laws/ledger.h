/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator that keeps the books: what is live, what was released wrongly, and which allocation is to
 * fail. */
#ifndef CPROUTE_PROPS_LEDGER_H
#define CPROUTE_PROPS_LEDGER_H

#include "kit/law.h"

typedef struct ledger {
    uint64_t fail_at; /* that allocation fails, counting from 1; 0: none */
    uint64_t allocations;
    uint64_t live_blocks;
    size_t live_bytes, peak_bytes;
    uint64_t mistakes; /* released with another size than allocated, or not live */
    bool zero_sized;   /* an allocation of 0 bytes was asked for, which the contract does not give */
    struct ledger_block *live;
} ledger;

/* *books must outlive the allocator and all that it allocates. */
cpr_allocator ledger_allocator(ledger *books);

/* Closes the books: fails the law unless everything was given back, and in the right way, and frees what was
 * not. */
bool ledger_settled(ledger *books, const char *by_whom, verdict *v);

#endif
