/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPROUTE_CUDA_GIVE_UP_H
#define CPROUTE_CUDA_GIVE_UP_H

#include <nccl.h>
#include <stdint.h>

/*
 * Aborts a communicator, and waits for that at most for limit_ms. What has been enqueued on it comes to its end in any case. But a
 * graph that captured it keeps NCCL from clearing it away until the graph is destroyed, and whoever would do that may be waiting here: so
 * the rest is done in the background.
 */
void cpr_comm_give_up(ncclComm_t comm, int64_t limit_ms);

#endif
