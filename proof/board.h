/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a planted fault: how often it was reached, how often it mattered, whether and when a law saw it. It is kept in
 * the file that PLANTED_BOARD names, so that it outlives crashes and is seen across forks; without that variable nothing is kept.
 */
#ifndef CPROUTE_PROOF_BOARD_H
#define CPROUTE_PROOF_BOARD_H

#include "kit/law.h"

/* Four numbers of 64 bits, as ci/detection.py reads them. Nothing is counted on once a law has seen the fault. */
typedef struct board {
    uint64_t reached, triggered;
    uint64_t detected_ns; /* CLOCK_MONOTONIC; 0: not yet */
    uint64_t law;         /* its number, in the order of laws.def */
} board;

void board_open(void);
void board_detected(const law *l);

#endif
