/* SPDX-License-Identifier: Apache-2.0 */
#include "listing.h"

void cpr_listing_share_places(cpr_listing *listing, int64_t keys) {
    int64_t place = 0;
    for (int64_t key = 0; key < keys; key++) {
        const int64_t runs = listing->places[key];
        listing->places[key] = place;
        place += runs;
    }
}

static void sort_few(cpr_run *runs, int64_t count, int64_t tails_row) {
    for (int64_t i = 1; i < count; i++) {
        const cpr_run run = runs[i];
        const uint64_t key = cpr_order_key(&run, tails_row);
        int64_t place = i;
        for (; place > 0 && cpr_order_key(&runs[place - 1], tails_row) > key; place--) {
            runs[place] = runs[place - 1];
        }
        runs[place] = run;
    }
}

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

/* A stable distribution by one digit of the key. */
static void distribute(const cpr_run *from, cpr_run *to, int64_t count, int64_t tails_row, unsigned shift) {
    int64_t places[DIGITS + 1] = {0};
    for (int64_t i = 0; i < count; i++) {
        places[(cpr_order_key(&from[i], tails_row) >> shift) % DIGITS + 1]++;
    }
    for (int64_t digit = 1; digit < DIGITS; digit++) {
        places[digit] += places[digit - 1];
    }
    for (int64_t i = 0; i < count; i++) {
        to[places[(cpr_order_key(&from[i], tails_row) >> shift) % DIGITS]++] = from[i];
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

static uint64_t largest_key(const cpr_listing *listing) {
    uint64_t largest = 0;
    for (int64_t i = 0; i < listing->count; i++) {
        const uint64_t key = cpr_order_key(&listing->runs[i], listing->tails_row);
        largest = key > largest ? key : largest;
    }
    return largest;
}

bool cpr_listing_sort(cpr_listing *listing, const cpr_allocator *allocator) {
    if (listing->count <= CPR_FEW_RUNS) {
        sort_few(listing->runs, listing->count, listing->tails_row);
        return true;
    }
    cpr_run *spare = cpr_allocate(allocator, listing->count, sizeof *spare);
    if (spare == NULL) {
        return false;
    }
    cpr_run *sorted =
        radix_sort(listing->runs, spare, listing->count, listing->tails_row, largest_key(listing));
    cpr_release(allocator, sorted == spare ? listing->runs : spare, listing->count, sizeof *spare);
    listing->runs = sorted;
    return true;
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

/* Gives back what the block has beyond the first `count` runs. False without memory. */
static bool shrink(cpr_run_list *list, int64_t count, const cpr_allocator *allocator) {
    if (count == list->count) {
        return true;
    }
    cpr_run *smaller = cpr_allocate(allocator, count, sizeof *smaller);
    if (smaller == NULL) {
        return false;
    }
    memcpy(smaller, list->runs, (size_t)count * sizeof *smaller);
    cpr_release(allocator, list->runs, list->count, sizeof *smaller);
    list->runs = smaller;
    list->count = count;
    return true;
}

bool cpr_listing_finish(const cpr_listing *listing, const cpr_run_order *order,
                        const cpr_allocator *allocator, cpr_run_list *list) {
    cpr_run_list made = {.runs = listing->runs, .count = listing->count, .rows = listing->rows};
    if (order->local_rows_ascend) {
        /* Between runs that were found apart lie local rows of other runs, so none of them are neighbours; and a run
         * that was put before another one is put before smaller rows. */
        made.identity = listing->ascends;
    } else {
        if (!shrink(&made, join_neighbours(made.runs, made.count), allocator)) {
            return false;
        }
        made.identity = cpr_is_identity(made.runs, made.count, order->side);
    }
    *list = made;
    return true;
}

bool cpr_list_runs(cpr_find_runs *find, const void *subject, const cpr_run_order *order,
                   const cpr_allocator *allocator, cpr_run_list *list) {
    return cpr_list_runs_in_line(find, subject, order, allocator, list);
}
