/* SPDX-License-Identifier: Apache-2.0 */
#include "engine_under_test.h"

#include "by_places.h"
#include "compare.h"

const char *const builder_names[BUILDER_COUNT] = {"interval", "definition", "per-token", "places"};

const engine_under_test the_engine = {
    .build =
        {
            [BY_INTERVALS] = cpr_route_build,
            [BY_DEFINITION] = cpr_route_build_definition,
            [PER_TOKEN] = cpr_route_build_per_token,
            [BY_PLACES] = route_by_places,
        },
    .build_group = cpr_route_group_build,
    .layout_intervals = cpr_layout_intervals,
    .equal = cpr_route_equal,
    .validate = cpr_route_validate,
    .rows = cpr_route_rows,
    .splits = cpr_route_splits,
    .exchange_host = cpr_exchange_host,
    .pack = cpr_pack,
    .scatter = cpr_scatter,
    .splits_check = cpr_splits_check,
    .transport_check = cpr_transport_check,
    .dump = cpr_route_dump,
    .error_dump = cpr_error_dump_json,
    .route_digest = cpr_route_digest,
    .digests_check = cpr_digests_check,
    .flat_encode = cpr_flat_encode,
    .flat_decode = cpr_flat_decode,
    .flat_route = cpr_flat_route,
    .two_view = cpr_two_view_make,
    .build_fused = cpr_route_build_fused,
    .chunk_plan = cpr_chunk_plan_make,
    .padded_plan = cpr_padded_plan_build,
    .padded_gather_index = cpr_padded_gather_index,
    .padded_receive = cpr_padded_receive,
    .real_tokens = cpr_real_tokens,
    .successors = cpr_successors,
    .move_chunk_at = cpr_move_chunk_at,
    .move_in_one_run = cpr_move_in_one_run,
    .move_in_many_runs = cpr_move_in_many_runs,
    .offsets_scanned = cpr_offsets_scanned,
    .offsets_judged = cpr_offsets_judged,
    .direct_turn = cpr_direct_turn,
    .direct_chunk_at = cpr_direct_chunk_at,
    .direct_by_lookup = cpr_direct_by_lookup,
    .direct_found_in = cpr_direct_found_in,
};

bool engine_builds(const engine_under_test *engine, const cpr_route_request *request, cpr_route **route,
                   verdict *v) {
    cpr_error error;
    *route = NULL;
    if (call_ok(engine->build[BY_INTERVALS](request, NULL, route, &error), &error, "the builder", v))
        return true;
    cpr_route_free(*route);
    *route = NULL;
    return false;
}
