/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of several kinds behind one set of operations, so that the layer is written once. Every value of every kind is held by
 * a double: a double, a float, a bfloat16, or an integer modulo a prime. In each kind 0 is 0.0 and 1 is 1.0.
 *
 * Modulo a prime there is no rounding: two orders of the same sums and products give the same number, and two different
 * polynomials agree at a random place once in 2^31. So "equal" needs no tolerance.
 */
#ifndef CPROUTE_CONSUMER_SCALAR_H
#define CPROUTE_CONSUMER_SCALAR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef double scalar;

typedef struct arithmetic {
    const char *name;
    scalar (*add)(scalar a, scalar b);
    scalar (*subtract)(scalar a, scalar b);
    scalar (*multiply)(scalar a, scalar b);
    /* Values from random bits: any, and one for a gate, which is between 0 and 1 where that means something. Of rounded kinds they
     * are multiples of 1/32 and have a few bits, so that every rounded kind has them, and are below 1/2, so that states stay small. */
    scalar (*draw)(uint64_t random);
    scalar (*draw_gate)(uint64_t random);
} arithmetic;

extern const arithmetic in_double, in_float;
extern const arithmetic in_bfloat16; /* every operation rounds: worse than a kernel that sums in float */
extern const arithmetic in_field;    /* modulo 2^31 - 1 */

/*
 * What can go wrong by rounding. Evaluating with magnitudes takes every operand for its absolute value and every difference for
 * a sum, which gives R: the sum of the absolute values of all terms. Evaluating with inflated magnitudes also multiplies the
 * result of each operation by 1 + g, which gives R(g): each term times (1 + g)^n, n the operations on its way. An evaluation
 * whose operations have relative errors of at most u, and in which a term passes at most twice as many of them as in this one,
 * is off by at most R(g) - R from what is exact, for (1 + u)^2 <= 1 + g. Here g is 3u: 2^-24 * 3 and 2^-8 * 3.
 */
extern const arithmetic magnitudes, float_magnitudes, bfloat16_magnitudes;

#ifdef __cplusplus
}
#endif

#endif
