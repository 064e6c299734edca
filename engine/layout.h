/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts in closed form.
 *
 * Every layout cuts *frames* (the sequences one by one, or the whole stream as a single one) into equal chunks: one
 * for each rank, or two, a head and a tail, mirrored. With heads and tails, chunk c < P is the head of rank c and
 * chunk 2P-1-c its tail. All frames before `begin` gave every rank the same number of rows, so the local row of a
 * chunk needs no sum over sequences.
 */
#ifndef CPROUTE_LAYOUT_H
#define CPROUTE_LAYOUT_H

#include "cu_seqlens.h"
#include "exact_divisor.h"

/* How a layout is cut for a given group and stream. */
typedef struct cpr_cutting {
    int64_t total_tokens;
    int64_t ranks;
    int64_t halves;    /* 2 with heads and tails, else 1 */
    int64_t chunks;    /* of a frame: ranks * halves */
    bool by_sequence;  /* frames are sequences */
    bool tails_apart;  /* a rank's tails come after all its heads */
    int64_t tails_row; /* where they start then */
    cpr_exact_divisor by_ranks, by_chunks;
    cpr_exact_divisor by_heads; /* of tokens before a frame, to the row of its head */
} cpr_cutting;

/* Of a known layout. */
cpr_cutting cpr_cutting_of(cpr_layout layout, int64_t ranks, int64_t total_tokens);

/* What the layouts of that name are with more than one rank. */
static inline bool cpr_is_cut_in_zigzag(const cpr_cutting *cutting) {
    return cutting->by_sequence && cutting->halves == 2 && !cutting->tails_apart;
}

static inline bool cpr_is_cut_in_windows(const cpr_cutting *cutting) {
    return !cutting->by_sequence && cutting->halves == 1;
}

/* Which lengths a layout can cut when there is more than one rank. */
typedef struct cpr_length_rules {
    bool every_sequence_by_2p;
    bool total_by_2p;
} cpr_length_rules;
cpr_length_rules cpr_length_rules_of(cpr_layout layout);

/* A frame that is cut. */
typedef struct cpr_frame {
    int64_t begin, end;
    int64_t chunk_length;
    int64_t head_row, tail_row; /* local rows, the same at every rank, where its head and its tail start */
} cpr_frame;

/* Tokens [begin, end), which are rows row, row+1, ... of a rank. */
typedef struct cpr_piece {
    int64_t begin, end;
    int64_t rank;
    int64_t row;
} cpr_piece;

static inline cpr_frame cpr_frame_cut(const cpr_cutting *cutting, int64_t begin, int64_t end) {
    const int64_t chunk_length = cpr_exact_quotient(&cutting->by_chunks, end - begin);
    const int64_t head_row = cpr_exact_quotient(&cutting->by_heads, begin);
    return (cpr_frame){
        .begin = begin,
        .end = end,
        .chunk_length = chunk_length,
        .head_row = head_row,
        .tail_row = head_row + (cutting->tails_apart ? cutting->tails_row : chunk_length),
    };
}

static inline cpr_piece cpr_frame_chunk(const cpr_cutting *cutting, const cpr_frame *frame, int64_t chunk) {
    const bool tail = chunk >= cutting->ranks;
    const int64_t begin = frame->begin + chunk * frame->chunk_length;
    return (cpr_piece){
        .begin = begin,
        .end = begin + frame->chunk_length,
        .rank = tail ? cutting->chunks - 1 - chunk : chunk,
        .row = tail ? frame->tail_row : frame->head_row,
    };
}

/* The chunk that is a rank's head (half 0) or its tail (half 1). */
static inline int64_t cpr_chunk_of_half(const cpr_cutting *cutting, int64_t rank, int64_t half) {
    return half == 0 ? rank : cutting->chunks - 1 - rank;
}

/* From `token` to the end of its chunk. */
static inline cpr_piece cpr_frame_locate(const cpr_cutting *cutting, const cpr_frame *frame, int64_t token) {
    cpr_piece piece = cpr_frame_chunk(cutting, frame, (token - frame->begin) / frame->chunk_length);
    piece.row += token - piece.begin;
    piece.begin = token;
    return piece;
}

/* Reads the frames that are not empty, in order. Starts before the first. */
typedef struct cpr_frames {
    const cpr_cutting *cutting;
    cpr_entries ends;
    cpr_frame frame;
} cpr_frames;

static inline cpr_frames cpr_frames_of(const cpr_cutting *cutting, const cpr_cu_seqlens *cu_seqlens) {
    return (cpr_frames){.cutting = cutting, .ends = cpr_entries_from(cu_seqlens, 1)};
}

/* Goes on to the frame of a token beyond the frame that it is at. */
static inline void cpr_frames_seek(cpr_frames *frames, int64_t token) {
    int64_t end = frames->frame.end;
    int64_t begin = end;
    while (end <= token) {
        begin = end;
        end = frames->cutting->by_sequence ? cpr_entries_read(&frames->ends) : frames->cutting->total_tokens;
    }
    frames->frame = cpr_frame_cut(frames->cutting, begin, end);
}

/* False after the last one. */
static inline bool cpr_frames_next(cpr_frames *frames) {
    if (frames->frame.end == frames->cutting->total_tokens) {
        return false;
    }
    cpr_frames_seek(frames, frames->frame.end);
    return true;
}

#endif
