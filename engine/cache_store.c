/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_store.h"

#include <string.h>

#include "allocator.h"
#include "shared_route.h"

enum { MOST_BUCKETS = 1 << 16 };

static void ring_start(cache_link *head) {
    head->before = head;
    head->after = head;
}

static void ring_add(cache_link *head, cache_link *link) {
    link->before = head;
    link->after = head->after;
    head->after->before = link;
    head->after = link;
}

static void ring_take(cache_link *link) {
    link->before->after = link->after;
    link->after->before = link->before;
}

static int64_t buckets_for(int64_t entries) {
    int64_t buckets = 16;
    while (buckets < entries && buckets < MOST_BUCKETS) {
        buckets *= 2;
    }
    return buckets;
}

cache_buckets cache_buckets_new(int64_t max_entries, const cpr_allocator *allocator) {
    cache_buckets made = {.count = buckets_for(max_entries)};
    made.heads = cpr_allocate(allocator, made.count, sizeof(cache_entry *));
    if (made.heads != NULL) {
        memset(made.heads, 0, (size_t)made.count * sizeof(cache_entry *));
    }
    return made;
}

void cache_buckets_free(cache_buckets buckets, const cpr_allocator *allocator) {
    cpr_release(allocator, buckets.heads, buckets.count, sizeof(cache_entry *));
}

bool cache_store_open(cache_store *store, int64_t max_entries, int64_t max_bytes,
                      const cpr_allocator *allocator) {
    const cache_buckets buckets = cache_buckets_new(max_entries, allocator);
    if (buckets.heads == NULL) {
        return false;
    }
    *store = (cache_store){
        .allocator = *allocator,
        .max_entries = max_entries,
        .max_bytes = max_bytes,
        .buckets = buckets,
    };
    ring_start(&store->recent);
    ring_start(&store->kept);
    return true;
}

void cache_store_close(cache_store *store) {
    cache_buckets_free(store->buckets, &store->allocator);
}

cache_entry *cache_entry_new(const cache_key *key, const cpr_allocator *allocator) {
    const bool copies = key->question.guard == CPR_GUARD_CONTENT;
    const int64_t contents = copies ? cache_boundaries_bytes(&key->boundaries) : 0;
    const int64_t block_bytes = (int64_t)sizeof(cache_entry) + contents;
    cache_entry *entry = cpr_allocate(allocator, block_bytes, 1);
    if (entry == NULL) {
        return NULL;
    }
    *entry = (cache_entry){.key = *key, .block_bytes = block_bytes, .bytes = block_bytes};
    if (copies) {
        cache_boundaries_copy(&entry->key.boundaries, entry + 1);
    }
    return entry;
}

void cache_entry_free(cache_entry *entry, const cpr_allocator *allocator) {
    if (entry != NULL) {
        cpr_route_release(entry->route);
        cpr_release(allocator, entry, entry->block_bytes, 1);
    }
}

static cache_entry **bucket_of(const cache_store *store, const cache_key *key) {
    return &store->buckets.heads[key->hash & (uint64_t)(store->buckets.count - 1)];
}

static cache_entry **place_at(cache_store *store, uint64_t place) {
    return &store->places[place % CACHE_PLACES];
}

cache_entry *cache_store_remembered(const cache_store *store, uint64_t place, const cache_key *key) {
    cache_entry *entry = store->places[place % CACHE_PLACES];
    return entry != NULL && cache_key_same(&entry->key, key) ? entry : NULL;
}

cache_entry *cache_store_find(const cache_store *store, const cache_key *key) {
    cache_entry *entry = *bucket_of(store, key);
    while (entry != NULL && (entry->superseded || !cache_key_equal(&entry->key, key))) {
        entry = entry->next;
    }
    return entry;
}

void cache_store_touch(cache_store *store, cache_entry *entry, uint64_t place) {
    *place_at(store, place) = entry;
    if (entry->captures == 0 && store->recent.after != &entry->link) {
        ring_take(&entry->link);
        ring_add(&store->recent, &entry->link);
    }
}

static void count(cache_store *store, const cache_entry *entry, int64_t sign) {
    store->entries += sign;
    store->bytes += sign * entry->bytes;
    store->verdicts += entry->key.state_count > 1 ? sign : 0;
}

static void count_kept(cache_store *store, const cache_entry *entry, int64_t sign) {
    store->kept_entries += sign;
    store->kept_bytes += sign * entry->bytes;
}

/* Of an entry that goes. */
static void end_captures(cache_store *store, const cache_entry *entry) {
    for (cache_capture **at = &store->captures; *at != NULL;) {
        cache_capture *capture = *at;
        if (capture->entry != entry) {
            at = &capture->next;
            continue;
        }
        *at = capture->next;
        cpr_release(&store->allocator, capture, 1, sizeof *capture);
    }
}

static void forget_places(cache_store *store, const cache_entry *entry) {
    for (int i = 0; i < CACHE_PLACES; i++) {
        if (store->places[i] == entry) {
            store->places[i] = NULL;
        }
    }
}

static void take_out(cache_store *store, cache_entry *entry, cache_entry **gone) {
    if (entry->captures > 0) {
        count_kept(store, entry, -1);
        end_captures(store, entry);
    }
    cache_entry **at = bucket_of(store, &entry->key);
    while (*at != entry) {
        at = &(*at)->next;
    }
    *at = entry->next;
    ring_take(&entry->link);
    forget_places(store, entry);
    count(store, entry, -1);
    entry->next = *gone;
    *gone = entry;
}

static bool over(const cache_store *store, int64_t more_entries, int64_t more_bytes) {
    return store->entries + more_entries > store->max_entries ||
           (store->max_bytes > 0 && store->bytes + more_bytes > store->max_bytes);
}

static void evict_for(cache_store *store, int64_t more_entries, int64_t more_bytes, cache_entry **gone) {
    while (over(store, more_entries, more_bytes) && store->recent.before != &store->recent) {
        take_out(store, (cache_entry *)store->recent.before, gone);
        store->evictions++;
    }
}

bool cache_store_fits(const cache_store *store, const cache_entry *entry) {
    return store->kept_entries + 1 <= store->max_entries &&
           (store->max_bytes == 0 || store->kept_bytes + entry->bytes <= store->max_bytes);
}

static void supersede(cache_store *store, const cache_key *key, cache_entry **gone) {
    for (cache_entry *entry = *bucket_of(store, key), *next; entry != NULL; entry = next) {
        next = entry->next;
        if (!cache_key_same_place(&entry->key, key)) {
            continue;
        }
        if (entry->captures > 0) {
            entry->superseded = true;
        } else {
            take_out(store, entry, gone);
        }
    }
}

void cache_store_insert(cache_store *store, cache_entry *entry, uint64_t place, cache_entry **gone) {
    supersede(store, &entry->key, gone);
    evict_for(store, 1, entry->bytes, gone);
    cache_entry **bucket = bucket_of(store, &entry->key);
    entry->next = *bucket;
    *bucket = entry;
    *place_at(store, place) = entry;
    ring_add(&store->recent, &entry->link);
    count(store, entry, 1);
}

cache_capture *cache_store_keep(cache_store *store, cache_entry *entry, uint64_t handle,
                                cache_capture *capture) {
    for (const cache_capture *known = store->captures; known != NULL; known = known->next) {
        if (known->entry == entry && known->handle == handle) {
            return capture;
        }
    }
    *capture = (cache_capture){.next = store->captures, .entry = entry, .handle = handle};
    store->captures = capture;
    if (entry->captures++ == 0) {
        ring_take(&entry->link);
        ring_add(&store->kept, &entry->link);
        count_kept(store, entry, 1);
    }
    return NULL;
}

static void let_go(cache_store *store, cache_entry *entry, cache_entry **gone) {
    if (entry->superseded) {
        take_out(store, entry, gone);
        return;
    }
    if (--entry->captures == 0) {
        count_kept(store, entry, -1);
        ring_take(&entry->link);
        ring_add(&store->recent, &entry->link);
    }
}

void cache_store_release(cache_store *store, uint64_t handle, cache_entry **gone) {
    for (cache_capture **at = &store->captures; *at != NULL;) {
        cache_capture *capture = *at;
        if (capture->handle != handle) {
            at = &capture->next;
            continue;
        }
        cache_entry *entry = capture->entry;
        *at = capture->next;
        cpr_release(&store->allocator, capture, 1, sizeof *capture);
        let_go(store, entry, gone);
    }
    evict_for(store, 0, 0, gone);
}

static void distrust_verdicts(cache_store *store, uint64_t handle, cache_entry **gone) {
    for (cache_link *link = store->recent.after, *after; link != &store->recent; link = after) {
        after = link->after;
        cache_entry *entry = (cache_entry *)link;
        if (cache_key_trusts(&entry->key, handle)) {
            take_out(store, entry, gone);
        }
    }
}

void cache_store_distrust(cache_store *store, uint64_t handle, cache_entry **gone) {
    cache_key own = {.question.guard = CPR_GUARD_VERSION, .states = {{.handle = handle}}};
    (void)cache_key_hash(&own);
    for (cache_entry *entry = *bucket_of(store, &own), *next; entry != NULL; entry = next) {
        next = entry->next;
        if (cache_key_trusts(&entry->key, handle)) {
            take_out(store, entry, gone);
        }
    }
    if (store->verdicts > 0) {
        distrust_verdicts(store, handle, gone);
    }
}

static void spread(cache_store *store, cache_buckets *wider) {
    const cache_buckets old = store->buckets;
    store->buckets = *wider;
    *wider = old;
    for (int64_t i = 0; i < old.count; i++) {
        for (cache_entry *entry = old.heads[i], *next; entry != NULL; entry = next) {
            next = entry->next;
            cache_entry **bucket = bucket_of(store, &entry->key);
            entry->next = *bucket;
            *bucket = entry;
        }
    }
}

void cache_store_limit(cache_store *store, int64_t max_entries, int64_t max_bytes, cache_buckets *spare,
                       cache_entry **gone) {
    if (spare->heads != NULL && spare->count > store->buckets.count) {
        spread(store, spare);
    }
    store->max_entries = max_entries;
    store->max_bytes = max_bytes;
    evict_for(store, 0, 0, gone);
}

void cache_store_clear(cache_store *store, cache_entry **gone) {
    cache_link *const rings[] = {&store->recent, &store->kept};
    for (int i = 0; i < 2; i++) {
        while (rings[i]->after != rings[i]) {
            take_out(store, (cache_entry *)rings[i]->after, gone);
        }
    }
}
