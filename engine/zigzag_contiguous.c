/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What zigzag rank z and contiguous rank q have in common.
 *
 * Of a sequence [begin, end), cut in 2P chunks of c tokens, rank z holds the head [begin + z*c, begin + (z+1)*c) and the tail
 * [end - (z+1)*c, end - z*c); rank q holds its window [q*T/P, (q+1)*T/P) of the stream. Both keep their tokens
 * ascending. So a message is its tokens, ascending, and two of its runs are one if and only if their tokens are neighbours.
 *
 *     sequence        |-0-|-1-|-2-|-2-|-1-|-0-|-0-|-1-|-2-|-2-|-1-|-0-|     owners of chunks, P = 3
 *     windows         |-------0-------|-------1-------|-------2-------|
 *
 * Each side has an order in which its list is written from front to back, with nothing to search and nothing to sort:
 *   - The zigzag side follows its chunks: they ascend, and so do the windows that they lie in.
 *   - The contiguous side goes from peer to peer and takes the chunks of each in its window. The peers that have some are
 *     consecutive: chunks that follow each other in a sequence have owners that follow each other, there and back, and
 *     from one sequence to the next it is rank 0 that goes on.
 * Lists are gone through twice, to count the runs and to write them.
 */
#include "zigzag_contiguous.h"

#include "allocator.h"
#include "cu_seqlens.h"
#include "runs.h"

/* The first entry beyond a token, which is not the last. */
static int64_t entry_beyond(const cpr_cu_seqlens *cu_seqlens, int64_t token) {
    int64_t below = 0;
    int64_t beyond = cu_seqlens->count - 1;
    while (beyond - below > 1) {
        const int64_t middle = below + (beyond - below) / 2;
        if (cpr_cu_entry(cu_seqlens, middle) > token) {
            beyond = middle;
        } else {
            below = middle;
        }
    }
    return beyond;
}

enum { SLOTS_WALKED = 64 };

/* On to the end of the sequence that begins at a token, from an empty slot on. A few slots are walked over, and many searched over,
 * because every peer comes by them: a search is dear, but not beside the entries that were walked before it. */
static uintptr_t beyond_slots(const cpr_cu_seqlens *cu_seqlens, uintptr_t next, int64_t begin) {
    cpr_entries ends = cpr_entries_from(cu_seqlens, 0);
    ends.next = next;
    for (int slot = 0; slot < SLOTS_WALKED; slot++) {
        next = ends.next;
        if (cpr_entries_read(&ends) > begin) {
            return next;
        }
    }
    return cpr_entries_from(cu_seqlens, entry_beyond(cu_seqlens, begin)).next;
}

/* Where the sequence ends that begins at a token. */
static inline int64_t next_end(const cpr_cu_seqlens *cu_seqlens, cpr_entries *ends, int64_t begin) {
    const int64_t end = cpr_entries_read(ends);
    if (end > begin) {
        return end;
    }
    ends->next = beyond_slots(cu_seqlens, ends->next, begin);
    return cpr_entries_read(ends);
}

/* Writes runs, or counts them where `next` is NULL. */
typedef struct run_writer {
    cpr_run *next;
    int64_t count;
    int64_t end; /* of the last run's tokens, NOT_JOINED if there are no tokens to go on from */
    bool zigzag_sends;
} run_writer;

enum { NOT_JOINED = -1 };

/* Tokens [begin, end) of a message with `peer`. */
static inline void write_tokens(run_writer *writer, int64_t peer, int64_t begin, int64_t end,
                                int64_t zigzag_row, int64_t contiguous_row) {
    const bool joined = begin == writer->end;
    writer->end = end;
    if (writer->next == NULL) {
        writer->count += !joined;
    } else if (joined) {
        writer->next[-1].length += end - begin;
    } else {
        *writer->next++ = (cpr_run){
            .peer = peer,
            .source_row = writer->zigzag_sends ? zigzag_row : contiguous_row,
            .target_row = writer->zigzag_sends ? contiguous_row : zigzag_row,
            .length = end - begin,
        };
    }
}

/* The window that a chunk begins in. */
typedef struct window {
    int64_t rank;
    int64_t begin, end;
} window;

static inline window window_of(int64_t rank, int64_t rows) {
    return (window){.rank = rank, .begin = rank * rows, .end = (rank + 1) * rows};
}

/* Chunks ascend; most end in the window that the one before them ended in. */
static inline void write_chunk(run_writer *writer, window *w, int64_t begin, int64_t end, int64_t row) {
    while (end > w->end) {
        if (begin < w->end) {
            write_tokens(writer, w->rank, begin, w->end, row, begin - w->begin);
            row += w->end - begin;
            begin = w->end;
        }
        const int64_t rows = w->end - w->begin;
        *w = window_of(begin / rows, rows);
        writer->end = NOT_JOINED;
    }
    write_tokens(writer, w->rank, begin, end, row, begin - w->begin);
}

/* Returns how many runs there are, if `runs` is NULL. Compiled twice, once for either use. */
__attribute__((always_inline)) static inline int64_t write_chunks(const cpr_zigzag_contiguous pair,
                                                                  cpr_run *runs) {
    run_writer writer = {.next = runs, .end = NOT_JOINED, .zigzag_sends = pair.zigzag_sends};
    window w = window_of(0, pair.rows);
    cpr_entries ends = cpr_entries_from(pair.cu_seqlens, 1);
    int64_t row = 0;
    for (int64_t begin = 0; begin < pair.ranks * pair.rows;) {
        const int64_t end = next_end(pair.cu_seqlens, &ends, begin);
        const int64_t chunk = cpr_exact_quotient(&pair.by_chunks, end - begin);
        const int64_t head = begin + pair.rank * chunk;
        const int64_t tail = end - (pair.rank + 1) * chunk;
        write_chunk(&writer, &w, head, head + chunk, row);
        write_chunk(&writer, &w, tail, tail + chunk, row + chunk);
        row += 2 * chunk;
        begin = end;
    }
    return writer.count;
}

bool cpr_list_of_zigzag_rank(const cpr_zigzag_contiguous *pair, const cpr_allocator *allocator,
                             cpr_run_list *list) {
    cpr_run_list made = {.count = write_chunks(*pair, NULL), .rows = pair->rows, .identity = true};
    if (made.count > 0) {
        made.runs = cpr_allocate(allocator, made.count, sizeof *made.runs);
        if (made.runs == NULL) {
            return false;
        }
        write_chunks(*pair, made.runs);
    }
    *list = made;
    return true;
}

/* What there is in our window. */
typedef struct window_view {
    window window;
    cpr_entries ends;       /* of the sequences in it, the first one first */
    int64_t first_sequence; /* where that begins */
    int64_t first_peer, last_peer;
    int64_t runs;
} window_view;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t largest(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Chunks first..last of a sequence are in the window, and so are their owners. A new run begins with each but the first, which goes on
 * from the sequence before, and the one in the middle, which has the owner of the one before it. */
static void view_chunks(window_view *view, int64_t ranks, int64_t first, int64_t last) {
    const bool both_halves = first < ranks && last >= ranks;
    const int64_t first_owner = least(first, 2 * ranks - 1 - first);
    const int64_t last_owner = least(last, 2 * ranks - 1 - last);
    view->first_peer = least(view->first_peer, least(first_owner, last_owner));
    view->last_peer = both_halves ? ranks - 1 : largest(view->last_peer, largest(first_owner, last_owner));
    view->runs += last - first - both_halves;
}

/* For rows > 0. */
static window_view view_window(const cpr_zigzag_contiguous *pair) {
    const window w = window_of(pair->rank, pair->rows);
    const int64_t first_end = entry_beyond(pair->cu_seqlens, w.begin);
    window_view view = {
        .window = w,
        .ends = cpr_entries_from(pair->cu_seqlens, first_end),
        .first_sequence = cpr_cu_entry(pair->cu_seqlens, first_end - 1),
        .first_peer = pair->ranks - 1,
        .runs = 1,
    };
    cpr_entries ends = view.ends;
    for (int64_t begin = view.first_sequence; begin < w.end;) {
        const int64_t end = next_end(pair->cu_seqlens, &ends, begin);
        const int64_t chunk = cpr_exact_quotient(&pair->by_chunks, end - begin);
        const int64_t first = begin < w.begin ? (w.begin - begin) / chunk : 0;
        const int64_t last = end > w.end ? (w.end - 1 - begin) / chunk : 2 * pair->ranks - 1;
        view_chunks(&view, pair->ranks, first, last);
        begin = end;
    }
    return view;
}

static inline void write_in_window(run_writer *writer, const window *w, int64_t peer, int64_t begin,
                                   int64_t end, int64_t row) {
    const int64_t first = largest(begin, w->begin);
    const int64_t stop = least(end, w->end);
    if (first < stop) {
        write_tokens(writer, peer, first, stop, row + (first - begin), first - w->begin);
    }
}

static void write_peers(const cpr_zigzag_contiguous pair, const window_view view, cpr_run *runs) {
    run_writer writer = {.next = runs, .zigzag_sends = pair.zigzag_sends};
    for (int64_t peer = view.first_peer; peer <= view.last_peer; peer++) {
        cpr_entries ends = view.ends;
        int64_t begin = view.first_sequence;
        int64_t row = 2 * cpr_exact_quotient(&pair.by_chunks, begin);
        writer.end = NOT_JOINED;
        while (begin < view.window.end) {
            const int64_t end = next_end(pair.cu_seqlens, &ends, begin);
            const int64_t chunk = cpr_exact_quotient(&pair.by_chunks, end - begin);
            const int64_t head = begin + peer * chunk;
            const int64_t tail = end - (peer + 1) * chunk;
            write_in_window(&writer, &view.window, peer, head, head + chunk, row);
            write_in_window(&writer, &view.window, peer, tail, tail + chunk, row + chunk);
            row += 2 * chunk;
            begin = end;
        }
    }
}

bool cpr_list_of_contiguous_rank(const cpr_zigzag_contiguous *pair, const cpr_allocator *allocator,
                                 cpr_run_list *list) {
    cpr_run_list made = {.rows = pair->rows, .identity = true};
    if (pair->rows > 0) {
        const window_view view = view_window(pair);
        made.count = view.runs;
        made.runs = cpr_allocate(allocator, made.count, sizeof *made.runs);
        if (made.runs == NULL) {
            return false;
        }
        write_peers(*pair, view, made.runs);
        made.identity = cpr_is_identity(made.runs, made.count, pair->zigzag_sends ? CPR_RECV : CPR_SEND);
    }
    *list = made;
    return true;
}
