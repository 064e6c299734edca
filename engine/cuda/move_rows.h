/* SPDX-License-Identifier: Apache-2.0 */
/* The one kernel: rows moved by runs. */
#ifndef CPROUTE_MOVE_ROWS_H
#define CPROUTE_MOVE_ROWS_H

#include <cuda_runtime_api.h>

#include "moves.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Loads what cpr_move_rows starts to the current device: see cpr_load_kernels. */
cudaError_t cpr_move_rows_load(void);

/* Enqueues `moves` (of rows of row_bytes, lists and rows in device memory) with at most most_blocks blocks. Nothing for no rows. */
cudaError_t cpr_move_rows(const cpr_moves *moves, size_t row_bytes, const void *from, void *to,
                          int most_blocks, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
