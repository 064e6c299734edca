/* SPDX-License-Identifier: Apache-2.0 */
#include "int64_list.h"

#include <stdlib.h>

bool int64_list_append(int64_list *list, int64_t item) {
    if (list->count == list->capacity) {
        int64_t capacity = list->capacity ? 2 * list->capacity : 64;
        int64_t *items = realloc(list->items, (size_t)capacity * sizeof *items);
        if (!items)
            return false;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
    return true;
}

void int64_list_free(int64_list *list) {
    free(list->items);
    *list = (int64_list){0};
}
