/* SPDX-License-Identifier: Apache-2.0 */
/* All laws about the engine at once, for targets that are told of no law. */
#ifndef CPROUTE_PROOF_ALL_LAWS_H
#define CPROUTE_PROOF_ALL_LAWS_H

#include "kit/law.h"

/*
 * Laws that take ten times as long as others judge in every eighth round only. Laws about the layer behind the routes never do: they
 * are slow, and see of the engine what laws about routes see.
 */
bool law_has_turn(const law *l, uint64_t round);

/* Makes a case of a family of bytes; false: it makes none. */
typedef bool make_case_fn(const family *f, const uint8_t *bytes, size_t length, void *subject);

/* PROOF_LAW=id leaves that law alone. Aborts if there is no such law. */
void all_laws_open(void);

/*
 * Judges an input by all laws, and aborts at the first that is broken. Its first byte is the round; behind it each law has a place
 * of its own, where its case begins, so that an input is as many cases as laws. All laws, because what AFL++ spends on an input is
 * more than what a law spends on a case, and because AFL++ stays for ten thousand cases with one input: whatever a byte of it chose,
 * it would see but few choices in its first seconds. With PROOF_LAW all bytes make the one case.
 */
void all_laws_judge(make_case_fn *make, const uint8_t *bytes, size_t length);

#endif
