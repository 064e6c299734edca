/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two layouts have in common that cut the same frames.
 *
 * Take every frame to be cut in 2P slices. Each layout gives every rank two, its halves, and the lower one first:
 *
 *     slices              |-0-|-1-|-2-|-3-|-4-|-5-|    P = 3
 *     heads and tails       0   1   2   2   1   0      owners
 *     neighbours            0   0   1   1   2   2
 *
 * So what is true of one frame is true of all: each half of ours is a half of the same peer, the first or the second one of it, and
 * a run. The list is one frame's two runs again and again, and nothing is searched or sorted:
 *   - Peers that differ: the runs with the lower peer in all frames, then those with the other one.
 *   - One peer for both: frame by frame, as rows of the target ascend; or, if its tails are apart, first half by first half, too.
 *     If rows follow each other in the same way on both sides, all of it is a single run. Else no two runs are neighbours:
 *     from one to the next, rows go on at most on the side whose tails are apart.
 */
#include "same_frames.h"

#include "allocator.h"
#include "runs.h"

/* Who has a slice. */
typedef struct owner {
    int64_t rank, half;
} owner;

static int64_t slice_of(const cpr_cutting *cutting, owner own) {
    const int64_t mirrored = own.half == 0 ? own.rank : 2 * cutting->ranks - 1 - own.rank;
    return cutting->halves == 2 ? mirrored : 2 * own.rank + own.half;
}

static owner owner_of(const cpr_cutting *cutting, int64_t slice) {
    if (cutting->halves == 1) {
        return (owner){.rank = slice / 2, .half = slice % 2};
    }
    const bool tail = slice >= cutting->ranks;
    return (owner){.rank = tail ? 2 * cutting->ranks - 1 - slice : slice, .half = tail};
}

/* Frames that are not empty, in order. */
typedef struct frame_reader {
    cpr_entries ends;
    int64_t end, total_tokens;
} frame_reader;

static frame_reader frames_of(const cpr_cu_seqlens *boundaries, int64_t total_tokens) {
    return (frame_reader){.ends = cpr_entries_from(boundaries, 1), .total_tokens = total_tokens};
}

/* The length of the next one, 0 after the last. */
static inline int64_t next_frame(frame_reader *frames) {
    const int64_t begin = frames->end;
    while (frames->end == begin && begin < frames->total_tokens) {
        frames->end = cpr_entries_read(&frames->ends);
    }
    return frames->end - begin;
}

static int64_t count_frames(frame_reader frames) {
    int64_t count = 0;
    while (next_frame(&frames) > 0) {
        count++;
    }
    return count;
}

/* Local rows of a half: `before` are those of all slices like it in frames before. */
typedef struct half_rows {
    int64_t from, per_row_before, per_slice;
} half_rows;

static half_rows rows_of(const cpr_cutting *cutting, int64_t half) {
    if (cutting->tails_apart) {
        return (half_rows){.from = half * cutting->tails_row, .per_row_before = 1};
    }
    return (half_rows){.per_row_before = 2, .per_slice = half};
}

static inline int64_t first_row(const half_rows *rows, int64_t before, int64_t slice_length) {
    return rows->from + rows->per_row_before * before + rows->per_slice * slice_length;
}

/* One half of ours, in all frames. */
typedef struct half_of_list {
    int64_t peer;
    half_rows source, target;
    cpr_run *next;
} half_of_list;

static half_of_list half_of(const cpr_same_frames *pair, int64_t half) {
    const owner peer = owner_of(&pair->theirs, slice_of(&pair->ours, (owner){pair->rank, half}));
    const half_rows ours = rows_of(&pair->ours, half);
    const half_rows theirs = rows_of(&pair->theirs, peer.half);
    const bool send = pair->side == CPR_SEND;
    return (half_of_list){.peer = peer.rank, .source = send ? ours : theirs, .target = send ? theirs : ours};
}

static inline void write_run(half_of_list *half, int64_t before, int64_t length, int64_t step) {
    *half->next = (cpr_run){
        .peer = half->peer,
        .source_row = first_row(&half->source, before, length),
        .target_row = first_row(&half->target, before, length),
        .length = length,
    };
    half->next += step;
}

static void write_runs(frame_reader frames, cpr_exact_divisor by_slices, half_of_list first,
                       half_of_list second, int64_t step) {
    int64_t before = 0;
    for (int64_t frame = next_frame(&frames); frame > 0; frame = next_frame(&frames)) {
        const int64_t length = cpr_exact_quotient(&by_slices, frame);
        write_run(&first, before, length, step);
        write_run(&second, before, length, step);
        before += length;
    }
}

static void write_list(const cpr_same_frames *pair, frame_reader frames, half_of_list first,
                       half_of_list second, const cpr_run_list *list) {
    const cpr_cutting *target = pair->side == CPR_SEND ? &pair->theirs : &pair->ours;
    const bool frame_by_frame = first.peer == second.peer && !target->tails_apart;
    const int64_t apart = frame_by_frame ? 1 : list->count / 2;
    const bool first_first = first.peer <= second.peer;
    first.next = &list->runs[first_first ? 0 : apart];
    second.next = &list->runs[first_first ? apart : 0];
    write_runs(frames, cpr_exact_divisor_doubled(pair->ours.by_ranks), first, second, frame_by_frame ? 2 : 1);
}

bool cpr_list_of_same_frames(const cpr_same_frames *pair, const cpr_allocator *allocator,
                             cpr_run_list *list) {
    const int64_t total_tokens = pair->ours.total_tokens;
    const int64_t stream[] = {0, total_tokens};
    const cpr_cu_seqlens whole_stream = cpr_cu_seqlens_int64(stream, 2);
    const frame_reader frames =
        frames_of(pair->ours.by_sequence ? pair->cu_seqlens : &whole_stream, total_tokens);
    const half_of_list first = half_of(pair, 0);
    const half_of_list second = half_of(pair, 1);
    const bool rows_alike = first.peer == second.peer && pair->ours.tails_apart == pair->theirs.tails_apart;

    cpr_run_list made = {.rows = total_tokens / pair->ours.ranks, .identity = true};
    made.count = rows_alike ? made.rows > 0 : 2 * count_frames(frames);
    if (first.peer == second.peer && made.count == 2) {
        made.count = 1;
    }
    if (made.count > 0) {
        made.runs = cpr_allocate(allocator, made.count, sizeof *made.runs);
        if (made.runs == NULL) {
            return false;
        }
        if (made.count == 1) {
            made.runs[0] = (cpr_run){.peer = first.peer, .length = made.rows};
        } else {
            write_list(pair, frames, first, second, &made);
            made.identity = cpr_is_identity(made.runs, made.count, pair->side);
        }
    }
    *list = made;
    return true;
}
