/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread moves what: the index arithmetic of the kernels, as functions that a processor runs too, so that the laws hold
 * for the very same code without a GPU. A kernel adds its block and thread numbers, the load and the store.
 *
 * The rows of a pass are numbered in the order of its runs, and each is cut into units of 1 to 16 bytes, the widest that row size and
 * addresses allow. So a pass is one line of units, which is cut into chunks. A warp moves a chunk, its lanes side by side and each
 * in CPR_MOVE_DEPTH steps, whose loads are all in flight before the first is stored. One search among the runs, by the warp
 * together, finds the run of a chunk; only where a chunk has several runs, a search among those follows for each unit.
 */
#ifndef CPROUTE_MOVES_H
#define CPROUTE_MOVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "anywhere.h"

#define CPR_MOVE_LANES 32 /* of a warp */
#ifndef CPR_MOVE_DEPTH
#define CPR_MOVE_DEPTH 8
#endif
#ifndef CPR_MOVE_WARPS
#define CPR_MOVE_WARPS 8 /* of a block */
#endif
#define CPR_MOVE_CHUNK   (CPR_MOVE_LANES * CPR_MOVE_DEPTH) /* units */
#define CPR_MOVE_THREADS (CPR_MOVE_WARPS * CPR_MOVE_LANES)

/* Runs of rows. Run i is the rows [first[i], first[i+1]) of the pass, which come from row from[i] and on, and go to row to[i] and on.
 * Where one of the two is a message, its rows are those of the pass, and from or to is `first` itself. */
typedef struct cpr_moves {
    const int64_t *first; /* count + 1 entries; first[0] is 0, first[count] the rows of all */
    const int64_t *from;
    const int64_t *to;
    int64_t count;
    int64_t rows;
} cpr_moves;

/* The units [begin, end) of a pass, which lie in runs first_run to last_run; unit u of the first run comes from unit u + from_shift. */
typedef struct cpr_move_chunk {
    int64_t begin, end;
    int64_t first_run, last_run;
    int64_t from_shift, to_shift;
} cpr_move_chunk;

typedef struct cpr_unit_move {
    int64_t from, to;
} cpr_unit_move;

CPR_ANYWHERE int64_t cpr_move_chunks(const cpr_moves *moves, int64_t units_per_row) {
    const int64_t units = moves->rows * units_per_row;
    return units / CPR_MOVE_CHUNK + (units % CPR_MOVE_CHUNK != 0);
}

/* Blocks for that many chunks: a warp for each, or fewer blocks that go on until nothing is left. */
CPR_ANYWHERE int64_t cpr_move_blocks(int64_t chunks, int64_t most_blocks) {
    const int64_t blocks = chunks / CPR_MOVE_WARPS + (chunks % CPR_MOVE_WARPS != 0);
    return blocks < most_blocks ? blocks : most_blocks;
}

/* The chunks of a thread: the first, and how far it is to the next. */
CPR_ANYWHERE int64_t cpr_move_first_chunk(int64_t block, int thread) {
    return block * CPR_MOVE_WARPS + thread / CPR_MOVE_LANES;
}

CPR_ANYWHERE int64_t cpr_move_chunk_stride(int64_t blocks) {
    return blocks * CPR_MOVE_WARPS;
}

CPR_ANYWHERE bool cpr_move_run_begins_by(const cpr_moves *moves, int64_t units_per_row, int64_t run,
                                         int64_t unit) {
    return moves->first[run] * units_per_row <= unit;
}

/* The run of `unit`, which is in one of the runs [low, end). */
CPR_ANYWHERE int64_t cpr_move_run_of(const cpr_moves *moves, int64_t units_per_row, int64_t unit, int64_t low,
                                     int64_t end) {
    while (end - low > 1) {
        const int64_t middle = low + (end - low) / 2;
        if (cpr_move_run_begins_by(moves, units_per_row, middle, unit)) {
            low = middle;
        } else {
            end = middle;
        }
    }
    return low;
}

/* Which of the runs [low, end) a lane looks at: the first one by lane 0, all of them where there are no more than lanes. */
CPR_ANYWHERE int64_t cpr_move_probe(int64_t low, int64_t end, int lane) {
    return low + (end - low) * lane / CPR_MOVE_LANES;
}

/* How many lanes of a warp look at a run that begins at `unit` or before: lanes 0 and on, because runs are in order. */
CPR_ANYWHERE int cpr_move_probes_by(const cpr_moves *moves, int64_t units_per_row, int64_t unit, int64_t low,
                                    int64_t end) {
#ifdef __CUDA_ARCH__
    const int64_t run = cpr_move_probe(low, end, (int)(threadIdx.x % CPR_MOVE_LANES));
    return __popc(__ballot_sync(~0U, cpr_move_run_begins_by(moves, units_per_row, run, unit)));
#else
    int probes = 0;
    for (int lane = 0; lane < CPR_MOVE_LANES; lane++) {
        probes += cpr_move_run_begins_by(moves, units_per_row, cpr_move_probe(low, end, lane), unit);
    }
    return probes;
#endif
}

/* cpr_move_run_of for a unit that a whole warp asks for: a read for each factor of 32 in the runs and not of 2, because each waits
 * for the one before and none of the rows is on its way yet. */
CPR_ANYWHERE int64_t cpr_move_run_of_warp(const cpr_moves *moves, int64_t units_per_row, int64_t unit,
                                          int64_t low, int64_t end) {
    while (end - low > 1) {
        const int probes = cpr_move_probes_by(moves, units_per_row, unit, low, end);
        const int64_t begun = cpr_move_probe(low, end, probes - 1);
        if (probes < CPR_MOVE_LANES) {
            end = cpr_move_probe(low, end, probes);
        }
        low = begun;
    }
    return low;
}

/* Of a chunk below cpr_move_chunks; on a device, called by all lanes of a warp for the same one. */
CPR_ANYWHERE cpr_move_chunk cpr_move_chunk_at(const cpr_moves *moves, int64_t units_per_row, int64_t number) {
    const int64_t units = moves->rows * units_per_row;
    cpr_move_chunk chunk;
    chunk.begin = number * CPR_MOVE_CHUNK;
    chunk.end = units - chunk.begin < CPR_MOVE_CHUNK ? units : chunk.begin + CPR_MOVE_CHUNK;
    const int64_t run = cpr_move_run_of_warp(moves, units_per_row, chunk.begin, 0, moves->count);
    chunk.first_run = run;
    chunk.last_run = run;
    if (moves->first[run + 1] * units_per_row < chunk.end) {
        /* A run has a unit at least. */
        const int64_t beyond = run + (chunk.end - chunk.begin);
        chunk.last_run = cpr_move_run_of_warp(moves, units_per_row, chunk.end - 1, run + 1,
                                              beyond < moves->count ? beyond : moves->count);
    }
    chunk.from_shift = (moves->from[run] - moves->first[run]) * units_per_row;
    chunk.to_shift = (moves->to[run] - moves->first[run]) * units_per_row;
    return chunk;
}

/* How many units of a chunk are a lane's: one in each step below that. */
CPR_ANYWHERE int cpr_move_steps(const cpr_move_chunk *chunk, int lane) {
    const int units = (int)(chunk->end - chunk->begin);
    return (units - lane + CPR_MOVE_LANES - 1) / CPR_MOVE_LANES;
}

/* A lane's unit in step 0 of a chunk in one run; each further step is CPR_MOVE_LANES further, in both places. */
CPR_ANYWHERE cpr_unit_move cpr_move_in_one_run(const cpr_move_chunk *chunk, int lane) {
    const int64_t unit = chunk->begin + lane;
    cpr_unit_move move;
    move.from = unit + chunk->from_shift;
    move.to = unit + chunk->to_shift;
    return move;
}

/* A lane's unit in a step of a chunk in any number of runs. */
CPR_ANYWHERE cpr_unit_move cpr_move_in_many_runs(const cpr_moves *moves, int64_t units_per_row,
                                                 const cpr_move_chunk *chunk, int lane, int step) {
    const int64_t unit = chunk->begin + step * CPR_MOVE_LANES + lane;
    const int64_t run = cpr_move_run_of(moves, units_per_row, unit, chunk->first_run, chunk->last_run + 1);
    const int64_t in_pass = moves->first[run];
    cpr_unit_move move;
    move.from = unit + (moves->from[run] - in_pass) * units_per_row;
    move.to = unit + (moves->to[run] - in_pass) * units_per_row;
    return move;
}

/* The widest unit that divides rows of row_bytes at both addresses. */
CPR_ANYWHERE size_t cpr_move_unit_bytes(size_t row_bytes, const void *from, const void *to) {
    const uintptr_t together = (uintptr_t)row_bytes | (uintptr_t)from | (uintptr_t)to | 16;
    return (size_t)(together & (~together + 1));
}

#endif
