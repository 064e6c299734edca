/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What laws call: the public functions behind pointers, so that a test can put a wrong one in the place of
 * any. Laws get it as a constant parameter; nothing here is ever written.
 */
#ifndef CPROUTE_PROPS_ENGINE_UNDER_TEST_H
#define CPROUTE_PROPS_ENGINE_UNDER_TEST_H

#include "cproute/cproute.h"
#include "cuda/direct.h"
#include "cuda/moves.h"
#include "kit/law.h"

typedef enum builder { BY_INTERVALS, BY_DEFINITION, PER_TOKEN, BY_PLACES, BUILDER_COUNT } builder;

/* Those that enumerate tokens decline where there are too many. */
static inline bool builder_enumerates(int by) {
    return by == BY_DEFINITION || by == PER_TOKEN;
}

/* "interval", "definition", "per-token", "places". */
extern const char *const builder_names[BUILDER_COUNT];

typedef struct engine_under_test {
    cpr_status (*build[BUILDER_COUNT])(const cpr_route_request *request, const cpr_allocator *allocator,
                                       cpr_route **route, cpr_error *error);
    cpr_status (*build_group)(const cpr_route_request *request, const cpr_allocator *allocator,
                              cpr_route_group **group, cpr_error *error);
    cpr_status (*layout_intervals)(const cpr_cu_seqlens *cu_seqlens, int64_t rows, cpr_geometry geometry,
                                   cpr_layout layout, const cpr_allocator *allocator,
                                   cpr_intervals **intervals, cpr_error *error);
    bool (*equal)(const cpr_route *a, const cpr_route *b);
    bool (*validate)(const cpr_route *route, const cpr_allocator *allocator, const char **why);
    cpr_status (*rows)(const cpr_route *route, cpr_side side, cpr_dtype dtype, void *rows, int64_t count,
                       cpr_error *error);
    cpr_status (*splits)(const cpr_route *route, cpr_side side, int64_t *splits, int64_t count,
                         cpr_error *error);
    cpr_status (*exchange_host)(const cpr_route *const *routes, int64_t cp_size, size_t row_bytes,
                                const cpr_shard *sources, cpr_shard *targets, const cpr_allocator *allocator,
                                cpr_error *error);
    void (*pack)(const cpr_route *route, size_t row_bytes, const void *source, void *message);
    void (*scatter)(const cpr_route *route, size_t row_bytes, const void *message, void *target);
    cpr_status (*splits_check)(const cpr_route *route, cpr_side side, const int64_t *splits, int64_t count,
                               cpr_error *error);
    cpr_status (*transport_check)(const cpr_route_request *request, int64_t row_width, int count_bits,
                                  const cpr_allocator *allocator, cpr_error *error);
    bool (*dump)(const cpr_route *route, cpr_dump_form form, cpr_write_fn write, void *context);
    uint64_t (*route_digest)(const cpr_route *route);
    cpr_status (*digests_check)(const uint64_t *digests, int64_t count, cpr_error *error);
    cpr_status (*flat_encode)(const cpr_route *route, int64_t *flat, int64_t count, cpr_error *error);
    cpr_status (*flat_decode)(const int64_t *flat, int64_t count, cpr_geometry geometry,
                              const cpr_allocator *allocator, cpr_flat_view *view, cpr_error *error);
    cpr_status (*flat_route)(const int64_t *flat, int64_t count, const cpr_route_request *request,
                             const cpr_allocator *allocator, cpr_route **route, cpr_error *error);
    cpr_status (*two_view)(const cpr_route *route, const cpr_allocator *allocator, cpr_two_view **view,
                           cpr_error *error);
    cpr_status (*build_fused)(const cpr_route_request *request, const cpr_tensor_ranks *tp,
                              const cpr_allocator *allocator, cpr_route **route, cpr_error *error);
    cpr_status (*chunk_plan)(int64_t rows, cpr_geometry geometry, const cpr_tensor_ranks *tp,
                             cpr_layout source, cpr_layout target, const cpr_allocator *allocator,
                             cpr_chunk_plan *plan, cpr_error *error);
    cpr_status (*padded_plan)(const cpr_cu_seqlens *cu_seqlens, int64_t rows, cpr_geometry geometry,
                              const cpr_allocator *allocator, cpr_padded_plan **plan, cpr_error *error);
    cpr_status (*padded_gather_index)(const cpr_padded_plan *plan, cpr_layout layout, int64_t *index,
                                      int64_t count, cpr_error *error);
    void (*padded_receive)(const cpr_padded_plan *plan, cpr_layout layout, size_t row_bytes,
                           const void *message, void *target);
    cpr_status (*real_tokens)(const cpr_padding *padding, cpr_geometry geometry, cpr_layout layout,
                              const cpr_allocator *allocator, int64_t *tokens, int64_t count,
                              cpr_error *error);
    cpr_status (*successors)(const cpr_padding *padding, cpr_geometry geometry, cpr_layout layout,
                             const cpr_allocator *allocator, int64_t *successors, int64_t count,
                             cpr_error *error);
    cpr_move_chunk (*move_chunk_at)(const cpr_moves *moves, int64_t units_per_row, int64_t number);
    cpr_unit_move (*move_in_one_run)(const cpr_move_chunk *chunk, int lane);
    cpr_unit_move (*move_in_many_runs)(const cpr_moves *moves, int64_t units_per_row,
                                       const cpr_move_chunk *chunk, int lane, int step);
    cpr_offsets_scan (*offsets_scanned)(const cpr_offsets *offsets, const cpr_conversion_facts *facts,
                                        int64_t thread, int64_t threads);
    cpr_error (*offsets_judged)(const cpr_offsets *offsets, const cpr_conversion_facts *facts,
                                const cpr_offsets_scan *scan);
    int64_t (*direct_turn)(const cpr_places *places, int64_t chunks, int64_t number);
    cpr_direct_chunk (*direct_chunk_at)(const cpr_places *places, int64_t units_per_row, int64_t number);
    cpr_direct_place (*direct_by_lookup)(const cpr_places *places, int64_t units_per_row, int64_t unit);
    cpr_direct_findings (*direct_found_in)(int64_t rank, const cpr_direct_note *note,
                                           const cpr_direct_note *of_rank_0);
    bool (*error_dump)(int64_t rank, const cpr_error *error, cpr_write_fn write, void *context);
} engine_under_test;

/* The library itself. */
extern const engine_under_test the_engine;

/* The route of a legal request, by intervals. On false, the verdict says why and nothing is to be freed. */
bool engine_builds(const engine_under_test *engine, const cpr_route_request *request, cpr_route **route,
                   verdict *v);

#endif
