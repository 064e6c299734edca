/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conversion without a route, as its kernel makes it: which thread moves what, what ranks tell each other before and after,
 * and the launch. Everything but the launch runs on a processor too.
 *
 * A rank's rows are one line of units, as in moves.h, cut into chunks, one for a warp. The place of a chunk's first row is
 * looked up once; only where its rows do not go on together is each unit looked up.
 */
#ifndef CPROUTE_DIRECT_H
#define CPROUTE_DIRECT_H

#include "moves.h"
#include "places.h"

/*==============================================================================
 * MARK: - Which thread moves what
 *============================================================================*/

typedef struct cpr_direct_chunk {
    int64_t begin, end; /* units of the source */
    int64_t first_row;
    cpr_place_run run; /* of the first row */
    bool in_one_run;
} cpr_direct_chunk;

/* A unit's place: the rank that it goes to, and which of that rank's units it becomes. */
typedef struct cpr_direct_place {
    int64_t peer;
    int64_t unit;
} cpr_direct_place;

CPR_ANYWHERE int64_t cpr_direct_chunks(const cpr_places *places, int64_t units_per_row) {
    const int64_t units = cpr_places_rows(places) * units_per_row;
    return units / CPR_MOVE_CHUNK + (units % CPR_MOVE_CHUNK != 0);
}

/* In which order a rank takes its chunks: it begins r/P of the way, so that ranks do not all write to the same one at a time. */
CPR_ANYWHERE int64_t cpr_direct_turn(const cpr_places *places, int64_t chunks, int64_t number) {
    const int64_t first = chunks / places->ranks * places->rank;
    return number < chunks - first ? number + first : number - (chunks - first);
}

CPR_ANYWHERE cpr_direct_chunk cpr_direct_chunk_at(const cpr_places *places, int64_t units_per_row,
                                                  int64_t number) {
    const int64_t units = cpr_places_rows(places) * units_per_row;
    cpr_direct_chunk chunk;
    chunk.begin = number * CPR_MOVE_CHUNK;
    chunk.end = units - chunk.begin < CPR_MOVE_CHUNK ? units : chunk.begin + CPR_MOVE_CHUNK;
    chunk.first_row = chunk.begin / units_per_row;
    chunk.run = cpr_places_run_at(places, chunk.first_row);
    chunk.in_one_run = (chunk.end - 1) / units_per_row - chunk.first_row < chunk.run.length;
    return chunk;
}

/* Of a unit of a chunk in one run. */
CPR_ANYWHERE cpr_direct_place cpr_direct_in_one_run(const cpr_direct_chunk *chunk, int64_t units_per_row,
                                                    int64_t unit) {
    cpr_direct_place place;
    place.peer = chunk->run.peer;
    place.unit = unit + (chunk->run.row - chunk->first_row) * units_per_row;
    return place;
}

/* Of any unit. */
CPR_ANYWHERE cpr_direct_place cpr_direct_by_lookup(const cpr_places *places, int64_t units_per_row,
                                                   int64_t unit) {
    const int64_t row = unit / units_per_row;
    const cpr_place_run run = cpr_places_run_at(places, row);
    cpr_direct_place place;
    place.peer = run.peer;
    place.unit = unit + (run.row - row) * units_per_row;
    return place;
}

/*==============================================================================
 * MARK: - What ranks tell each other
 *============================================================================*/

/* Before rows move, from each block to the same one of every rank. */
typedef struct cpr_direct_note {
    int64_t status;
    uint64_t digest; /* of all that must be the same on every rank; where status is CPR_OK */
} cpr_direct_note;

/* Where a note arrives. Its flag counts how far the sender is: two steps a conversion. */
typedef struct cpr_direct_slot {
    uint64_t step;
    cpr_direct_note note;
    uint64_t unused;
} cpr_direct_slot;

enum { CPR_DIRECT_CHANNELS = 16, CPR_DIRECT_BLOCKS = 264 };

/* A board is what one rank has of them: slots by channel, block and sender, and, its own, steps by channel and block. */
CPR_ANYWHERE size_t cpr_direct_slot_at(int64_t ranks, int64_t channel, int64_t block, int64_t sender) {
    return (size_t)((channel * CPR_DIRECT_BLOCKS + block) * ranks + sender) * sizeof(cpr_direct_slot);
}

CPR_ANYWHERE size_t cpr_direct_step_at(int64_t ranks, int64_t channel, int64_t block) {
    return cpr_direct_slot_at(ranks, CPR_DIRECT_CHANNELS, 0, 0) +
           (size_t)(channel * CPR_DIRECT_BLOCKS + block) * sizeof(uint64_t);
}

/* Where a rank notes, a word and not 0, that it has waited for another one in vain: its steps are not those of others any more. */
CPR_ANYWHERE size_t cpr_direct_lost_at(int64_t ranks) {
    return cpr_direct_step_at(ranks, CPR_DIRECT_CHANNELS, 0);
}

CPR_ANYWHERE size_t cpr_direct_board_bytes(int64_t ranks) {
    return cpr_direct_lost_at(ranks) + sizeof(uint64_t);
}

CPR_ANYWHERE uint64_t cpr_direct_digest(uint64_t call_digest, const cpr_offsets_scan *scan) {
    return cpr_stirred_in(call_digest, scan->digest);
}

/* The first rank that cannot take part, and the first that has another digest than rank 0; INT64_MAX: none. */
typedef struct cpr_direct_findings {
    int64_t failed, different;
} cpr_direct_findings;

CPR_ANYWHERE cpr_direct_findings cpr_direct_found_in(int64_t rank, const cpr_direct_note *note,
                                                     const cpr_direct_note *of_rank_0) {
    cpr_direct_findings findings;
    findings.failed = note->status != CPR_OK ? rank : INT64_MAX;
    findings.different = note->digest != of_rank_0->digest ? rank : INT64_MAX;
    return findings;
}

/* What a rank answers: its own fault, or that of another, or that they differ; the same on every rank but for those at fault. */
CPR_ANYWHERE cpr_error cpr_direct_answer(cpr_error own, const cpr_direct_findings *findings,
                                         const cpr_direct_note *first_failed,
                                         const cpr_direct_note *first_different,
                                         const cpr_direct_note *of_rank_0) {
    if (own.status != CPR_OK) {
        return own;
    }
    if (findings->failed != INT64_MAX) {
        return cpr_found(CPR_PEER_FAILED, findings->failed, first_failed->status, 0);
    }
    if (findings->different != INT64_MAX) {
        return cpr_found(CPR_DIVERGENT_METADATA, findings->different, (int64_t)first_different->digest,
                         (int64_t)of_rank_0->digest);
    }
    return cpr_nothing_found();
}

/*==============================================================================
 * MARK: - The launch
 *============================================================================*/

/* In pinned host memory: the last conversion that was refused. The device counts up `begun`, writes the error, then counts up `raised`; a
 * reader who finds both the same before and after has read one error whole. */
typedef struct cpr_direct_report {
    uint64_t begun;
    cpr_error error;
    uint64_t raised;
} cpr_direct_report;

/* In pinned host memory, for all conversions of a group: how the host and the device tell each other that a rank does not come. */
typedef struct cpr_direct_watch {
    int64_t waited_ms; /* by the device, once it has waited in vain; -1: it has not */
    int given_up;      /* by the host, not 0: other ranks are not waited for any more */
} cpr_direct_watch;

/* One rank's part. Pointers are of the device; a board or target of another rank is memory that this device may write to. */
typedef struct cpr_direct_member {
    cpr_offsets offsets;
    cpr_conversion_facts facts; /* source and target as this direction has them */
    int64_t rank;
    cpr_error
        refusal; /* found by the host before the launch; CPR_OK: none. The rank takes part all the same, so that others learn of it */
    uint64_t call_digest; /* of what must be the same on every rank but is not read on the device */
    size_t row_bytes;
    const void *source;
    void *const *targets; /* of every rank: what target_offset counts from */
    size_t target_offset;
    void *const *boards; /* of every rank */
    int64_t channel;
    cpr_direct_report *report;
    cpr_direct_watch *watch;
    int64_t timeout_ms; /* for how long other ranks are waited for */
} cpr_direct_member;

enum { CPR_DIRECT_MEMBERS = 16 };

#ifdef CUDART_VERSION /* by whoever includes the runtime first */
#ifdef __cplusplus
extern "C" {
#endif

/* Blocks for rows of that many bytes in all: the same on every rank, as the same multiprocessors are. */
int cpr_direct_blocks(int64_t bytes, int multiprocessors);

/* Loads what cpr_direct_launch starts to the current device: see cpr_load_kernels. */
cudaError_t cpr_direct_load(void);

/* Enqueues the part of one rank. unit_bytes divides row_bytes and every address. */
cudaError_t cpr_direct_launch(const cpr_direct_member *member, size_t unit_bytes, int blocks,
                              cudaStream_t stream);

/* Enqueues the parts of up to CPR_DIRECT_MEMBERS ranks, all of one group on this device, in one launch whose blocks run at once. */
cudaError_t cpr_direct_launch_together(const cpr_direct_member *members, int count, size_t unit_bytes,
                                       int blocks, cudaStream_t stream);

/* Enqueues the writing of up to CPR_DIRECT_MEMBERS pointers to device memory, without a copy that a graph would read again. */
cudaError_t cpr_direct_write_table(void **table_on_device, void *const *entries, int count,
                                   cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif

#endif
