/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What patches of this folder may say, besides being wrong. It is included ahead of every source that is patched, so that
 * no patch needs a hunk for it.
 *
 *     PLANTED(condition)    stands where the fault is; true when what is at hand makes the fault matter
 */
#ifndef CPROUTE_PLANTED_H
#define CPROUTE_PLANTED_H

#include <stdbool.h>

/* Of proof/board.c. Where that is not linked, nothing is kept. */
void planted(bool triggered);

#ifdef PLANTED_BOARD
#define PLANTED(condition) planted(condition)
#else
#define PLANTED(condition) ((void)(condition))
#endif

#endif
