/* SPDX-License-Identifier: Apache-2.0 */
#include "route_shapes.h"

static bool take_shape(arguments *a, const char *value, char *mistake, size_t size) {
    a->shape_given = true;
    if (route_shape_from_name(value, &a->shape))
        return true;
    int used = snprintf(mistake, size, "there is no shape '%.40s'; there are", value);
    for (int i = 0; i < ROUTE_SHAPES; i++)
        used += snprintf(mistake + used, size - (size_t)used, "%s %s", i ? "," : "",
                         route_shape_name((route_shape)i));
    return false;
}

static bool take_whole_numbers(offsets *to, const char *value, char *mistake, size_t size) {
    if (!take_list_into(to, value, mistake, size))
        return false;
    if (to->list.count > 0 && !to->fractions && to->oversize < 0)
        return true;
    snprintf(mistake, size, "whole numbers of 64 bits are wanted");
    return false;
}

static bool take_order(arguments *a, const char *value, char *mistake, size_t size) {
    return take_whole_numbers(&a->order, value, mistake, size);
}

static bool take_real(arguments *a, const char *value, char *mistake, size_t size) {
    return take_whole_numbers(&a->real, value, mistake, size);
}

const option_spec option_shape = {"shape", "NAME",
                                  "as JSON: flat, two_view, fused, chunks, pad, real\nor digest", take_shape};
const option_spec option_order = {
    "order", "LIST", "of fused and chunks: group rank of every logical\nrank, cp_rank * tp + tp_rank",
    take_order};
const option_spec option_real = {"real", "LIST", "of real: boundaries without padding", take_real};

/* Lists lend themselves to the case, which must not free them. */
static text_case case_of(const arguments *a) {
    text_case c = text_case_plain();
    c.cu = a->cu;
    c.cp_size = a->cp_size;
    c.from = a->source;
    c.to = a->target;
    c.rows = a->rows;
    c.dtype_given = a->dtype_word != NULL;
    c.dtype = a->dtype;
    c.real = a->real;
    c.real_given = a->real.list.count > 0;
    c.order = a->order;
    c.order_given = a->order.list.count > 0;
    c.fused = a->shape == ROUTE_FUSED || a->shape == ROUTE_CHUNKS;
    c.fused_tp = a->tp_size > 0 ? a->tp_size : 1;
    c.tp_size = c.fused ? 0 : a->tp_size;
    return c;
}

static int misplaced_option(const command *c, const arguments *a) {
    const bool of_group = a->shape == ROUTE_FUSED || a->shape == ROUTE_CHUNKS;
    if (a->runs || a->builder != &builders[0])
        return wrong_use(c, "--runs and --builder do not go with --shape");
    if (a->order.list.count && !of_group)
        return wrong_use(c, "--order goes with --shape fused and --shape chunks");
    if (a->real.list.count && a->shape != ROUTE_REAL)
        return wrong_use(c, "--real goes with --shape real");
    return EXIT_GOOD;
}

int shapes_run(const command *c, arguments *a) {
    const int misplaced = misplaced_option(c, a);
    if (misplaced)
        return misplaced;
    text_case own = case_of(a);
    const bool legal = a->cp_size >= 1 && a->cp_size <= CPR_CP_SIZE_MAX;
    const int64_t ranks = route_shape_ranks(&own, a->shape);
    const int64_t first = a->every_rank ? 0 : a->rank;
    const int64_t last = a->every_rank && legal ? ranks - 1 : first;
    bool refused = false;
    for (int64_t rank = first; rank <= last && !ferror(stdout); rank++) {
        cpr_error error = {CPR_OK, -1, 0, 0};
        if (route_shape_write(stdout, &own, a->shape, rank, &error))
            continue;
        refused = true;
        cpr_error_dump_json(rank, &error, write_to_file, stdout);
    }
    a->cu.narrow = own.cu.narrow; /* made on the way */
    return finish_output(refused ? EXIT_FINDINGS : EXIT_GOOD);
}
