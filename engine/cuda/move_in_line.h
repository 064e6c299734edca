/* SPDX-License-Identifier: Apache-2.0 */
/* For kernels: units that lie in line, all loads in flight before the first store. What is held is initialised, though never read
 * unless loaded: units left undefined would stay alive around the loop over chunks, and their registers with them. */
#ifndef CPROUTE_MOVE_IN_LINE_H
#define CPROUTE_MOVE_IN_LINE_H

#include "moves.h"

/* Up to STEPS units of a lane, CPR_MOVE_LANES apart; ALL of them, or `steps`. */
template <int STEPS, bool ALL, class Unit>
static __device__ __forceinline__ void move_in_line(const Unit *__restrict__ from, Unit *__restrict__ to,
                                                    int steps) {
    Unit held[STEPS] = {};
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        if (ALL || step < steps) {
            held[step] = __ldcs(from + step * CPR_MOVE_LANES);
        }
    }
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        if (ALL || step < steps) {
            to[step * CPR_MOVE_LANES] = held[step];
        }
    }
}

#endif
