/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference itself, which the laws take for true: what the gated delta rule is for, and gradients against differences; then
 * the kinds of numbers, and refusals by example.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "consumer/delta.h"
#include "kit/choice.h"
#include <math.h>
#include <string.h>

enum { TOKENS = 9, MOST = 4096 };

/*------------------------------------------------------------------------------
 * Kinds of numbers
 *----------------------------------------------------------------------------*/

static void the_field_is_one(void **state) {
    (void)state;
    const scalar last = 2147483646; /* -1 */
    assert_true(in_field.add(last, 1) == 0);
    assert_true(in_field.subtract(0, 1) == last);
    assert_true(in_field.multiply(last, last) == 1);
    assert_true(in_field.multiply(1073741824, 2) == 1);
    uint64_t random = 1;
    for (int i = 0; i < 1000; i++) {
        const scalar a = in_field.draw(random_next(&random)), b = in_field.draw(random_next(&random));
        const scalar c = in_field.draw(random_next(&random));
        assert_true(in_field.multiply(a, in_field.add(b, c)) ==
                    in_field.add(in_field.multiply(a, b), in_field.multiply(a, c)));
        assert_true(in_field.add(in_field.subtract(a, b), b) == a);
    }
}

/* Eight bits, to the nearest, ties to even. */
static void bfloat16_rounds(void **state) {
    (void)state;
    assert_true(in_bfloat16.add(1, 0x1p-8) == 1);
    assert_true(in_bfloat16.add(1, 3 * 0x1p-9) == 1 + 0x1p-7);
    assert_true(in_bfloat16.add(1, 3 * 0x1p-8) == 1 + 0x1p-6);
    assert_true(in_bfloat16.subtract(-1, 0x1p-8) == -1);
    assert_true(in_bfloat16.multiply(1.5, 1 + 0x1p-7) == 1.5 + 0x1p-6);
    assert_true(in_float.add(1, 0x1p-25) == 1);
    assert_true(in_float.add(1, 0x1p-23) == 1 + 0x1p-23);
}

/*------------------------------------------------------------------------------
 * The reference
 *----------------------------------------------------------------------------*/

/* A key of length 1 at full strength, no decay, and no convolution: what is written is read, and written over. */
static void what_is_written_is_read(void **state) {
    (void)state;
    const delta_shape shape = {.heads = 1, .keys = 2, .values = 1, .taps = 1};
    const scalar taps[] = {1, 1, 1, 1, 1};
    const delta_layer layer = {&in_double, shape, taps};
    /* query, key, value, decay, strength */
    const scalar rows[5][7] = {{1, 0, 1, 0, 5, 1, 1},
                               {0, 1, 0, 1, 7, 1, 1},
                               {1, 1, 0, 0, 0, 1, 1},
                               {1, 0, 1, 0, 6, 1, 1},
                               {1, 1, 0, 0, 0, 0.5, 0}};
    const int64_t first[] = {0, 0, 0, 0, 0}, alone[] = {0, 0, 2, 3, 4};
    const scalar wanted[] = {5, 7, 12, 6, 6.5}, wanted_alone[] = {5, 7, 0, 6, 0};
    scalar outputs[5];
    assert_true(delta_reference(&layer, first, 5, rows[0], outputs));
    assert_memory_equal(outputs, wanted, sizeof wanted);
    assert_true(delta_reference(&layer, alone, 5, rows[0], outputs));
    assert_memory_equal(outputs, wanted_alone, sizeof wanted_alone);
}

/* Values 1, 2, 4 through taps 1, 10, 100; the second sequence begins at the third token. */
static void the_convolution_looks_back_within_its_sequence(void **state) {
    (void)state;
    const delta_shape shape = {.heads = 1, .keys = 1, .values = 1, .taps = 3};
    const scalar taps[] = {1, 0, 0, 1, 0, 0, 1, 10, 100};
    const delta_layer layer = {&in_double, shape, taps};
    const scalar rows[4][5] = {{1, 1, 1, 0, 1}, {1, 1, 2, 0, 1}, {1, 1, 4, 0, 1}, {1, 1, 8, 0, 1}};
    const int64_t first[] = {0, 0, 0, 0}, cut[] = {0, 0, 2, 2};
    const scalar wanted[] = {1, 12, 124, 248}, wanted_cut[] = {1, 12, 4, 48};
    scalar outputs[4];
    assert_true(delta_reference(&layer, first, 4, rows[0], outputs));
    assert_memory_equal(outputs, wanted, sizeof wanted);
    assert_true(delta_reference(&layer, cut, 4, rows[0], outputs));
    assert_memory_equal(outputs, wanted_cut, sizeof wanted_cut);
}

typedef struct trial {
    delta_layer layer;
    int64_t first[TOKENS];
    scalar parameters[MOST], rows[MOST], output_grads[MOST];
} trial;

static void trial_make(trial *t, delta_shape shape) {
    const int64_t cu[] = {0, 5, 5, 6, TOKENS};
    uint64_t random = 5;
    t->layer = (delta_layer){&in_double, shape, t->parameters};
    delta_first_tokens(cu, 5, t->first);
    for (int i = 0; i < MOST; i++) {
        t->parameters[i] = in_double.draw(random_next(&random));
        t->rows[i] = in_double.draw_gate(random_next(&random));
        t->output_grads[i] = in_double.draw(random_next(&random));
    }
}

static double loss(const trial *t) {
    static scalar outputs[MOST];
    double sum = 0;
    assert_true(delta_reference(&t->layer, t->first, TOKENS, t->rows, outputs));
    for (int64_t i = 0; i < TOKENS * delta_output_width(&t->layer.shape); i++)
        sum += outputs[i] * t->output_grads[i];
    return sum;
}

static double slope(const trial *t, scalar *at) {
    static const double step = 1e-5;
    const scalar here = *at;
    *at = here + step;
    const double above = loss(t);
    *at = here - step;
    const double below = loss(t);
    *at = here;
    return (above - below) / (2 * step);
}

static void gradients_are_slopes(void **state) {
    (void)state;
    static trial t;
    static scalar row_grads[MOST], parameter_grads[MOST];
    static const double tolerance = 1e-7;
    trial_make(&t, (delta_shape){.heads = 2, .keys = 3, .values = 2, .taps = 3});
    assert_true(
        delta_reference_back(&t.layer, t.first, TOKENS, t.rows, t.output_grads, row_grads, parameter_grads));
    for (int64_t i = 0; i < TOKENS * delta_row_width(&t.layer.shape); i++)
        assert_true(fabs(slope(&t, &t.rows[i]) - row_grads[i]) < tolerance);
    for (int64_t i = 0; i < delta_parameters(&t.layer.shape); i++)
        assert_true(fabs(slope(&t, &t.parameters[i]) - parameter_grads[i]) < tolerance);
}

/*------------------------------------------------------------------------------
 * Refusals, by example
 *----------------------------------------------------------------------------*/

static delta_error refusal(delta_shape shape, delta_mode mode, int64_t cp_size, int64_t length) {
    static const scalar parameters[MOST];
    const delta_layer layer = {&in_field, shape, parameters};
    const int64_t cu[] = {0, 8, 8 + length};
    const delta_batch batch = {mode, cp_size, cu, 3};
    delta_group *group;
    delta_error error;
    assert_int_equal(delta_group_create(NULL, &group, &error), DELTA_OK);
    delta_forward(group, &layer, &batch, NULL, NULL, &error);
    delta_group_free(group);
    return error;
}

static void refusals_have_names_and_details(void **state) {
    (void)state;
    const delta_shape shape = {3, 1, 1, 1}, flat = {3, 0, 1, 1}, wide = {1, DELTA_MOST_KEYS + 1, 1, 1};
    delta_error error = refusal(shape, DELTA_MODE_COUNT, 2, 4);
    assert_string_equal(delta_error_name(&error), "bad_mode");
    assert_string_equal(delta_mode_name(DELTA_MODE_COUNT), "unknown");
    error = refusal(flat, DELTA_HEADWISE, 2, 4);
    assert_string_equal(delta_error_name(&error), "bad_shape");
    error = refusal(wide, DELTA_HEADWISE, 2, 4);
    assert_int_equal(error.wanted, DELTA_MOST_KEYS);
    error = refusal(shape, DELTA_HEADWISE, 2, 6);
    assert_string_equal(delta_error_name(&error), "not_divisible_2cp");
    assert_int_equal(error.route.index, 1);
    assert_int_equal(error.route.got, 6);
    error = refusal(shape, DELTA_HEADWISE, 2, 4);
    assert_string_equal(delta_error_name(&error), "not_divisible_heads");
    assert_int_equal(error.got, 3);
    assert_int_equal(error.wanted, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_field_is_one),
        cmocka_unit_test(bfloat16_rounds),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_convolution_looks_back_within_its_sequence),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(refusals_have_names_and_details),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
