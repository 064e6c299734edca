/* SPDX-License-Identifier: Apache-2.0 */
#include "text_shape_line.h"
#include "text_answers.h"
#include "text_outcome.h"
#include "text_shapes.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_LISTS = 8 };

/* Those between first and last belong together. */
static const struct {
    const char *name;
    shape_answer first, last;
} shapes[ROUTE_SHAPES] = {
    [ROUTE_FLAT] = {"flat", SHAPE_FLAT, SHAPE_FLAT},
    [ROUTE_TWO_VIEW] = {"two_view", SHAPE_ZIGZAG_INDEX, SHAPE_CONTIGUOUS_SPLITS},
    [ROUTE_FUSED] = {"fused", SHAPE_FUSED_SEND_ROWS, SHAPE_FUSED_OUTPUT_SPLITS},
    [ROUTE_CHUNKS] = {"chunks", SHAPE_CHUNK_SEND, SHAPE_CHUNK_RECV},
    [ROUTE_PAD] = {"pad", SHAPE_PADDED_CU, SHAPE_PAD_ZIGZAG_GATHER},
    [ROUTE_REAL] = {"real", SHAPE_REAL_ROWS, SHAPE_LOCAL_OFFSETS},
    [ROUTE_DIGEST] = {"digest", SHAPE_FLAT, SHAPE_FLAT}, /* no list of numbers */
};

const char *route_shape_name(route_shape shape) {
    return shapes[shape].name;
}

bool route_shape_from_name(const char *name, route_shape *shape) {
    for (int i = 0; i < ROUTE_SHAPES; i++) {
        if (!strcmp(name, shapes[i].name)) {
            *shape = (route_shape)i;
            return true;
        }
    }
    return false;
}

int64_t route_shape_ranks(const text_case *c, route_shape shape) {
    return text_shape_ranks(c, shapes[shape].first);
}

static void write_list(FILE *out, shape_answer which, const int64_list *list) {
    const bool index = which == SHAPE_ZIGZAG_INDEX || which == SHAPE_CONTIGUOUS_INDEX;
    fprintf(out, ",\"%s\":", text_answer_of_shape(which));
    if (index && list->count == 0) {
        fputs("null", out);
    } else if (which == SHAPE_REAL_ROWS) {
        fprintf(out, "%" PRId64, list->items[0]);
    } else {
        fputc('[', out);
        for (int64_t i = 0; i < list->count; i++)
            fprintf(out, "%s%" PRId64, i ? "," : "", list->items[i]);
        fputc(']', out);
    }
}

static bool write_lists(FILE *out, text_case *c, route_shape shape, int64_t rank, cpr_error *error) {
    const int first = (int)shapes[shape].first, last = (int)shapes[shape].last;
    int64_list lists[MOST_LISTS] = {{0}};
    bool good = true;
    for (int which = first; which <= last && good; which++)
        good = text_shape_answer(c, (shape_answer)which, rank, &lists[which - first], error);
    if (good) {
        fprintf(out, "{\"rank\":%" PRId64 ",\"status\":\"ok\"", rank);
        for (int which = first; which <= last; which++)
            write_list(out, (shape_answer)which, &lists[which - first]);
        fputs("}\n", out);
    }
    for (int which = first; which <= last; which++)
        int64_list_free(&lists[which - first]);
    return good;
}

static bool write_digest(FILE *out, text_case *c, int64_t rank, cpr_error *error) {
    cpr_route *route = NULL;
    if (text_case_route(c, cpr_route_build, rank, text_case_from(c), text_case_to(c), &route, error) !=
        CPR_OK)
        return false;
    fprintf(out, "{\"rank\":%" PRId64 ",\"status\":\"ok\",\"digest\":\"%016" PRIx64 "\"}\n", rank,
            cpr_route_digest(route));
    cpr_route_free(route);
    return true;
}

bool route_shape_write(FILE *out, text_case *c, route_shape shape, int64_t rank, cpr_error *error) {
    if (shape == ROUTE_DIGEST)
        return write_digest(out, c, rank, error);
    return write_lists(out, c, shape, rank, error);
}
