/* SPDX-License-Identifier: Apache-2.0 */
#include "scalar.h"

#include <math.h>
#include <string.h>

/*==============================================================================
 * MARK: - Rounded kinds
 *============================================================================*/

static scalar exactly(double value) {
    return value;
}

static scalar to_float(double value) {
    return (float)value;
}

/* To the nearest, ties to even: the upper half of a float. */
static scalar to_bfloat16(double value) {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    bits += 0x7fff + (bits >> 16 & 1);
    bits &= 0xffff0000;
    memcpy(&narrow, &bits, sizeof narrow);
    return narrow;
}

static scalar draw_fraction(uint64_t random) {
    return ((double)(random % 31) - 15) / 32;
}

static scalar draw_fraction_gate(uint64_t random) {
    return (double)(random % 33) / 32;
}

/* A double holds the sum and the product of two floats or bfloat16s well enough that rounding it is rounding the exact one. */
#define ROUNDED(kind, rounded)                                                                               \
    static scalar kind##_add(scalar a, scalar b) {                                                           \
        return rounded(a + b);                                                                               \
    }                                                                                                        \
    static scalar kind##_subtract(scalar a, scalar b) {                                                      \
        return rounded(a - b);                                                                               \
    }                                                                                                        \
    static scalar kind##_multiply(scalar a, scalar b) {                                                      \
        return rounded(a * b);                                                                               \
    }                                                                                                        \
    const arithmetic in_##kind = {#kind,           kind##_add,    kind##_subtract,                           \
                                  kind##_multiply, draw_fraction, draw_fraction_gate}

ROUNDED(double, exactly);
ROUNDED(float, to_float);
ROUNDED(bfloat16, to_bfloat16);

/*==============================================================================
 * MARK: - The field
 *============================================================================*/

/* Signed, as a double turns into no other integer in one instruction. */
static const int64_t PRIME = (INT64_C(1) << 31) - 1;

static scalar field_add(scalar a, scalar b) {
    const scalar sum = a + b;
    return sum < (scalar)PRIME ? sum : sum - (scalar)PRIME;
}

static scalar field_subtract(scalar a, scalar b) {
    return a < b ? a - b + (scalar)PRIME : a - b;
}

static scalar field_multiply(scalar a, scalar b) {
    return (scalar)((int64_t)a * (int64_t)b % PRIME);
}

static scalar field_draw(uint64_t random) {
    return (scalar)(random % (uint64_t)PRIME);
}

const arithmetic in_field = {"field", field_add, field_subtract, field_multiply, field_draw, field_draw};

/*==============================================================================
 * MARK: - Magnitudes
 *============================================================================*/

#define MAGNITUDES(kind, growth)                                                                             \
    static scalar kind##_add(scalar a, scalar b) {                                                           \
        return (fabs(a) + fabs(b)) * (1 + (growth));                                                         \
    }                                                                                                        \
    static scalar kind##_multiply(scalar a, scalar b) {                                                      \
        return fabs(a) * fabs(b) * (1 + (growth));                                                           \
    }                                                                                                        \
    const arithmetic kind = {#kind,           kind##_add,    kind##_add,                                     \
                             kind##_multiply, draw_fraction, draw_fraction_gate}

MAGNITUDES(magnitudes, 0);
MAGNITUDES(float_magnitudes, 3 * 0x1p-24);
MAGNITUDES(bfloat16_magnitudes, 3 * 0x1p-8);
