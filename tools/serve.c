/* SPDX-License-Identifier: Apache-2.0 */
/* cproute serve: the other side of cproute conform, answered by this library. */
#include "arguments.h"
#include "conform_shape.h"
#include "script_answers.h"
#include "text/text_cache.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_EXCHANGED_RANKS = 1 << 10, MAX_LISTED_TOKENS = 1 << 20 };

static const option_spec *const options[] = {NULL};

/* A request as it was read. */
typedef struct served {
    offsets cu;
    cpr_route_request request;
    const char *mistake; /* NULL: there is none */
    cpr_error error;     /* offsets that cannot be handed over */
} served;

static void say_hello(void) {
    printf("{\"hello\":\"cproute %s\",\"ops\":[", cpr_version_string());
    for (int i = 0; i < QUESTION_OPS; i++)
        printf("%s\"%s\"", i ? "," : "", question_op_names[i]);
    printf("],\"layouts\":[");
    for (int i = 0; i < CPR_LAYOUT_COUNT; i++)
        printf("%s\"%s\"", i ? "," : "", cpr_layout_name((cpr_layout)i));
    printf("],\"options\":[\"dtype\",\"device\",\"rows\",\"tp\"],\"errors\":\"details\"}\n");
}

/*------------------------------------------------------------------------------
 * Reading
 *----------------------------------------------------------------------------*/

static bool take_cu(served *s, json_t *list) {
    offsets_mistake mistake;
    char *text = json_is_array(list) ? json_dumps(list, JSON_COMPACT) : NULL;
    const bool taken = text && offsets_parse(&s->cu, text, strlen(text), &mistake);
    free(text);
    if (!taken)
        s->mistake = "cu_seqlens is not a list of numbers";
    return taken;
}

static cpr_layout layout_named(const char *name) {
    cpr_layout layout = CPR_LAYOUT_COUNT;
    char mistake[80];
    return take_layout_into(&layout, name, mistake, sizeof mistake) ? layout : CPR_LAYOUT_COUNT;
}

static cpr_device device_named(const char *name) {
    if (!strcmp(name, "cpu"))
        return CPR_CPU;
    return strncmp(name, "cuda", 4) ? CPR_OTHER_DEVICE : CPR_CUDA;
}

static void take_request(served *s, json_t *object) {
    const char *op, *from = "zigzag", *to = "contiguous", *layout = NULL, *dtype = NULL, *device = "cpu";
    json_t *cu, *rows = NULL;
    json_int_t cp_size, rank = 0, tp = 0;
    if (json_unpack_ex(object, NULL, JSON_STRICT, "{s:s, s:o, s:I, s?I, s?s, s?s, s?s, s?s, s?s, s?o, s?I}",
                       "op", &op, "cu_seqlens", &cu, "cp_size", &cp_size, "rank", &rank, "from", &from, "to",
                       &to, "layout", &layout, "dtype", &dtype, "device", &device, "rows", &rows, "tp",
                       &tp)) {
        s->mistake = "a field is missing, unknown, or of another type";
        return;
    }
    if (!take_cu(s, cu))
        return;
    cpr_dtype type = offsets_smallest_dtype(&s->cu);
    if (dtype && !cpr_dtype_from_name(dtype, &type))
        type = CPR_OTHER_DTYPE;
    s->request = (cpr_route_request){
        .cu_seqlens = {.device = device_named(device)},
        .rows = json_is_integer(rows) ? json_integer_value(rows) : CPR_ROWS_UNCHECKED,
        .geometry = {.cp_size = cp_size, .cp_rank = rank},
        .source = layout_named(layout ? layout : from),
        .target = layout_named(layout ? layout : to),
        .tp_size = tp,
    };
    offsets_hand_over(&s->cu, type, &s->request, &s->error);
}

/*------------------------------------------------------------------------------
 * Answers
 *----------------------------------------------------------------------------*/

static void answer_error(const served *s, const cpr_error *error) {
    cpr_error_dump_json(s->request.geometry.cp_rank, error, write_to_file, stdout);
}

static void answer_route(served *s) {
    cpr_route *route = NULL;
    cpr_error error;
    if (cpr_route_build(&s->request, NULL, &route, &error) != CPR_OK) {
        answer_error(s, &error);
        return;
    }
    cpr_route_dump(route, CPR_DUMP_JSON_ROWS, write_to_file, stdout);
    cpr_route_free(route);
}

static void print_tokens(const int64_t *tokens, int64_t count) {
    putchar('[');
    for (int64_t i = 0; i < count; i++)
        printf("%s%" PRId64, i ? "," : "", tokens[i]);
    putchar(']');
}

/* The tokens of a rank in order, NULL with the error. The caller frees them. */
static int64_t *tokens_of(const served *s, cpr_layout layout, int64_t rank, int64_t *count,
                          cpr_error *error) {
    cpr_intervals *share = NULL;
    const cpr_geometry geometry = {.cp_size = s->request.geometry.cp_size, .cp_rank = rank};
    if (cpr_layout_intervals(&s->request.cu_seqlens, s->request.rows, geometry, layout, NULL, &share,
                             error) != CPR_OK)
        return NULL;
    int64_t *tokens =
        share->rows <= MAX_LISTED_TOKENS ? malloc((size_t)(share->rows + 1) * sizeof *tokens) : NULL;
    int64_t filled = 0;
    for (int64_t i = 0; tokens && i < share->count; i++)
        for (int64_t token = share->items[i].begin; token < share->items[i].end; token++)
            tokens[filled++] = token;
    if (!tokens)
        *error = (cpr_error){CPR_NO_MEMORY, -1, 0, 0};
    *count = filled;
    cpr_intervals_free(share);
    return tokens;
}

static void answer_layout(served *s) {
    cpr_error error;
    int64_t count;
    const int64_t rank = s->request.geometry.cp_rank;
    int64_t *tokens = tokens_of(s, s->request.source, rank, &count, &error);
    if (!tokens) {
        answer_error(s, &error);
        return;
    }
    printf("{\"rank\":%" PRId64 ",\"tokens\":", rank);
    print_tokens(tokens, count);
    printf("}\n");
    free(tokens);
}

/* All ranks, and a token for every row. */
typedef struct group_of_ranks {
    int64_t count;
    cpr_route **routes;
    cpr_shard *sources, *targets;
} group_of_ranks;

static bool join(group_of_ranks *g, const served *s, int64_t rank, cpr_error *error) {
    cpr_route_request request = s->request;
    request.geometry.cp_rank = rank;
    if (cpr_route_build(&request, NULL, &g->routes[rank], error) != CPR_OK)
        return false;
    int64_t count;
    g->sources[rank].data = tokens_of(s, request.source, rank, &count, error);
    g->targets[rank].data = malloc((size_t)(g->routes[rank]->recv.rows + 1) * sizeof(int64_t));
    g->sources[rank].rows = g->routes[rank]->send.rows;
    g->targets[rank].rows = g->routes[rank]->recv.rows;
    g->sources[rank].layout = request.source;
    return g->sources[rank].data && g->targets[rank].data;
}

static void part(group_of_ranks *g) {
    for (int64_t rank = 0; g->routes && g->sources && g->targets && rank < g->count; rank++) {
        cpr_route_free(g->routes[rank]);
        free(g->sources[rank].data);
        free(g->targets[rank].data);
    }
    free(g->routes);
    free(g->sources);
    free(g->targets);
}

static void print_group(const group_of_ranks *g) {
    printf("{\"tokens\":[");
    for (int64_t rank = 0; rank < g->count; rank++) {
        fputs(rank ? "," : "", stdout);
        print_tokens(g->targets[rank].data, g->targets[rank].rows);
    }
    printf("]}\n");
}

static void answer_exchange(served *s) {
    const int64_t ranks = s->request.geometry.cp_size;
    cpr_error error = {CPR_NO_MEMORY, -1, 0, 0};
    const bool listable = ranks >= 1 && ranks <= MAX_EXCHANGED_RANKS;
    if (!listable) {
        printf("{\"status\":\"unsupported\",\"reason\":\"1 to %d ranks exchange\"}\n", MAX_EXCHANGED_RANKS);
        return;
    }
    const size_t count = (size_t)ranks;
    group_of_ranks g = {.count = ranks,
                        .routes = calloc(count, sizeof *g.routes),
                        .sources = calloc(count, sizeof *g.sources),
                        .targets = calloc(count, sizeof *g.targets)};
    bool ready = g.routes && g.sources && g.targets;
    for (int64_t rank = 0; rank < ranks && ready; rank++)
        ready = join(&g, s, rank, &error);
    if (ready && cpr_exchange_host((const cpr_route *const *)g.routes, ranks, sizeof(int64_t), g.sources,
                                   g.targets, NULL, &error) == CPR_OK)
        print_group(&g);
    else
        answer_error(s, &error);
    part(&g);
}

static const struct {
    const char *op;
    void (*answer)(served *s);
} answers[] = {{"route", answer_route}, {"layout", answer_layout}, {"exchange", answer_exchange}};

static void answer_mistake(const char *mistake) {
    printf("{\"status\":\"error\",\"error\":\"bad_request\",\"message\":\"%s\"}\n", mistake);
}

/* A script brings its own tensors. */
static bool take_script(cache_case *script, json_t *list, char *mistake, size_t size) {
    size_t i;
    json_t *op;
    if (!json_is_array(list))
        return false;
    json_array_foreach(list, i, op) {
        const char *name = json_string_value(json_object_get(op, "op"));
        if (!name || !text_cache_knows(name) || !text_cache_read(script, op, mistake, size))
            return false;
    }
    return true;
}

static void answer_script(json_t *object) {
    char mistake[256];
    cache_case *script = text_cache_new();
    if (script && take_script(script, json_object_get(object, "ops"), mistake, sizeof mistake))
        script_answers_write(stdout, script);
    else
        answer_mistake("ops is not a list of operations");
    free(script);
}

/* A text case, but for what only a file of cases needs. */
static void answer_text(question_op op, json_t *object) {
    char mistake[256] = "not a case";
    text_case c;
    const bool has_rank = json_is_integer(json_object_get(object, "rank"));
    const int64_t rank = json_integer_value(json_object_get(object, "rank"));
    json_object_del(object, "op");
    json_object_del(object, "rank");
    json_object_set_new(object, "id", json_string("asked"));
    json_object_set_new(object, "expect", json_string("ok"));
    char *text = json_dumps(object, JSON_COMPACT);
    const bool good = text && (op == ASK_OUTCOME || has_rank) &&
                      text_case_parse(&c, text, strlen(text), mistake, sizeof mistake);
    free(text);
    if (!good) {
        answer_mistake("what is asked is not a case, or has no rank");
        return;
    }
    shape_answer_write(stdout, op, &c, rank);
    text_case_free(&c);
}

/* True if it was a question of that kind, which is answered. */
static bool serve_text(const char *op, json_t *object) {
    for (question_op which = ASK_FLAT; op && asks_with_text(which); which++) {
        if (!strcmp(op, question_op_names[which])) {
            answer_text(which, object);
            return true;
        }
    }
    return false;
}

static void serve_line(const char *line, size_t length) {
    served s = {.cu = OFFSETS_NONE, .error = {CPR_OK, -1, 0, 0}};
    json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
    const char *op = json_string_value(json_object_get(object, "op"));
    size_t which = 0;
    if (serve_text(op, object)) {
        json_decref(object);
        return;
    }
    if (op && !strcmp(op, "cache")) {
        answer_script(object);
        json_decref(object);
        return;
    }
    while (op && which < sizeof answers / sizeof *answers && strcmp(op, answers[which].op) != 0)
        which++;
    if (!op || which == sizeof answers / sizeof *answers)
        s.mistake = object ? "there is no such op" : "not JSON";
    else
        take_request(&s, object);
    if (s.mistake)
        answer_mistake(s.mistake);
    else if (s.error.status != CPR_OK)
        answer_error(&s, &s.error);
    else
        answers[which].answer(&s);
    json_decref(object);
    offsets_free(&s.cu);
}

static int serve_run(arguments *a) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    if (a->operand_count)
        return wrong_use(&serve_command, "unexpected '%s'", a->operands[0]);
    say_hello();
    while (!fflush(stdout) && (length = getline(&line, &capacity, stdin)) >= 0)
        serve_line(line, (size_t)length);
    free(line);
    return finish_output(EXIT_GOOD);
}

const command serve_command = {
    .name = "serve",
    .summary = "Answers the questions of 'cproute conform' by this library.",
    .operands = "",
    .details = "A hello first, then an answer for every line of standard input. It is what\n"
               "other implementations are compared with, and an example of the other side.",
    .options = options,
    .run = serve_run,
};
