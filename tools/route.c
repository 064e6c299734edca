/* SPDX-License-Identifier: Apache-2.0 */
/* cproute route: the routes of one rank or all. */
#include "arguments.h"
#include "refusal.h"
#include "route_shapes.h"

#include <string.h>

static bool take_runs(arguments *a, const char *value, char *mistake, size_t size) {
    (void)mistake;
    (void)size;
    return take_nothing(value, &a->runs);
}

static bool take_builder(arguments *a, const char *value, char *mistake, size_t size) {
    for (size_t i = 0; i < BUILDER_COUNT; i++) {
        if (!strcmp(value, builders[i].name)) {
            a->builder = &builders[i];
            return true;
        }
    }
    snprintf(mistake, size, "there is no builder '%s'", value);
    return false;
}

static const option_spec option_builder = {"builder", "NAME", "interval (default), per-token or definition",
                                           take_builder};
static const option_spec option_runs = {"runs", NULL, "with --json: runs instead of rows", take_runs};

static const option_spec *const options[] = {
    &option_cu,    &option_cp,    &option_rank,  &option_from,    &option_to,
    &option_dtype, &option_rows,  &option_tp,    &option_builder, &option_json,
    &option_runs,  &option_shape, &option_order, &option_real,    NULL,
};

static cpr_dump_form form_of(const arguments *a) {
    if (!a->json)
        return CPR_DUMP_TEXT;
    return a->runs ? CPR_DUMP_JSON_RUNS : CPR_DUMP_JSON_ROWS;
}

/* False when output has failed and going on is of no use. */
static bool route_one(const arguments *a, const cpr_route_request *request, cpr_error *error) {
    cpr_route *route = NULL;
    if (a->builder->build(request, NULL, &route, error) != CPR_OK)
        return refusal_show(a, request->geometry.cp_rank, error);
    bool written = cpr_route_dump(route, form_of(a), write_to_file, stdout);
    cpr_route_free(route);
    return written;
}

static int route_run(arguments *a) {
    int code = batch_needed(&route_command, a);
    if (code)
        return code;
    if (a->shape_given)
        return shapes_run(&route_command, a);
    if (a->order.list.count || a->real.list.count)
        return wrong_use(&route_command, "--order and --real go with --shape");
    if (a->runs && !a->json)
        return wrong_use(&route_command, "--runs goes with --json; text shows runs anyway");
    cpr_route_request request = request_of(a, a->source, a->target);
    cpr_error error = {CPR_OK, -1, 0, 0};
    if (!offsets_hand_over(&a->cu, a->dtype, &request, &error))
        return refusal_for_all(a, &error);
    int64_t first, last;
    ranks_asked(a, &first, &last);
    bool refused = false, more = true;
    for (int64_t rank = first; rank <= last && more; rank++) {
        request.geometry.cp_rank = rank;
        more = route_one(a, &request, &error);
        refused = refused || error.status != CPR_OK;
        if (refused && !a->json) /* all ranks would say the same */
            break;
    }
    if (!refused)
        tell_ranks_left_out(a);
    return finish_output(refused ? EXIT_FINDINGS : EXIT_GOOD);
}

const command route_command = {
    .name = "route",
    .summary = "Prints which local row goes to which rank and row.",
    .operands = "--cu LIST --cp P [options]",
    .details = "The route serves one all-to-all-v between two layouts. JSON of a route:\n"
               "  {\"rank\":0,\"status\":\"ok\",\"source_rows\":8,\"target_rows\":8,\n"
               "   \"send_rows\":[..]|null,\"recv_rows\":[..]|null,\n"
               "   \"input_splits\":[..],\"output_splits\":[..]}  null: the rows are 0, 1, 2, ...\n"
               "JSON of a refusal:\n"
               "  {\"rank\":0,\"status\":\"error\",\"error\":\"not_divisible_2cp\",\n"
               "   \"index\":1,\"got\":10,\"want\":4}\n"
               "With --shape the same route, or the plan, as others hand it around, always as\n"
               "JSON; the man page tells what each shape holds.",
    .options = options,
    .run = route_run,
};
