/* SPDX-License-Identifier: Apache-2.0 */
/* Laws about flat tensors notice decoders that look at too little. */
#include "alarms.h"

/* Upstream looks at the header and the length; a law that passed such a decoder would prove nothing. */
static cpr_status decode_as_upstream(const int64_t *flat, int64_t count, cpr_geometry geometry,
                                     const cpr_allocator *allocator, cpr_flat_view *view, cpr_error *error) {
    const cpr_status status = cpr_flat_decode(flat, count, geometry, allocator, view, error);
    if (status != CPR_SPLIT_MISMATCH && status != CPR_BAD_ROW)
        return status;
    *error = (cpr_error){CPR_OK, -1, 0, 0};
    *view = (cpr_flat_view){.geometry = geometry};
    return CPR_OK;
}

static cpr_status decode_without_identity_rule(const int64_t *flat, int64_t count, cpr_geometry geometry,
                                               const cpr_allocator *allocator, cpr_flat_view *view,
                                               cpr_error *error) {
    const cpr_status status = cpr_flat_decode(flat, count, geometry, allocator, view, error);
    if (status == CPR_TOTAL_MISMATCH && error->wanted == 0 && error->index >= 4)
        *error = (cpr_error){CPR_OK, -1, 0, 0};
    return error->status;
}

static const struct planted {
    const char *bug;
    tensor_engine engine; /* no more than how it decodes */
    const char *noticed_by[LAWS_OF_AN_ALARM];
} alarms[] = {
    {"splits and rows believed", {.flat_decode = decode_as_upstream}, {"flat_decode"}},
    {"any row where an identity has none", {.flat_decode = decode_without_identity_rule}, {"flat_decode"}},
};

static alarm alarm_at(size_t number) {
    static tensor_engine engine;
    engine = the_engine;
    engine.flat_decode = alarms[number].engine.flat_decode;
    return (alarm){alarms[number].bug, alarms[number].noticed_by, &engine};
}

int main(void) {
    return alarm_tests(&(alarm_suite){.name = "tensor alarms",
                                      .family = &tensor_family,
                                      .engine = &the_engine,
                                      .cases_without_alarm = 2000,
                                      .alarm_count = sizeof alarms / sizeof *alarms,
                                      .alarm_at = alarm_at});
}
