/* SPDX-License-Identifier: Apache-2.0 */
#include "runs.h"

bool cpr_is_identity(const cpr_run *runs, int64_t count, cpr_side side) {
    int64_t row = 0;
    for (int64_t i = 0; i < count; i++) {
        if (cpr_run_local_row(&runs[i], side) != row) {
            return false;
        }
        row += runs[i].length;
    }
    return true;
}

cpr_message cpr_message_next(const cpr_run_list *list, int64_t peer, int64_t *next) {
    const int64_t first = *next;
    uint64_t rows = 0; /* foreign lists can add up to anything */
    while (*next < list->count && list->runs[*next].peer == peer) {
        rows += (uint64_t)list->runs[(*next)++].length;
    }
    const int64_t count = *next - first;
    return (cpr_message){
        .runs = count > 0 ? &list->runs[first] : NULL, .count = count, .rows = (int64_t)rows};
}

cpr_message cpr_message_of(const cpr_run_list *list, int64_t peer) {
    int64_t below = 0;
    int64_t end = list->count;
    while (below < end) {
        const int64_t middle = below + (end - below) / 2;
        if (list->runs[middle].peer < peer) {
            below = middle + 1;
        } else {
            end = middle;
        }
    }
    return cpr_message_next(list, peer, &below);
}
