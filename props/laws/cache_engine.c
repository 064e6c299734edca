/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_engine.h"

const cache_engine the_cache_engine = {
    .get = cpr_cache_get,
    .prebuild = cpr_cache_prebuild,
    .resolve = cpr_cache_resolve,
    .invalidate = cpr_cache_invalidate,
    .tensor_freed = cpr_cache_tensor_freed,
    .capture_released = cpr_cache_capture_released,
    .clear = cpr_cache_clear,
    .set_limits = cpr_cache_set_limits,
};
