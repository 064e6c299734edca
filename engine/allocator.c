/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator.h"

#include <stdlib.h>

static void *allocate_with_malloc(void *context, size_t size) {
    (void)context;
    return malloc(size);
}

static void release_with_free(void *context, void *memory, size_t size) {
    (void)context;
    (void)size;
    free(memory);
}

cpr_allocator cpr_allocator_chosen(const cpr_allocator *allocator) {
    return allocator != NULL
               ? *allocator
               : (cpr_allocator){.allocate = allocate_with_malloc, .release = release_with_free};
}

void *cpr_allocate(const cpr_allocator *allocator, int64_t count, size_t item_size) {
    const bool fits = (uint64_t)count <= SIZE_MAX / item_size;
    return fits ? allocator->allocate(allocator->context, (size_t)count * item_size) : NULL;
}

void cpr_release(const cpr_allocator *allocator, void *memory, int64_t count, size_t item_size) {
    if (memory != NULL) {
        allocator->release(allocator->context, memory, (size_t)count * item_size);
    }
}
