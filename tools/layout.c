/* SPDX-License-Identifier: Apache-2.0 */
/* cproute layout: which tokens every rank holds. */
#include "arguments.h"
#include "kit/show.h"
#include "refusal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PICTURE_COLUMNS = 80 };

static bool take_layout(arguments *a, const char *value, char *mistake, size_t size) {
    a->source_word = value;
    return take_layout_into(&a->layout, value, mistake, size);
}

static const option_spec option_layout = {"layout", "LAYOUT",
                                          "zigzag (default), contiguous, per_sequence_contiguous,\n"
                                          "flat_zigzag or heads_then_tails",
                                          take_layout};

static const option_spec *const options[] = {&option_cu,    &option_cp,   &option_layout, &option_rank,
                                             &option_dtype, &option_rows, &option_json,   NULL};

static void write_tokens(int64_t rank, const cpr_intervals *share) {
    const char *separator = "";
    printf("{\"rank\":%" PRId64 ",\"tokens\":[", rank);
    for (int64_t i = 0; i < share->count && !ferror(stdout); i++) {
        for (int64_t token = share->items[i].begin; token < share->items[i].end && !ferror(stdout); token++) {
            printf("%s%" PRId64, separator, token);
            separator = ",";
        }
    }
    printf("]}\n");
}

static void write_intervals(int64_t rank, const cpr_intervals *share) {
    printf("rank %" PRId64 ":", rank);
    for (int64_t i = 0; i < share->count && !ferror(stdout); i++)
        printf(" [%" PRId64 ",%" PRId64 ")", share->items[i].begin, share->items[i].end);
    printf("\n");
}

/* A picture of all ranks or one; as a list of intervals where there are more sequences than a picture can
 * tell apart. */
static bool draw(const arguments *a, const cpr_route_request *request) {
    if (request->cu_seqlens.count > CASE_MAX_ENTRIES)
        return false;
    route_case *c = calloc(1, sizeof *c);
    if (!c)
        return false;
    memcpy(c->cu, a->cu.list.items, (size_t)a->cu.list.count * sizeof *c->cu);
    c->entries = a->cu.list.count;
    c->stride = 1;
    c->dtype = a->dtype;
    c->rows = request->rows;
    c->geometry = request->geometry;
    c->source = c->target = a->layout;
    show_layout(stdout, c, a->layout, a->every_rank ? -1 : a->rank, has_colour(stdout), PICTURE_COLUMNS);
    free(c);
    return true;
}

static void write_all(const arguments *a, const cpr_route_request *request) {
    int64_t first, last;
    cpr_error error = {CPR_OK, -1, 0, 0};
    ranks_asked(a, &first, &last);
    for (int64_t rank = first; rank <= last && !ferror(stdout); rank++) {
        cpr_geometry geometry = {.cp_size = a->cp_size, .cp_rank = rank};
        cpr_intervals *share = NULL;
        if (cpr_layout_intervals(&request->cu_seqlens, request->rows, geometry, a->layout, NULL, &share,
                                 &error) != CPR_OK) {
            refusal_show(a, rank, &error);
            continue;
        }
        (a->json ? write_tokens : write_intervals)(rank, share);
        cpr_intervals_free(share);
    }
    tell_ranks_left_out(a);
}

static int layout_run(arguments *a) {
    int code = batch_needed(&layout_command, a);
    if (code)
        return code;
    cpr_route_request request = request_of(a, a->layout, a->layout);
    cpr_intervals *share = NULL;
    cpr_error error;
    if (!offsets_hand_over(&a->cu, a->dtype, &request, &error))
        return refusal_for_all(a, &error);
    if (cpr_layout_intervals(&request.cu_seqlens, request.rows, request.geometry, a->layout, NULL, &share,
                             &error) != CPR_OK)
        return refusal_for_all(a, &error);
    cpr_intervals_free(share);
    if (a->json || !draw(a, &request))
        write_all(a, &request);
    return finish_output(EXIT_GOOD);
}

const command layout_command = {
    .name = "layout",
    .summary = "Shows which tokens every rank holds, as a picture or as JSON.",
    .operands = "--cu LIST --cp P [options]",
    .details = "JSON: {\"rank\":0,\"tokens\":[..]}, tokens in local row order.",
    .options = options,
    .run = layout_run,
};
