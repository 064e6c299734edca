/* SPDX-License-Identifier: Apache-2.0 */
/* A list of numbers that grows. */
#ifndef CPROUTE_PROPS_INT64_LIST_H
#define CPROUTE_PROPS_INT64_LIST_H

#include <stdbool.h>
#include <stdint.h>

typedef struct int64_list {
    int64_t *items; /* NULL while it is empty */
    int64_t count, capacity;
} int64_list;

/* False without memory; the list is as before then. */
bool int64_list_append(int64_list *list, int64_t item);
void int64_list_free(int64_list *list);

#endif
