/* SPDX-License-Identifier: Apache-2.0 */
/* Laws about flat tensors notice decoders that look at too little. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "laws/laws.h"

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

static void the_law_of_any_tensor_can_fail(void **state) {
    (void)state;
    enum { CASES_UNTIL_NOTICED = 20000 };
    engine_under_test engines[] = {the_engine, the_engine};
    engines[0].flat_decode = decode_as_upstream;
    engines[1].flat_decode = decode_without_identity_rule;
    for (int i = 0; i < 2; i++) {
        verdict v = {.outcome = LAW_PASSED};
        for (uint64_t seed = 0; seed < CASES_UNTIL_NOTICED && v.outcome != LAW_FAILED; seed++) {
            tensor_case c;
            choices from = choices_from_seed(seed, NULL);
            tensor_case_draw(&from, &c);
            judge_flat_decode(&c, &engines[i], &v);
        }
        assert_int_equal(v.outcome, LAW_FAILED);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_law_of_any_tensor_can_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
