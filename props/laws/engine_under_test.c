/* SPDX-License-Identifier: Apache-2.0 */
#include "engine_under_test.h"

const char *const builder_names[BUILDER_COUNT] = {"interval", "definition", "per-token"};

const engine_under_test the_engine = {
    .build =
        {
            [BY_INTERVALS] = cpr_route_build,
            [BY_DEFINITION] = cpr_route_build_definition,
            [PER_TOKEN] = cpr_route_build_per_token,
        },
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
};
