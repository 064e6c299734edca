/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy by runs is bound by memory: its rows are read and written once, and lists are as short as there are runs. So what counts
 * is how much is in flight: a warp has 4 KiB of 16-byte units, a multiprocessor four blocks of eight warps.
 */
#include <cuda_runtime.h>

#include "move_in_line.h"
#include "move_rows.h"
#include "unit_kernels.h"

enum { BLOCKS_RESIDENT = 4 };

/* Where runs change, places are looked up, and fewer units are in flight so that registers last. */
template <class Unit>
static __device__ __forceinline__ void move_by_lookup(const cpr_moves &moves, int64_t units_per_row,
                                                      const cpr_move_chunk &chunk, int lane,
                                                      const Unit *__restrict__ from, Unit *__restrict__ to) {
    constexpr int AT_ONCE = 4;
    const int steps = cpr_move_steps(&chunk, lane);
#pragma unroll 1
    for (int step = 0; step < steps; step += AT_ONCE) {
        Unit held[AT_ONCE] = {};
        int64_t place[AT_ONCE] = {};
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (step + i < steps) {
                const cpr_unit_move move =
                    cpr_move_in_many_runs(&moves, units_per_row, &chunk, lane, step + i);
                held[i] = __ldcs(from + move.from);
                place[i] = move.to;
            }
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (step + i < steps) {
                to[place[i]] = held[i];
            }
        }
    }
}

template <class Unit>
static __global__
__launch_bounds__(CPR_MOVE_THREADS,
                  BLOCKS_RESIDENT) void move_units(const cpr_moves moves, const int64_t units_per_row,
                                                   const Unit *__restrict__ from, Unit *__restrict__ to) {
    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % CPR_MOVE_LANES;
    const int64_t chunks = cpr_move_chunks(&moves, units_per_row);
    const int64_t stride = cpr_move_chunk_stride(gridDim.x);
    for (int64_t number = cpr_move_first_chunk(blockIdx.x, thread); number < chunks; number += stride) {
        const cpr_move_chunk chunk = cpr_move_chunk_at(&moves, units_per_row, number);
        if (chunk.first_run != chunk.last_run) {
            move_by_lookup(moves, units_per_row, chunk, lane, from, to);
            continue;
        }
        const cpr_unit_move move = cpr_move_in_one_run(&chunk, lane);
        const int steps = cpr_move_steps(&chunk, lane);
        if (steps == CPR_MOVE_DEPTH) {
            move_in_line<CPR_MOVE_DEPTH, true>(from + move.from, to + move.to, steps);
        } else {
            move_in_line<CPR_MOVE_DEPTH, false>(from + move.from, to + move.to, steps);
        }
    }
}

static const void *kernel_for(size_t unit_bytes) {
    return cpr_kernel_for_unit(
        unit_bytes, [](auto unit) { return reinterpret_cast<const void *>(move_units<decltype(unit)>); });
}

extern "C" cudaError_t cpr_move_rows_load(void) {
    return cpr_load_kernels(kernel_for);
}

extern "C" cudaError_t cpr_move_rows(const cpr_moves *moves, size_t row_bytes, const void *from, void *to,
                                     int most_blocks, cudaStream_t stream) {
    if (moves->rows == 0) {
        return cudaSuccess;
    }
    const size_t unit_bytes = cpr_move_unit_bytes(row_bytes, from, to);
    cpr_moves runs = *moves;
    int64_t units_per_row = static_cast<int64_t>(row_bytes / unit_bytes);
    const int64_t chunks = cpr_move_chunks(moves, units_per_row);
    const dim3 grid(static_cast<unsigned>(cpr_move_blocks(chunks, most_blocks)));
    void *arguments[] = {&runs, &units_per_row, &from, &to};
    return cudaLaunchKernel(kernel_for(unit_bytes), grid, dim3(CPR_MOVE_THREADS), arguments, 0, stream);
}
