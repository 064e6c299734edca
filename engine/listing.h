/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordered lists of runs, from runs as they are found.
 *
 * A list is found twice: once to count its runs, and those of every peer, and once more to write each run to its
 * place: a counting sort whose input is never stored. So a list needs no memory but its own, and of that exactly as
 * much as it keeps. Only among more peers than can be counted on the stack, a spare list serves to sort.
 */
#ifndef CPROUTE_LISTING_H
#define CPROUTE_LISTING_H

#include <string.h>

#include "allocator.h"
#include "runs.h"

/* A finder and what takes its runs are compiled together, once to count and once to write: a call for each run costs more than the run. */
#define CPR_IN_LINE __attribute__((always_inline)) static inline

enum { CPR_COUNTED_KEYS = 1024, CPR_FEW_RUNS = 32 };

/* What is known of the runs before they are found. Those of a peer are found in ascending order of target rows,
 * except that from `tails_row` on the order starts anew. */
typedef struct cpr_run_order {
    cpr_side side;
    int64_t peers;          /* how many there are */
    int64_t tails_row;      /* INT64_MAX: there are no tails apart */
    bool local_rows_ascend; /* as runs are found */
} cpr_run_order;

typedef struct cpr_listing {
    int64_t tails_row;
    int64_t count; /* runs found */
    int64_t rows;
    uint64_t key; /* of the last run */
    bool ascends;
    cpr_run last;
    cpr_run *last_written; /* never here: then a listing that is a local variable stays in registers */
    cpr_run *runs;         /* while they are counted, one place for them all */
    int64_t *places;       /* by key: how many runs have it; then, where the next one goes */
    uint64_t kept_of_key; /* all bits; or none, where runs are written as they are found, from places[0] on */
} cpr_listing;

/* Takes a new run, and returns where it was written. */
typedef cpr_run *cpr_take_run(cpr_listing *listing, const cpr_run *run);

/* Hands every run to cpr_listing_add, with `take`, in the same order whenever it is called. */
typedef void cpr_find_runs(const void *subject, cpr_listing *listing, cpr_take_run *take);

CPR_IN_LINE void cpr_listing_add(cpr_listing *listing, cpr_run run, cpr_take_run *take) {
    listing->rows += run.length;
    if (cpr_run_continues(&listing->last, &run)) {
        listing->last.length += run.length;
        listing->last_written->length = listing->last.length;
    } else {
        listing->last = run;
        listing->last_written = take(listing, &run);
    }
}

/* Runs with smaller keys come first, runs with equal keys as they were found. */
static inline uint64_t cpr_order_key(const cpr_run *run, int64_t tails_row) {
    const uint64_t peer = (uint64_t)run->peer;
    return tails_row == INT64_MAX ? peer : 2 * peer + (run->target_row >= tails_row);
}

CPR_IN_LINE cpr_run *cpr_count_run(cpr_listing *listing, const cpr_run *run) {
    const uint64_t key = cpr_order_key(run, listing->tails_row);
    listing->ascends &= key >= listing->key;
    listing->key = key;
    listing->count++;
    listing->places[key % CPR_COUNTED_KEYS]++;
    return listing->runs;
}

CPR_IN_LINE cpr_run *cpr_write_run(cpr_listing *listing, const cpr_run *run) {
    const uint64_t key = cpr_order_key(run, listing->tails_row);
    cpr_run *place = &listing->runs[listing->places[key & listing->kept_of_key]++];
    *place = *run;
    return place;
}

/* Of keys below `keys`, from how many runs have them to where the first of them goes. */
void cpr_listing_share_places(cpr_listing *listing, int64_t keys);

/* Puts runs that were written as they were found in order. Quick for a few runs, else linear and with a spare list. False without memory. */
bool cpr_listing_sort(cpr_listing *listing, const cpr_allocator *allocator);

/* Is it a list of so few runs that to sort them costs less than to go over all keys? */
static inline bool cpr_listing_is_short(const cpr_listing *listing, int64_t keys) {
    return listing->count <= CPR_FEW_RUNS && listing->count * listing->count <= 2 * keys;
}

/* Joins what came to be neighbours, where that can be, and says what is to be said of the list. False without memory. */
bool cpr_listing_finish(const cpr_listing *listing, const cpr_run_order *order,
                        const cpr_allocator *allocator, cpr_run_list *list);

CPR_IN_LINE void cpr_listing_find(cpr_listing *listing, cpr_find_runs *find, const void *subject,
                                  cpr_take_run *take) {
    listing->count = 0;
    listing->rows = 0;
    listing->last = (cpr_run){.peer = -1};
    find(subject, listing, take);
}

/* Fills the block of a counted list, in order. False without memory. */
CPR_IN_LINE bool cpr_listing_write(cpr_listing *listing, cpr_find_runs *find, const void *subject,
                                   int64_t keys, const cpr_allocator *allocator) {
    const int64_t count = listing->count;
    const bool as_found = listing->ascends || keys > CPR_COUNTED_KEYS || cpr_listing_is_short(listing, keys);
    if (as_found) {
        listing->places[0] = 0;
    } else {
        cpr_listing_share_places(listing, keys);
    }
    listing->kept_of_key = as_found ? 0 : UINT64_MAX;
    cpr_listing_find(listing, find, subject, cpr_write_run);
    listing->count = count;
    return !as_found || listing->ascends || cpr_listing_sort(listing, allocator);
}

/* Makes the list of what `find` finds. Linear time. False without memory. */
bool cpr_list_runs(cpr_find_runs *find, const void *subject, const cpr_run_order *order,
                   const cpr_allocator *allocator, cpr_run_list *list);

/* The same, for a finder that is worth compiling once for each way of taking its runs. */
CPR_IN_LINE bool cpr_list_runs_in_line(cpr_find_runs *find, const void *subject, const cpr_run_order *order,
                                       const cpr_allocator *allocator, cpr_run_list *list) {
    int64_t places[CPR_COUNTED_KEYS];
    const int64_t keys = order->tails_row == INT64_MAX ? order->peers : 2 * order->peers;
    memset(places, 0, (size_t)(keys < CPR_COUNTED_KEYS ? keys : CPR_COUNTED_KEYS) * sizeof places[0]);
    cpr_run counted;
    cpr_listing listing = {
        .tails_row = order->tails_row, .ascends = true, .runs = &counted, .places = places};
    cpr_listing_find(&listing, find, subject, cpr_count_run);
    if (listing.count == 0) {
        *list = (cpr_run_list){.identity = true};
        return true;
    }
    const int64_t count = listing.count;
    listing.runs = cpr_allocate(allocator, count, sizeof *listing.runs);
    if (listing.runs == NULL) {
        return false;
    }
    if (cpr_listing_write(&listing, find, subject, keys, allocator) &&
        cpr_listing_finish(&listing, order, allocator, list)) {
        return true;
    }
    cpr_release(allocator, listing.runs, count, sizeof *listing.runs);
    return false;
}

#endif
