/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include <stdalign.h>
#include <stddef.h>
#include <string.h>

static bool fail(ranks *r, delta_status status, int64_t got, int64_t wanted) {
    r->error = (delta_error){.status = status, .got = got, .wanted = wanted};
    return false;
}

bool ranks_no_memory(ranks *r) {
    return fail(r, DELTA_NO_MEMORY, 0, 0);
}

static bool routed(ranks *r, cpr_status status, const cpr_error *error) {
    if (status == CPR_OK)
        return true;
    if (status == CPR_NO_MEMORY)
        return ranks_no_memory(r);
    r->error = (delta_error){.status = DELTA_NOT_ROUTED, .route = *error};
    return false;
}

/*==============================================================================
 * MARK: - Memory
 *============================================================================*/

struct memory_block {
    struct memory_block *before;
    size_t size;
    alignas(max_align_t) unsigned char bytes[];
};

void *ranks_bytes(ranks *r, int64_t count, size_t each) {
    const size_t size = sizeof(struct memory_block) + (size_t)count * each;
    struct memory_block *block = r->group->allocator.allocate(r->group->allocator.context, size);
    if (!block) {
        ranks_no_memory(r);
        return NULL;
    }
    block->before = r->memory;
    block->size = size;
    r->memory = block;
    return memset(block->bytes, 0, (size_t)count * each);
}

static void release_memory(ranks *r) {
    while (r->memory) {
        struct memory_block *block = r->memory;
        r->memory = block->before;
        r->group->allocator.release(r->group->allocator.context, block, block->size);
    }
}

scalar *ranks_numbers(ranks *r, int64_t count) {
    return ranks_bytes(r, count, sizeof(scalar));
}

scalar **ranks_sheets(ranks *r, int64_t rows, int64_t width) {
    scalar **sheets = ranks_bytes(r, r->size, sizeof *sheets);
    for (int64_t rank = 0; sheets && rank < r->size; rank++)
        if (!(sheets[rank] = ranks_numbers(r, rows * width)))
            return NULL;
    return sheets;
}

/*==============================================================================
 * MARK: - Checks
 *============================================================================*/

static bool shape_is_good(ranks *r) {
    const delta_shape *s = &r->layer->shape;
    const int64_t sizes[] = {s->heads, s->keys, s->values, s->taps};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] < 1)
            return fail(r, DELTA_BAD_SHAPE, sizes[i], 1);
    return s->keys <= DELTA_MOST_KEYS || fail(r, DELTA_BAD_SHAPE, s->keys, DELTA_MOST_KEYS);
}

/* Every mode has its rows in zigzag, so time must divide in the same way for all of them. */
static bool time_divides(ranks *r) {
    const cpr_cu_seqlens cu = cpr_cu_seqlens_int64(r->batch.cu_seqlens, r->batch.entries);
    const cpr_geometry geometry = {.cp_size = r->batch.cp_size};
    cpr_intervals *share;
    cpr_error error;
    const cpr_status status = cpr_layout_intervals(&cu, CPR_ROWS_UNCHECKED, geometry, CPR_ZIGZAG,
                                                   &r->group->allocator, &share, &error);
    if (status == CPR_OK)
        cpr_intervals_free(share);
    return routed(r, status, &error);
}

static bool heads_divide(ranks *r) {
    return r->batch.mode != DELTA_HEADWISE || r->layer->shape.heads % r->batch.cp_size == 0 ||
           fail(r, DELTA_NOT_DIVISIBLE_HEADS, r->layer->shape.heads, r->batch.cp_size);
}

static bool mode_is_known(ranks *r) {
    return ((int)r->batch.mode >= 0 && r->batch.mode < DELTA_MODE_COUNT) ||
           fail(r, DELTA_BAD_MODE, (int)r->batch.mode, DELTA_MODE_COUNT);
}

bool ranks_open(ranks *r, delta_group *group, const delta_layer *layer, const delta_batch *batch) {
    *r = (ranks){.group = group, .layer = layer, .batch = *batch, .size = batch->cp_size};
    if (!mode_is_known(r) || !shape_is_good(r) || !time_divides(r) || !heads_divide(r))
        return false;
    r->tokens = batch->cu_seqlens[batch->entries - 1];
    r->rows = r->tokens / r->size;
    r->first = ranks_bytes(r, r->tokens, sizeof *r->first);
    if (!r->first)
        return false;
    delta_first_tokens(batch->cu_seqlens, batch->entries, r->first);
    return true;
}

void ranks_close(ranks *r) {
    release_memory(r);
}

/*==============================================================================
 * MARK: - Between layouts
 *============================================================================*/

/* NULL for every rank of a group of one, which has nothing to exchange. */
static bool find_routes(ranks *r, cpr_layout from, cpr_layout to, const cpr_route **routes) {
    cpr_lookup lookup = {
        .tensor = {.view = cpr_cu_seqlens_int64(r->batch.cu_seqlens, r->batch.entries), .stride = 1},
        .rows = r->tokens,
        .geometry = {.cp_size = r->size},
        .source = from,
        .target = to};
    cpr_error error;
    for (int64_t rank = 0; rank < r->size; rank++) {
        lookup.geometry.cp_rank = rank;
        const cpr_status status = cpr_cache_get(r->group->cache, &lookup, &routes[rank], NULL, &error);
        if (!routed(r, status, &error))
            return false;
    }
    return true;
}

static void release_routes(ranks *r, const cpr_route **routes) {
    for (int64_t rank = 0; rank < r->size; rank++)
        cpr_route_release(routes[rank]);
}

static cpr_shard *shards_of(ranks *r, const scalar *const *sheets, cpr_layout layout) {
    cpr_shard *shards = ranks_bytes(r, r->size, sizeof *shards);
    for (int64_t rank = 0; shards && rank < r->size; rank++)
        shards[rank] = (cpr_shard){(void *)(uintptr_t)sheets[rank], r->rows, layout};
    return shards;
}

static bool move(ranks *r, const cpr_route *const *routes, int64_t width, const scalar *const *source,
                 scalar *const *target) {
    const size_t row_bytes = (size_t)width * sizeof(scalar);
    if (r->size == 1) {
        memcpy(target[0], source[0], (size_t)r->rows * row_bytes);
        return true;
    }
    cpr_shard *sent = shards_of(r, source, routes[0]->source);
    cpr_shard *received = shards_of(r, (const scalar *const *)target, routes[0]->target);
    cpr_error error;
    return sent && received &&
           routed(r,
                  cpr_exchange_host(routes, r->size, row_bytes, sent, received, &r->group->allocator, &error),
                  &error);
}

bool ranks_exchange(ranks *r, cpr_layout from, cpr_layout to, int64_t width, const scalar *const *source,
                    scalar *const *target) {
    const cpr_route **routes = ranks_bytes(r, r->size, sizeof *routes);
    if (!routes)
        return false;
    const bool moved =
        find_routes(r, from, to, routes) && move(r, (const cpr_route *const *)routes, width, source, target);
    release_routes(r, routes);
    return moved;
}

/*==============================================================================
 * MARK: - All tokens in order
 *============================================================================*/

typedef void copy_fn(scalar *stream, scalar *zigzag, size_t bytes);

static void to_stream(scalar *stream, scalar *zigzag, size_t bytes) {
    memcpy(stream, zigzag, bytes);
}

static void to_zigzag(scalar *stream, scalar *zigzag, size_t bytes) {
    memcpy(zigzag, stream, bytes);
}

static bool copy_share(ranks *r, int64_t rank, columns c, scalar *stream, scalar *zigzag, copy_fn *copy) {
    const cpr_cu_seqlens cu = cpr_cu_seqlens_int64(r->batch.cu_seqlens, r->batch.entries);
    const cpr_geometry geometry = {.cp_size = r->size, .cp_rank = rank};
    cpr_intervals *share;
    cpr_error error;
    if (!routed(
            r,
            cpr_layout_intervals(&cu, r->tokens, geometry, CPR_ZIGZAG, &r->group->allocator, &share, &error),
            &error))
        return false;
    scalar *row = zigzag + c.first;
    for (int64_t i = 0; i < share->count; i++)
        for (int64_t token = share->items[i].begin; token < share->items[i].end; token++, row += c.of)
            copy(stream + token * c.count, row, (size_t)c.count * sizeof *row);
    cpr_intervals_free(share);
    return true;
}

bool ranks_put(ranks *r, int64_t rank, columns c, const scalar *zigzag, scalar *stream) {
    return copy_share(r, rank, c, stream, (scalar *)(uintptr_t)zigzag, to_stream);
}

bool ranks_take(ranks *r, int64_t rank, columns c, const scalar *stream, scalar *zigzag) {
    return copy_share(r, rank, c, (scalar *)(uintptr_t)stream, zigzag, to_zigzag);
}

scalar *ranks_gather(ranks *r, columns c, const scalar *const *zigzag) {
    scalar *stream = ranks_numbers(r, r->tokens * c.count);
    for (int64_t rank = 0; stream && rank < r->size; rank++)
        if (!ranks_put(r, rank, c, zigzag[rank], stream))
            return NULL;
    return stream;
}

bool ranks_scatter(ranks *r, columns c, const scalar *stream, scalar *const *zigzag) {
    for (int64_t rank = 0; rank < r->size; rank++)
        if (!ranks_take(r, rank, c, stream, zigzag[rank]))
            return false;
    return true;
}
