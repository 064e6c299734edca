/* SPDX-License-Identifier: Apache-2.0 */
/* Memory through the caller's allocator, counted in items. */
#ifndef CPROUTE_ALLOCATOR_H
#define CPROUTE_ALLOCATOR_H

#include "cproute/cproute.h"

/* What the caller chose; malloc and free if that is NULL. */
cpr_allocator cpr_allocator_chosen(const cpr_allocator *allocator);

/* `count` > 0 items, or NULL where there is no memory or their size does not fit. */
void *cpr_allocate(const cpr_allocator *allocator, int64_t count, size_t item_size);

/* NULL is allowed. */
void cpr_release(const cpr_allocator *allocator, void *memory, int64_t count, size_t item_size);

#endif
