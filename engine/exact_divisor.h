/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Division without dividing, where nothing is left over: chunks of sequences, again and again by the same number.
 *
 * An odd number has an inverse modulo 2^64, and times it every multiple becomes its quotient; powers of two are rotated out. What
 * is no multiple becomes more than any quotient can be (Granlund and Montgomery 1994, "Division by invariant integers", 9).
 */
#ifndef CPROUTE_EXACT_DIVISOR_H
#define CPROUTE_EXACT_DIVISOR_H

#include "cproute/cproute.h"

typedef struct cpr_exact_divisor {
    uint64_t inverse; /* of the divisor's odd part */
    uint64_t largest_quotient;
    unsigned twos; /* factors of 2 */
} cpr_exact_divisor;

/* For divisor > 0. */
static inline cpr_exact_divisor cpr_exact_divisor_of(int64_t divisor) {
    const unsigned twos = (unsigned)__builtin_ctzll((unsigned long long)divisor);
    const uint64_t odd = (uint64_t)divisor >> twos;
    uint64_t inverse = odd; /* right in the last 3 bits; each step doubles them */
    for (int bits = 3; bits < 64; bits *= 2) {
        inverse *= 2 - odd * inverse;
    }
    return (cpr_exact_divisor){
        .inverse = inverse, .largest_quotient = UINT64_MAX / (uint64_t)divisor, .twos = twos};
}

/* Of twice the number. */
static inline cpr_exact_divisor cpr_exact_divisor_doubled(cpr_exact_divisor divisor) {
    divisor.twos++;
    divisor.largest_quotient /= 2;
    return divisor;
}

static inline uint64_t cpr_exact_product(const cpr_exact_divisor *divisor, int64_t number) {
    const uint64_t product = (uint64_t)number * divisor->inverse;
    return product >> divisor->twos | product << (-divisor->twos & 63);
}

/* number / divisor, for a number that is a multiple and not negative. */
static inline int64_t cpr_exact_quotient(const cpr_exact_divisor *divisor, int64_t number) {
    return (int64_t)cpr_exact_product(divisor, number);
}

/* Is a number that is not negative a multiple? */
static inline bool cpr_divides(const cpr_exact_divisor *divisor, int64_t number) {
    return cpr_exact_product(divisor, number) <= divisor->largest_quotient;
}

#endif
