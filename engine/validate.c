/* SPDX-License-Identifier: Apache-2.0 */
/* Does a route hold together? Nothing is believed of it but that its arrays can be read. */
#include "allocator.h"
#include "runs.h"

/* A rule returns what is wrong, or NULL. */

static const char *wrong_with_header(const cpr_route *route) {
    const int source = (int)route->source;
    const int target = (int)route->target;
    const cpr_geometry geometry = route->geometry;
    if (source < 0 || source >= CPR_LAYOUT_COUNT || target < 0 || target >= CPR_LAYOUT_COUNT) {
        return "a layout is unknown";
    }
    if (geometry.cp_size < 1 || geometry.cp_size > CPR_CP_SIZE_MAX) {
        return "cp_size is out of range";
    }
    if (geometry.cp_rank < 0 || geometry.cp_rank >= geometry.cp_size) {
        return "cp_rank is out of range";
    }
    if (route->total_tokens < 0 || route->total_tokens % geometry.cp_size != 0) {
        return "the tokens cannot be shared equally by the ranks";
    }
    return NULL;
}

static const char *wrong_with_run(const cpr_run *run, int64_t ranks, int64_t rows) {
    if (run->peer < 0 || run->peer >= ranks) {
        return "a peer is not a rank of the group";
    }
    if (run->length < 1 || run->length > rows) {
        return "the length of a run is out of range";
    }
    if (run->source_row < 0 || run->source_row > rows - run->length || run->target_row < 0 ||
        run->target_row > rows - run->length) {
        return "a run leaves the rows of a rank";
    }
    return NULL;
}

static const char *wrong_with_neighbours(const cpr_run *before, const cpr_run *run) {
    if (run->peer < before->peer || (run->peer == before->peer && run->target_row <= before->target_row)) {
        return "runs are not ordered by peer and target row";
    }
    if (run->peer == before->peer && run->target_row < before->target_row + before->length) {
        return "a target row is hit twice";
    }
    if (cpr_run_continues(before, run)) {
        return "a run goes on where the one before it ended";
    }
    return NULL;
}

static const char *wrong_with_list(const cpr_run_list *list, cpr_side side, int64_t ranks, int64_t rows) {
    if (list->rows != rows) {
        return "the row count of a side is not that of a rank";
    }
    if (list->count < 0 || (list->count > 0 && list->runs == NULL)) {
        return "a side has no runs where it says so";
    }
    int64_t listed = 0;
    bool identity = true;
    for (int64_t i = 0; i < list->count; i++) {
        const cpr_run *run = &list->runs[i];
        const char *wrong = wrong_with_run(run, ranks, rows);
        if (wrong == NULL && i > 0) {
            wrong = wrong_with_neighbours(run - 1, run);
        }
        if (wrong != NULL) {
            return wrong;
        }
        if (run->length > rows - listed) {
            return "the runs of a side are more than its rows";
        }
        identity = identity && cpr_run_local_row(run, side) == listed;
        listed += run->length;
    }
    if (listed != rows) {
        return "the runs of a side are fewer than its rows";
    }
    return identity == list->identity ? NULL : "an identity flag is wrong";
}

typedef struct span {
    int64_t begin, end;
} span;

static void sift_down(span *heap, int64_t count, int64_t parent) {
    for (int64_t child = 2 * parent + 1; child < count; child = 2 * parent + 1) {
        if (child + 1 < count && heap[child].begin < heap[child + 1].begin) {
            child++;
        }
        if (heap[parent].begin >= heap[child].begin) {
            return;
        }
        const span larger = heap[child];
        heap[child] = heap[parent];
        heap[parent] = larger;
        parent = child;
    }
}

/* In place, and O(n log n) for whatever order a damaged route has. */
static void heap_sort(span *spans, int64_t count) {
    for (int64_t parent = count / 2 - 1; parent >= 0; parent--) {
        sift_down(spans, count, parent);
    }
    for (int64_t last = count - 1; last > 0; last--) {
        const span largest = spans[0];
        spans[0] = spans[last];
        spans[last] = largest;
        sift_down(spans, last, 0);
    }
}

static const char *wrong_with_spans(const span *sorted, int64_t count) {
    for (int64_t i = 1; i < count; i++) {
        if (sorted[i].begin != sorted[i - 1].end) {
            return "a local row is missing and another one is there twice";
        }
    }
    return NULL;
}

/* Lengths add up to the rows of the rank, so local rows that leave no gap and do not overlap are all of them. */
static const char *wrong_with_coverage(const cpr_run_list *list, cpr_side side,
                                       const cpr_allocator *allocator) {
    if (list->identity) {
        return NULL;
    }
    span *spans = cpr_allocate(allocator, list->count, sizeof *spans);
    if (spans == NULL) {
        return "there was no memory to find out";
    }
    for (int64_t i = 0; i < list->count; i++) {
        const int64_t begin = cpr_run_local_row(&list->runs[i], side);
        spans[i] = (span){begin, begin + list->runs[i].length};
    }
    heap_sort(spans, list->count);
    const char *wrong = wrong_with_spans(spans, list->count);
    cpr_release(allocator, spans, list->count, sizeof *spans);
    return wrong;
}

static const char *wrong_with_own_message(const cpr_route *route) {
    const cpr_message sent = cpr_message_of(&route->send, route->geometry.cp_rank);
    const cpr_message received = cpr_message_of(&route->recv, route->geometry.cp_rank);
    bool same = sent.count == received.count;
    for (int64_t i = 0; same && i < sent.count; i++) {
        same = cpr_run_equal(&sent.runs[i], &received.runs[i]);
    }
    return same ? NULL : "what the rank sends to itself is not what it receives from itself";
}

static const char *wrong_with_route(const cpr_route *route, const cpr_allocator *allocator) {
    const char *wrong = wrong_with_header(route);
    if (wrong != NULL) {
        return wrong;
    }
    const int64_t ranks = route->geometry.cp_size;
    const int64_t rows = route->total_tokens / ranks;
    for (int side = CPR_SEND; side <= CPR_RECV && wrong == NULL; side++) {
        const cpr_run_list *list = cpr_route_side(route, (cpr_side)side);
        wrong = wrong_with_list(list, (cpr_side)side, ranks, rows);
        if (wrong == NULL) {
            wrong = wrong_with_coverage(list, (cpr_side)side, allocator);
        }
    }
    return wrong != NULL ? wrong : wrong_with_own_message(route);
}

bool cpr_route_validate(const cpr_route *route, const cpr_allocator *allocator, const char **why) {
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    const char *wrong = wrong_with_route(route, &chosen);
    if (wrong != NULL && why != NULL) {
        *why = wrong;
    }
    return wrong == NULL;
}
