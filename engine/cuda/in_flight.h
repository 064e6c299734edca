/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of a group that have been enqueued and may not have come to their end. If another rank is silent, nothing that is enqueued ends
 * any more, and after some thousand launches CUDA would block in the next one, where nobody can abort. So one run is marked by an event; the
 * next run asks for it, marks itself once that has come, and is an error when it has not for too long.
 */
#ifndef CPROUTE_CUDA_IN_FLIGHT_H
#define CPROUTE_CUDA_IN_FLIGHT_H

#include "deadline.h"
#include <cuda_runtime_api.h>

typedef struct cpr_in_flight {
    cudaEvent_t marker;
    bool marked; /* a run, which has until the deadline to come to its end */
    cpr_deadline deadline;
    int64_t later; /* runs enqueued after it */
} cpr_in_flight;

#endif
