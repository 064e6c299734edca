/* SPDX-License-Identifier: Apache-2.0 */
#include "ranges.h"

#include <stdio.h>

cpr_range_names cpr_range_names_of(cpr_layout source, cpr_layout target) {
    static const char *const RANGES[CPR_RANGE_COUNT] = {
        [CPR_RANGE_ROUTE] = "route",           [CPR_RANGE_SWAP] = "swap",       [CPR_RANGE_PACK] = "pack",
        [CPR_RANGE_ALL_TO_ALL] = "all_to_all", [CPR_RANGE_SCATTER] = "scatter", [CPR_RANGE_DIRECT] = "direct",
    };
    cpr_range_names names;
    for (int range = 0; range < CPR_RANGE_COUNT; range++) {
        snprintf(names.text[range], sizeof names.text[range], "cp_layout/thd/%s/%.16s_to_%.16s",
                 RANGES[range], cpr_layout_name(source), cpr_layout_name(target));
    }
    return names;
}
