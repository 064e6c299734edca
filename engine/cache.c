/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The validity cache: lookups, builds without a lock held, and what the caller tells about tensors.
 *
 * A build is a flight. A thread that misses what is in flight already waits until it has landed and looks again, so nobody
 * depends on another's failure. What ends an entry also cancels flights, and so does another state of the same tensor: they
 * land, but nothing of them is stored.
 */
#include "cache.h"

#include <pthread.h>

#include "allocator.h"
#include "cache_store.h"
#include "error.h"
#include "request.h"
#include "shared_route.h"

typedef struct flight {
    struct flight *next;
    cache_entry *entry;
    bool missing;
    bool cancelled;
} flight;

struct cpr_cache {
    cpr_allocator allocator;
    pthread_mutex_t lock; /* guards all below but `options` */
    pthread_cond_t landed;
    flight *flights;
    cache_store store;
    uint64_t hits, misses, builds, bypasses, checks;
    cpr_cache_options options; /* callbacks */
};

static cpr_status check_limits(int64_t max_entries, int64_t max_bytes, cpr_error *error) {
    if (max_entries < 1) {
        return cpr_fail(error, CPR_OVERFLOW, -1, max_entries, 1);
    }
    if (max_bytes < 0) {
        return cpr_fail(error, CPR_OVERFLOW, -1, max_bytes, 0);
    }
    return cpr_succeed(error);
}

cpr_status cpr_cache_create(const cpr_cache_options *options, const cpr_allocator *allocator,
                            cpr_cache **cache, cpr_error *error) {
    error = CPR_ERROR_OR_UNWANTED(error);
    if (check_limits(options->max_entries, options->max_bytes, error) != CPR_OK) {
        return error->status;
    }
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_cache *made = cpr_allocate(&chosen, 1, sizeof *made);
    if (made == NULL) {
        return cpr_fail_no_memory(error);
    }
    *made = (cpr_cache){
        .allocator = chosen,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .landed = PTHREAD_COND_INITIALIZER,
        .options = *options,
    };
    if (!cache_store_open(&made->store, options->max_entries, options->max_bytes, &chosen)) {
        cpr_release(&chosen, made, 1, sizeof *made);
        return cpr_fail_no_memory(error);
    }
    *cache = made;
    return cpr_succeed(error);
}

static void tell(const cpr_cache *cache, void (*callback)(void *, uint64_t), const cache_entry *entry) {
    if (callback == NULL) {
        return;
    }
    for (int64_t i = 0; i < entry->key.state_count; i++) {
        if (entry->key.states[i].dtype != CACHE_ABSENT) {
            callback(cache->options.context, entry->key.states[i].handle);
        }
    }
}

/* Entries that were held go, without a lock. */
static void bury(const cpr_cache *cache, cache_entry *gone) {
    while (gone != NULL) {
        cache_entry *next = gone->next;
        tell(cache, cache->options.drop, gone);
        cache_entry_free(gone, &cache->allocator);
        gone = next;
    }
}

void cpr_cache_free(cpr_cache *cache) {
    if (cache == NULL) {
        return;
    }
    const cpr_allocator allocator = cache->allocator;
    cpr_cache_clear(cache);
    cache_store_close(&cache->store);
    pthread_cond_destroy(&cache->landed);
    pthread_mutex_destroy(&cache->lock);
    cpr_release(&allocator, cache, 1, sizeof *cache);
}

cpr_status cpr_cache_set_limits(cpr_cache *cache, int64_t max_entries, int64_t max_bytes, cpr_error *error) {
    error = CPR_ERROR_OR_UNWANTED(error);
    if (check_limits(max_entries, max_bytes, error) != CPR_OK) {
        return error->status;
    }
    cache_entry *gone = NULL;
    /* Without memory for more buckets entries are found all the same, only slower. */
    cache_buckets spare = cache_buckets_new(max_entries, &cache->allocator);
    pthread_mutex_lock(&cache->lock);
    cache_store_limit(&cache->store, max_entries, max_bytes, &spare, &gone);
    pthread_mutex_unlock(&cache->lock);
    cache_buckets_free(spare, &cache->allocator);
    bury(cache, gone);
    return CPR_OK;
}

/*==============================================================================
 * MARK: - Flights
 *============================================================================*/

static bool in_flight(const cpr_cache *cache, const cache_key *key) {
    for (const flight *other = cache->flights; other != NULL; other = other->next) {
        if (!other->cancelled && cache_key_equal(&other->entry->key, key)) {
            return true;
        }
    }
    return false;
}

/* An older state of a tensor that lands later must not take the place of the one that is asked for now. */
static void overtake(cpr_cache *cache, const cache_key *key) {
    for (flight *other = cache->flights; other != NULL; other = other->next) {
        other->cancelled = other->cancelled || cache_key_same_place(&other->entry->key, key);
    }
}

/* Waits until none of the missing ones is in another thread's flight, then starts them all, or none. */
static void take_off(cpr_cache *cache, flight *flights, int64_t count) {
    for (int64_t i = 0; i < count;) {
        const cache_key *key = &flights[i].entry->key;
        flights[i].missing = cache_store_find(&cache->store, key) == NULL;
        if (flights[i].missing && in_flight(cache, key)) {
            pthread_cond_wait(&cache->landed, &cache->lock);
            i = 0;
        } else {
            i++;
        }
    }
    for (int64_t i = 0; i < count; i++) {
        if (flights[i].missing) {
            overtake(cache, &flights[i].entry->key);
            flights[i].next = cache->flights;
            cache->flights = &flights[i];
        }
    }
}

static void land(cpr_cache *cache, const flight *landing) {
    flight **at = &cache->flights;
    while (*at != landing) {
        at = &(*at)->next;
    }
    *at = landing->next;
    pthread_cond_broadcast(&cache->landed);
}

/* What is being built for that tensor, or for any if `handle` is NULL, is not to be stored. */
static void cancel_flights(cpr_cache *cache, const uint64_t *handle) {
    for (flight *other = cache->flights; other != NULL; other = other->next) {
        other->cancelled =
            other->cancelled || handle == NULL || cache_key_trusts(&other->entry->key, *handle);
    }
}

/*==============================================================================
 * MARK: - Making entries
 *============================================================================*/

static cpr_status make_route(const cpr_cache *cache, const cpr_route_request *request, cache_entry *entry,
                             cpr_error *error) {
    cpr_route *route;
    if (cpr_route_build(request, &cache->allocator, &route, error) != CPR_OK) {
        return error->status;
    }
    entry->route = cpr_route_share(route);
    if (entry->route == NULL) {
        cpr_route_free(route);
        return cpr_fail_no_memory(error);
    }
    entry->rows = entry->route->total_tokens;
    entry->bytes += cpr_route_shared_bytes(entry->route);
    return cpr_succeed(error);
}

static cpr_status make_verdict(const cache_ask *ask, const cpr_route_request *request, int64_t *rows,
                               cpr_error *error) {
    if (cpr_request_validate(request, rows, error) != CPR_OK) {
        return error->status;
    }
    return ask->companion == NULL ? cpr_succeed(error)
                                  : cache_boundaries_agree(request, ask->companion, error);
}

/* Contents that are the key are built from the copy in the entry, so that key and route belong together whatever is
 * written meanwhile. */
static cpr_status make(const cpr_cache *cache, const cache_ask *ask, cache_entry *entry, cpr_error *error) {
    cpr_route_request request = ask->request;
    request.cu_seqlens = entry->key.boundaries;
    return ask->key.question.verdict ? make_verdict(ask, &request, &entry->rows, error)
                                     : make_route(cache, &request, entry, error);
}

static cpr_status fail_illegal(const cache_ask *ask, const cpr_cu_seqlens *boundaries, cpr_error *error) {
    cpr_route_request request = ask->request;
    request.cu_seqlens = *boundaries;
    int64_t rows;
    return cpr_request_validate(&request, &rows, error) != CPR_OK ? error->status
                                                                  : cpr_fail(error, CPR_INTERNAL, -1, 0, 0);
}

/* An entry to be made, hashed as its own copy of the contents reads. */
static cpr_status draft(const cpr_cache *cache, const cache_ask *ask, cache_entry **entry, cpr_error *error) {
    cache_entry *made = cache_entry_new(&ask->key, &cache->allocator);
    if (made == NULL) {
        return cpr_fail_no_memory(error);
    }
    if (!cache_key_hash(&made->key)) {
        (void)fail_illegal(ask, &made->key.boundaries, error);
        cache_entry_free(made, &cache->allocator);
        return error->status;
    }
    *entry = made;
    return CPR_OK;
}

/*==============================================================================
 * MARK: - Lookups
 *============================================================================*/

enum { DIRECTIONS = 2 };

static cpr_status fail_capture(cpr_error *error) {
    return cpr_fail(error, CPR_CAPTURE_LAYOUT_CHANGE, -1, 0, 0);
}

static cpr_status check_hit(const cache_ask *ask, const cache_entry *entry, cpr_error *error) {
    if (ask->use == CPR_USE_REPLAY && (entry->captures == 0 || entry->route != ask->captured)) {
        return fail_capture(error);
    }
    if (ask->request.rows != CPR_ROWS_UNCHECKED && ask->request.rows != entry->rows) {
        return cpr_fail(error, CPR_TOTAL_MISMATCH, -1, ask->request.rows, entry->rows);
    }
    return cpr_succeed(error);
}

static cpr_status judge_miss(const cache_ask *ask, cpr_error *error) {
    int64_t rows;
    /* That ranks would disagree is told after lack of memory. */
    return make_verdict(ask, &ask->request, &rows, error) == CPR_DIVERGENT_METADATA ? cpr_succeed(error)
                                                                                    : error->status;
}

/* False if it is not in the cache, or wrong: nothing but its contents then says which. */
static bool judge_known(cpr_cache *cache, const cache_ask *ask, cpr_error *error) {
    cache_key key = ask->key;
    (void)cpr_succeed(error);
    if (!cache_key_hash(&key)) {
        return false;
    }
    pthread_mutex_lock(&cache->lock);
    const cache_entry *entry = cache_store_find(&cache->store, &key);
    if (entry != NULL) {
        (void)check_hit(ask, entry, error);
    }
    pthread_mutex_unlock(&cache->lock);
    return entry != NULL;
}

/* Lack of memory is told last: what is wrong with one of the requests was so before. What is known is not judged by contents that
 * cannot, or need not, be read. */
static cpr_status fail_no_memory(cpr_cache *cache, const cache_ask *asks, int64_t count, cpr_error *error) {
    bool known[DIRECTIONS];
    for (int64_t i = 0; i < count; i++) {
        known[i] = judge_known(cache, &asks[i], error);
        if (error->status != CPR_OK) {
            return error->status;
        }
    }
    for (int64_t i = 0; i < count; i++) {
        if (!known[i] && judge_miss(&asks[i], error) != CPR_OK) {
            return error->status;
        }
    }
    return cpr_fail_no_memory(error);
}

static const cpr_route *hand_out(const cache_entry *entry) {
    if (entry->route == NULL || entry->route->geometry.cp_size == 1) {
        return NULL;
    }
    cpr_route_retain(entry->route);
    return entry->route;
}

/* Takes over *spare where the entry is captured. */
static void serve(cpr_cache *cache, const cache_ask *ask, cache_entry *entry, cache_capture **spare,
                  const cpr_route **route, cpr_error *error) {
    if (check_hit(ask, entry, error) != CPR_OK) {
        return;
    }
    cache_store_touch(&cache->store, entry, ask->place);
    cache->hits += !ask->key.question.verdict;
    *route = hand_out(entry);
    if (ask->use == CPR_USE_CAPTURE) {
        *spare = cache_store_keep(&cache->store, entry, ask->handle, *spare);
    }
}

static void count_build(cpr_cache *cache, const cache_ask *ask) {
    if (ask->key.question.verdict) {
        cache->checks++;
    } else {
        cache->builds++;
        *(ask->bypass ? &cache->bypasses : &cache->misses) += 1;
    }
}

static cpr_status obtain_bypassing(cpr_cache *cache, const cache_ask *ask, const cpr_route **route,
                                   cpr_error *error) {
    cache_entry *entry = cache_entry_new(&ask->key, &cache->allocator);
    if (entry == NULL) {
        return fail_no_memory(cache, ask, 1, error);
    }
    if (make(cache, ask, entry, error) == CPR_OK) {
        *route = hand_out(entry);
        pthread_mutex_lock(&cache->lock);
        count_build(cache, ask);
        pthread_mutex_unlock(&cache->lock);
    }
    cache_entry_free(entry, &cache->allocator);
    return error->status;
}

/* What was built, and held, goes into the store if it may; else it is put on *gone. */
static void settle(cpr_cache *cache, const flight *landed, uint64_t place, cache_entry **gone) {
    cache_entry *entry = landed->entry;
    if (landed->cancelled || !cache_store_fits(&cache->store, entry)) {
        entry->next = *gone;
        *gone = entry;
        return;
    }
    cache_store_insert(&cache->store, entry, place, gone);
}

static cpr_status finish_miss(cpr_cache *cache, const cache_ask *ask, const flight *landed,
                              cache_capture **spare, const cpr_route **route, cache_entry **gone,
                              cpr_error *error) {
    const bool captures = ask->use == CPR_USE_CAPTURE;
    if (captures && !cache_store_fits(&cache->store, landed->entry)) {
        landed->entry->next = *gone;
        *gone = landed->entry;
        return cpr_fail(error, CPR_OVERFLOW, -1, cache->store.kept_entries + 1, cache->store.max_entries);
    }
    count_build(cache, ask);
    *route = hand_out(landed->entry);
    settle(cache, landed, ask->place, gone);
    if (captures && !landed->cancelled) {
        *spare = cache_store_keep(&cache->store, landed->entry, ask->handle, *spare);
    }
    return cpr_succeed(error);
}

static cpr_status obtain_missing(cpr_cache *cache, const cache_ask *ask, cache_capture **spare,
                                 const cpr_route **route, bool *hit, cpr_error *error) {
    flight own = {.missing = false};
    const cpr_status drafted = draft(cache, ask, &own.entry, error);
    if (drafted != CPR_OK) {
        return drafted == CPR_NO_MEMORY ? fail_no_memory(cache, ask, 1, error) : drafted;
    }
    pthread_mutex_lock(&cache->lock);
    take_off(cache, &own, 1);
    if (!own.missing) {
        serve(cache, ask, cache_store_find(&cache->store, &own.entry->key), spare, route, error);
        pthread_mutex_unlock(&cache->lock);
        *hit = error->status == CPR_OK;
        cache_entry_free(own.entry, &cache->allocator);
        return error->status;
    }
    pthread_mutex_unlock(&cache->lock);

    const bool made = make(cache, ask, own.entry, error) == CPR_OK;
    if (made) {
        tell(cache, cache->options.hold, own.entry);
    }
    cache_entry *gone = NULL;
    pthread_mutex_lock(&cache->lock);
    land(cache, &own);
    if (made) {
        (void)finish_miss(cache, ask, &own, spare, route, &gone, error);
    }
    pthread_mutex_unlock(&cache->lock);
    bury(cache, gone);
    if (!made) {
        cache_entry_free(own.entry, &cache->allocator);
    }
    return error->status;
}

/* Also a replay that finds nothing: it is never built for. */
static cpr_status obtain_hashed(cpr_cache *cache, const cache_ask *ask, cache_capture **spare,
                                const cpr_route **route, bool *hit, cpr_error *error) {
    cache_key key = ask->key;
    if (!cache_key_hash(&key)) {
        return ask->use == CPR_USE_REPLAY ? fail_capture(error) : fail_illegal(ask, &key.boundaries, error);
    }
    pthread_mutex_lock(&cache->lock);
    cache_entry *entry = cache_store_find(&cache->store, &key);
    if (entry != NULL) {
        serve(cache, ask, entry, spare, route, error);
    }
    pthread_mutex_unlock(&cache->lock);
    if (entry == NULL) {
        return ask->use == CPR_USE_REPLAY ? fail_capture(error)
                                          : obtain_missing(cache, ask, spare, route, hit, error);
    }
    *hit = error->status == CPR_OK;
    return error->status;
}

static cpr_status obtain_capturing(cpr_cache *cache, const cache_ask *ask, const cpr_route **route, bool *hit,
                                   cpr_error *error) {
    cache_capture *spare = cpr_allocate(&cache->allocator, 1, sizeof *spare);
    if (spare == NULL) {
        return fail_no_memory(cache, ask, 1, error);
    }
    (void)obtain_hashed(cache, ask, &spare, route, hit, error);
    cpr_release(&cache->allocator, spare, 1, sizeof *spare);
    return error->status;
}

cpr_status cache_obtain(cpr_cache *cache, const cache_ask *ask, const cpr_route **route, bool *hit,
                        cpr_error *error) {
    *hit = false;
    if (ask->bypass) {
        return ask->use == CPR_USE_REPLAY ? fail_capture(error) : obtain_bypassing(cache, ask, route, error);
    }
    if (ask->use == CPR_USE_CAPTURE) {
        return obtain_capturing(cache, ask, route, hit, error);
    }
    pthread_mutex_lock(&cache->lock);
    cache_entry *entry = cache_store_remembered(&cache->store, ask->place, &ask->key);
    if (entry != NULL) {
        serve(cache, ask, entry, NULL, route, error);
        *hit = error->status == CPR_OK;
    }
    pthread_mutex_unlock(&cache->lock);
    return entry != NULL ? error->status : obtain_hashed(cache, ask, NULL, route, hit, error);
}

void cache_ask_of_lookup(const cpr_lookup *lookup, cache_ask *ask) {
    cache_key_of_lookup(lookup, &ask->key);
    ask->handle = lookup->tensor.handle;
    ask->place = cache_key_place(ask->handle, &ask->key.question);
    ask->bypass = ask->key.question.guard == CPR_GUARD_VERSION && !lookup->tensor.has_generation;
    ask->request = (cpr_route_request){
        .cu_seqlens = lookup->tensor.view,
        .rows = lookup->rows,
        .geometry = lookup->geometry,
        .source = lookup->source,
        .target = lookup->target,
        .tp_size = lookup->tp_size,
    };
    ask->companion = NULL;
    ask->use = lookup->geometry.cp_size == 1 ? CPR_USE_EAGER : lookup->use;
    ask->captured = lookup->captured;
}

static bool legal_layout(cpr_layout layout) {
    return (uint32_t)layout < CPR_LAYOUT_COUNT;
}

/* One rank exchanges nothing, so what cannot be read need not be. */
static bool nothing_to_route(const cpr_lookup *lookup) {
    return lookup->not_packed ||
           (lookup->geometry.cp_size == 1 && lookup->geometry.cp_rank == 0 && legal_layout(lookup->source) &&
            legal_layout(lookup->target) && !cache_readable(&lookup->tensor.view));
}

cpr_status cpr_cache_get(cpr_cache *cache, const cpr_lookup *lookup, const cpr_route **route, bool *hit,
                         cpr_error *error) {
    bool unwanted_hit;
    error = CPR_ERROR_OR_UNWANTED(error);
    hit = hit != NULL ? hit : &unwanted_hit;
    if (nothing_to_route(lookup)) {
        *route = NULL;
        *hit = false;
        return cpr_succeed(error);
    }
    cache_ask ask;
    cache_ask_of_lookup(lookup, &ask);
    bool found;
    if (cache_obtain(cache, &ask, route, &found, error) == CPR_OK) {
        *hit = found;
    }
    return error->status;
}

/*==============================================================================
 * MARK: - Both directions at once
 *============================================================================*/

typedef struct pair {
    cache_ask asks[DIRECTIONS];
    flight flights[DIRECTIONS];
    int64_t count; /* 1 where both directions are the same question */
} pair;

static cpr_status check_present(const pair *both, const cpr_cache *cache, cpr_error *error) {
    for (int64_t i = 0; i < both->count; i++) {
        if (!both->flights[i].missing &&
            check_hit(&both->asks[i], cache_store_find(&cache->store, &both->flights[i].entry->key), error) !=
                CPR_OK) {
            return error->status;
        }
    }
    return cpr_succeed(error);
}

static cpr_status make_missing(const cpr_cache *cache, pair *both, cpr_error *error) {
    for (int64_t i = 0; i < both->count; i++) {
        if (both->flights[i].missing &&
            make(cache, &both->asks[i], both->flights[i].entry, error) != CPR_OK) {
            return error->status;
        }
    }
    return cpr_succeed(error);
}

static void hold_missing(const cpr_cache *cache, const pair *both) {
    for (int64_t i = 0; i < both->count; i++) {
        if (both->flights[i].missing) {
            tell(cache, cache->options.hold, both->flights[i].entry);
        }
    }
}

/* What is there already is touched first, so that it is not what has to make room. */
static void settle_pair(cpr_cache *cache, pair *both, cache_entry **gone) {
    for (int64_t i = 0; i < both->count; i++) {
        cache_entry *present = cache_store_find(&cache->store, &both->flights[i].entry->key);
        if (!both->flights[i].missing && present != NULL) {
            cache_store_touch(&cache->store, present, both->asks[i].place);
        }
    }
    bool any = false;
    for (int64_t i = 0; i < both->count; i++) {
        if (both->flights[i].missing) {
            settle(cache, &both->flights[i], both->asks[i].place, gone);
            both->flights[i].entry = NULL;
            any = true;
        }
    }
    cache->builds += any;
}

static cpr_status fill_pair(cpr_cache *cache, pair *both, cpr_error *error) {
    cache_entry *gone = NULL;
    pthread_mutex_lock(&cache->lock);
    take_off(cache, both->flights, both->count);
    (void)check_present(both, cache, error);
    pthread_mutex_unlock(&cache->lock);

    if (error->status == CPR_OK && make_missing(cache, both, error) == CPR_OK) {
        hold_missing(cache, both);
    }
    pthread_mutex_lock(&cache->lock);
    for (int64_t i = 0; i < both->count; i++) {
        if (both->flights[i].missing) {
            land(cache, &both->flights[i]);
        }
    }
    if (error->status == CPR_OK) {
        settle_pair(cache, both, &gone);
    }
    pthread_mutex_unlock(&cache->lock);
    bury(cache, gone);
    return error->status;
}

cpr_status cpr_cache_prebuild(cpr_cache *cache, const cpr_lookup *lookup, cpr_error *error) {
    error = CPR_ERROR_OR_UNWANTED(error);
    pair both = {.count = lookup->source == lookup->target ? 1 : DIRECTIONS};
    cpr_lookup direction = *lookup;
    direction.use = CPR_USE_EAGER;
    cache_ask_of_lookup(&direction, &both.asks[0]);
    if (nothing_to_route(lookup) || both.asks[0].bypass) {
        return cpr_succeed(error);
    }
    direction.source = lookup->target;
    direction.target = lookup->source;
    cache_ask_of_lookup(&direction, &both.asks[1]);
    if (!cache_key_hash(&both.asks[0].key)) {
        return fail_illegal(&both.asks[0], &both.asks[0].key.boundaries, error);
    }
    cpr_status status = CPR_OK;
    for (int64_t i = 0; i < both.count && status == CPR_OK; i++) {
        status = draft(cache, &both.asks[i], &both.flights[i].entry, error);
    }
    if (status == CPR_OK) {
        (void)fill_pair(cache, &both, error);
    } else if (status == CPR_NO_MEMORY) {
        (void)fail_no_memory(cache, both.asks, both.count, error);
    }
    for (int64_t i = 0; i < both.count; i++) {
        cache_entry_free(both.flights[i].entry, &cache->allocator);
    }
    return error->status;
}

/*==============================================================================
 * MARK: - What the caller tells
 *============================================================================*/

void cpr_cache_invalidate(cpr_cache *cache, uint64_t handle) {
    cache_entry *gone = NULL;
    pthread_mutex_lock(&cache->lock);
    cancel_flights(cache, &handle);
    cache_store_distrust(&cache->store, handle, &gone);
    pthread_mutex_unlock(&cache->lock);
    bury(cache, gone);
}

void cpr_cache_tensor_freed(cpr_cache *cache, uint64_t handle) {
    cache_entry *gone = NULL;
    pthread_mutex_lock(&cache->lock);
    cancel_flights(cache, &handle);
    cache_store_distrust(&cache->store, handle, &gone);
    cache_store_release(&cache->store, handle, &gone);
    pthread_mutex_unlock(&cache->lock);
    bury(cache, gone);
}

void cpr_cache_capture_released(cpr_cache *cache, uint64_t handle) {
    cache_entry *gone = NULL;
    pthread_mutex_lock(&cache->lock);
    cache_store_release(&cache->store, handle, &gone);
    pthread_mutex_unlock(&cache->lock);
    bury(cache, gone);
}

void cpr_cache_clear(cpr_cache *cache) {
    cache_entry *gone = NULL;
    pthread_mutex_lock(&cache->lock);
    cancel_flights(cache, NULL);
    cache_store_clear(&cache->store, &gone);
    pthread_mutex_unlock(&cache->lock);
    bury(cache, gone);
}

cpr_cache_stats cpr_cache_get_stats(cpr_cache *cache) {
    pthread_mutex_lock(&cache->lock);
    const cpr_cache_stats stats = {
        .hits = cache->hits,
        .misses = cache->misses,
        .builds = cache->builds,
        .bypasses = cache->bypasses,
        .checks = cache->checks,
        .evictions = cache->store.evictions,
        .entries = cache->store.entries,
        .captured = cache->store.kept_entries,
        .bytes = cache->store.bytes,
    };
    pthread_mutex_unlock(&cache->lock);
    return stats;
}
