/* SPDX-License-Identifier: Apache-2.0 */
#include "found_runs.h"

#include <string.h>

#include "allocator.h"
#include "runs.h"

void cpr_found_runs_begin(cpr_found_runs *found, const cpr_allocator *allocator) {
    found->allocator = allocator;
    found->runs = found->at_hand;
    found->count = 0;
    found->capacity = CPR_RUNS_AT_HAND;
}

void cpr_found_runs_end(cpr_found_runs *found) {
    if (found->runs != found->at_hand) {
        cpr_release(found->allocator, found->runs, found->capacity, sizeof *found->runs);
    }
}

static bool grow(cpr_found_runs *found) {
    const int64_t capacity = 2 * found->capacity;
    cpr_run *larger = cpr_allocate(found->allocator, capacity, sizeof *larger);
    if (larger == NULL) {
        return false;
    }
    memcpy(larger, found->runs, (size_t)found->count * sizeof *larger);
    cpr_found_runs_end(found);
    found->runs = larger;
    found->capacity = capacity;
    return true;
}

bool cpr_found_runs_add(cpr_found_runs *found, const cpr_run *run) {
    if (found->count > 0 && cpr_run_continues(&found->runs[found->count - 1], run)) {
        found->runs[found->count - 1].length += run->length;
        return true;
    }
    if (found->count == found->capacity && !grow(found)) {
        return false;
    }
    found->runs[found->count++] = *run;
    return true;
}

/* Equal keys are runs that were found in their final order. */
static uint64_t order_key(const cpr_run *run, int64_t tails_row) {
    return 2 * (uint64_t)run->peer + (run->target_row >= tails_row);
}

/* Are the keys in order already? Writes the largest. */
static bool keys_ascend(const cpr_found_runs *found, int64_t tails_row, uint64_t *largest) {
    bool ascend = true;
    *largest = 0;
    for (int64_t i = 0; i < found->count; i++) {
        const uint64_t key = order_key(&found->runs[i], tails_row);
        if (key >= *largest) {
            *largest = key;
        } else {
            ascend = false;
        }
    }
    return ascend;
}

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

/* A stable distribution by one digit of the key. */
static void distribute(const cpr_run *from, cpr_run *to, int64_t count, int64_t tails_row, unsigned shift) {
    int64_t places[DIGITS + 1] = {0};
    for (int64_t i = 0; i < count; i++) {
        places[(order_key(&from[i], tails_row) >> shift) % DIGITS + 1]++;
    }
    for (int64_t digit = 1; digit < DIGITS; digit++) {
        places[digit] += places[digit - 1];
    }
    for (int64_t i = 0; i < count; i++) {
        to[places[(order_key(&from[i], tails_row) >> shift) % DIGITS]++] = from[i];
    }
}

/* Returns the one of `runs` and `spare` where they came to lie. */
static cpr_run *radix_sort(cpr_run *runs, cpr_run *spare, int64_t count, int64_t tails_row,
                           uint64_t largest_key) {
    for (unsigned shift = 0; largest_key >> shift != 0; shift += DIGIT_BITS) {
        distribute(runs, spare, count, tails_row, shift);
        cpr_run *sorted = spare;
        spare = runs;
        runs = sorted;
    }
    return runs;
}

/* Runs that were found apart can be neighbours now. Returns how many are left. */
static int64_t join_neighbours(cpr_run *runs, int64_t count) {
    int64_t joined = 0;
    for (int64_t i = 0; i < count; i++) {
        if (joined > 0 && cpr_run_continues(&runs[joined - 1], &runs[i])) {
            runs[joined - 1].length += runs[i].length;
        } else {
            runs[joined++] = runs[i];
        }
    }
    return joined;
}

/* A block of exactly its size, and what is to be said of it. */
static bool list_of(const cpr_run *runs, int64_t count, cpr_side side, const cpr_allocator *allocator,
                    cpr_run_list *list) {
    cpr_run_list made = {.identity = true};
    if (count > 0) {
        made.runs = cpr_allocate(allocator, count, sizeof *runs);
        if (made.runs == NULL) {
            return false;
        }
        memcpy(made.runs, runs, (size_t)count * sizeof *runs);
        made.count = count;
    }
    for (int64_t i = 0; i < count; i++) {
        made.identity = made.identity && cpr_run_local_row(&runs[i], side) == made.rows;
        made.rows += runs[i].length;
    }
    *list = made;
    return true;
}

bool cpr_found_runs_list(cpr_found_runs *found, cpr_side side, int64_t tails_row, cpr_run_list *list) {
    uint64_t largest_key;
    if (keys_ascend(found, tails_row, &largest_key)) {
        return list_of(found->runs, found->count, side, found->allocator, list);
    }
    cpr_run at_hand[CPR_RUNS_AT_HAND];
    const bool small = found->count <= CPR_RUNS_AT_HAND;
    cpr_run *spare = small ? at_hand : cpr_allocate(found->allocator, found->count, sizeof *spare);
    if (spare == NULL) {
        return false;
    }
    cpr_run *sorted = radix_sort(found->runs, spare, found->count, tails_row, largest_key);
    const bool made = list_of(sorted, join_neighbours(sorted, found->count), side, found->allocator, list);
    if (!small) {
        cpr_release(found->allocator, spare, found->count, sizeof *spare);
    }
    return made;
}
