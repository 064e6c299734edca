/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The published comparison in miniature: a training step of the layer, forward and backward, in its three modes, and in chunkwise with
 * conversions of several kinds; with the time that rows are on their way between layouts, and how often the host waits. The
 * kernels of the layer are plain and slow, so conversions are a smaller part of a step than they are in training.
 */
#include "delta_on_gpu.h"
#include "per_token_conversion.h"
#include "sync_count.h"
#include "tests.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_HEADS = 16,
    KEYS = 64,
    VALUES = 64,
    TAPS = 4,
    SEGMENT = 64,
    SEQUENCES = 8,
    STEPS = 7,
    MOVES = 8 /* at most, in a step */
};

static const int64_t tokens_of_a_rank[] = {8192, 24576};

/* Of two results in bf16, as a part of the length of one: each is off by at most 2^-8 of every number, and by little else. */
static const double MOST_APART = 0x1p-7;

typedef enum way { NO_CONVERSIONS, BY_PER_TOKEN_ROUTES, BY_CACHED_ROUTES, BY_ONE_KERNEL } way;

static const struct variant {
    const char *name;
    delta_mode mode;
    way conversions;
} variants[] = {
    {"all_gather", DELTA_ALL_GATHER,
     NO_CONVERSIONS}, /* first: the others are held to it, as it is P = 1 on every rank */
    {"headwise", DELTA_HEADWISE, NO_CONVERSIONS},
    {"chunkwise, per-token route", DELTA_CHUNKWISE, BY_PER_TOKEN_ROUTES},
    {"chunkwise, cached route", DELTA_CHUNKWISE, BY_CACHED_ROUTES},
    {"chunkwise, one kernel", DELTA_CHUNKWISE, BY_ONE_KERNEL},
};
typedef struct variant variant;

/* On the host. */
typedef struct results {
    uint16_t *outputs, *row_grads;
    float *parameter_grads;
} results;

/* The rows of this rank, at one size. */
typedef struct world {
    const stage *stage;
    pack *pack;
    delta_shape shape;
    int64_t rows;
    float *parameters;
    void *inputs, *output_grads; /* on the device */
    results expected;
} world;

/*==============================================================================
 * MARK: - Numbers
 *============================================================================*/

static double drawn(uint64_t *state, double from, double to) {
    return from + (to - from) * (double)(random_next(state) >> 11) * 0x1p-53;
}

static uint16_t bfloat16_of(double value) {
    const float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static double number_of(uint16_t stored) {
    const uint32_t bits = (uint32_t)stored << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static size_t input_bytes(const world *w) {
    return (size_t)(w->rows * delta_row_width(&w->shape)) * sizeof(uint16_t);
}

static size_t output_bytes(const world *w) {
    return (size_t)(w->rows * delta_output_width(&w->shape)) * sizeof(uint16_t);
}

/* Small keys and slow decay: states neither vanish nor grow. */
static void *draw_rows(const world *w, bool inputs, uint64_t seed) {
    const int64_t head = delta_head_width(&w->shape), channels = delta_channels(&w->shape);
    const int64_t width = inputs ? delta_row_width(&w->shape) : delta_output_width(&w->shape);
    uint16_t *rows = malloc((size_t)(w->rows * width + 1) * sizeof *rows);
    uint64_t state = seed;
    for (int64_t i = 0; rows && i < w->rows * width; i++) {
        const int64_t in_head = inputs ? i % width % head : 0;
        rows[i] = bfloat16_of(in_head == channels  ? drawn(&state, 0.9, 1)
                              : in_head > channels ? drawn(&state, 0, 1)
                                                   : drawn(&state, -0.25, 0.25));
    }
    return rows;
}

static bool upload(const stage *s, void *to, const void *from, size_t bytes) {
    return from ? CUDA_TRY(s, cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice))
                : stage_fail(s, "no memory for rows");
}

static bool open_numbers(world *w) {
    const stage *s = w->stage;
    const uint64_t seed = 2 * (uint64_t)s->first + 10;
    void *inputs = draw_rows(w, true, seed), *output_grads = draw_rows(w, false, seed + 1);
    uint64_t state = 1;
    const int64_t parameters = delta_parameters(&w->shape);
    w->parameters = malloc((size_t)parameters * sizeof *w->parameters);
    for (int64_t i = 0; w->parameters && i < parameters; i++)
        w->parameters[i] = (float)drawn(&state, -0.5, 0.5);
    const bool good = (w->parameters || stage_fail(s, "no memory for parameters")) &&
                      upload(s, w->inputs, inputs, input_bytes(w)) &&
                      upload(s, w->output_grads, output_grads, output_bytes(w));
    free(inputs);
    free(output_grads);
    return good;
}

/*==============================================================================
 * MARK: - Worlds
 *============================================================================*/

static int64_t heads_for(int64_t ranks) {
    const int64_t unit = ranks % 2 ? 2 * ranks : ranks; /* an even number has rows of whole words */
    return MOST_HEADS / unit * unit;
}

static bool open_world(world *w, const stage *s, pack *p, int64_t tokens) {
    *w = (world){.stage = s, .pack = p};
    pack_spread(tokens * s->cp_size, SEQUENCES, s->cp_size, p);
    w->rows = pack_tokens(p) / s->cp_size;
    w->shape = (delta_shape){.heads = heads_for(s->cp_size), .keys = KEYS, .values = VALUES, .taps = TAPS};
    return (w->inputs = stage_allocate(s, input_bytes(w))) &&
           (w->output_grads = stage_allocate(s, output_bytes(w))) && open_numbers(w);
}

static void free_results(results *r) {
    free(r->outputs);
    free(r->row_grads);
    free(r->parameter_grads);
    *r = (results){0};
}

static void close_world(world *w) {
    cudaFree(w->inputs);
    cudaFree(w->output_grads);
    free(w->parameters);
    free_results(&w->expected);
}

/*==============================================================================
 * MARK: - A variant
 *============================================================================*/

typedef struct runner {
    const world *world;
    stage stage; /* the world's, but direct for one kernel, with memory of its own that ranks share */
    arena shared;
    bool impossible; /* GPUs that cannot write to each other have no one kernel */
    delta_ranks ranks;
    delta_routes routes;
    per_token_conversion per_token;
    void *outputs, *row_grads, *parameter_grads; /* on the device */
    cudaEvent_t moves[2 * MOVES], begin, end;
    int noted; /* of moves, in this step */
} runner;

static bool convert_per_token(void *context, bool inputs, bool to_contiguous, void *const *from,
                              void *const *to) {
    runner *r = context;
    return per_token_conversion_run(&r->per_token, to_contiguous,
                                    inputs ? r->ranks.input_bytes : r->ranks.output_bytes, from, to);
}

static bool note_moves(void *context, bool begin) {
    runner *r = context;
    (void)begin;
    if (r->noted == 2 * MOVES)
        return stage_fail(r->world->stage, "rows move more often than %d times in a step", MOVES);
    return CUDA_TRY(r->world->stage, cudaEventRecord(r->moves[r->noted++], r->world->stage->stream));
}

/* Room for what conversions write to: rows with a halo, outputs, and the gradients of both. */
static bool open_one_kernel(runner *r) {
    enum { HALOS_AND_ALIGNMENT = 1 << 20 };
    const world *w = r->world;
    cpr_error error;
    r->stage.direct = true;
    r->stage.arena = &r->shared;
    r->shared.size = 2 * (input_bytes(w) + output_bytes(w)) + HALOS_AND_ALIGNMENT;
    if (!delta_routes_open(&r->routes, &r->stage, NULL, w->pack, &w->shape, DELTA_BF16))
        return false;
    r->impossible = !conversion_is_direct(&r->routes.inputs);
    return r->impossible || stage_cpr(w->stage,
                                      cpr_cuda_window_create(w->stage->group, NULL, r->shared.size, NULL,
                                                             &r->shared.window, &error),
                                      &error, "cpr_cuda_window_create");
}

static bool open_conversions(runner *r, way conversions) {
    const world *w = r->world;
    switch (conversions) {
    case BY_ONE_KERNEL:
        return open_one_kernel(r);
    case BY_CACHED_ROUTES:
        return delta_routes_open(&r->routes, &r->stage, NULL, w->pack, &w->shape, DELTA_BF16);
    case BY_PER_TOKEN_ROUTES:
        return per_token_conversion_open(&r->per_token, &r->stage, pack_tokens(w->pack),
                                         (size_t)delta_row_width(&w->shape) * sizeof(uint16_t)) &&
               per_token_conversion_take(&r->per_token, w->pack);
    default:
        return true;
    }
}

static bool open_events(runner *r) {
    const stage *s = r->world->stage;
    bool good = CUDA_TRY(s, cudaEventCreate(&r->begin)) && CUDA_TRY(s, cudaEventCreate(&r->end));
    for (int i = 0; good && i < 2 * MOVES; i++)
        good = CUDA_TRY(s, cudaEventCreate(&r->moves[i]));
    return good;
}

static bool open_results(runner *r) {
    const world *w = r->world;
    const size_t parameters = (size_t)delta_parameters(&w->shape) * DELTA_NUMBER_BYTES;
    return (r->outputs = stage_allocate_shared(&r->stage, output_bytes(w))) &&
           (r->row_grads = stage_allocate_shared(&r->stage, input_bytes(w))) &&
           (r->parameter_grads = stage_allocate(&r->stage, parameters));
}

/* On the runner's stage, whatever moves rows. */
static bool open_runner(runner *r, const world *w, const variant *v) {
    *r = (runner){.world = w, .stage = *w->stage};
    if (!open_conversions(r, v->conversions))
        return false;
    if (r->impossible)
        return true;
    const bool by_tokens = v->conversions == BY_PER_TOKEN_ROUTES;
    const delta_plan plan = {.kind = DELTA_BF16,
                             .shape = w->shape,
                             .mode = v->mode,
                             .segment = SEGMENT,
                             .pack = w->pack,
                             .parameters = w->parameters,
                             .converter = by_tokens ? (delta_converter){convert_per_token, r}
                                                    : delta_routes_converter(&r->routes),
                             .watch = {note_moves, r}};
    return delta_ranks_open(&r->ranks, &r->stage, &plan) && open_events(r) && open_results(r);
}

static void close_runner(runner *r) {
    delta_ranks_close(&r->ranks);
    if (r->outputs)
        stage_free_shared(&r->stage, r->outputs);
    if (r->row_grads)
        stage_free_shared(&r->stage, r->row_grads);
    cudaFree(r->parameter_grads);
    delta_routes_close(&r->routes);
    per_token_conversion_close(&r->per_token);
    cpr_cuda_window_release(r->shared.window);
    if (r->begin)
        cudaEventDestroy(r->begin);
    if (r->end)
        cudaEventDestroy(r->end);
    for (int i = 0; i < 2 * MOVES; i++)
        if (r->moves[i])
            cudaEventDestroy(r->moves[i]);
}

static bool step(runner *r) {
    const world *w = r->world;
    r->noted = 0;
    return delta_ranks_forward(&r->ranks, (void *const[]){w->inputs}, (void *const[]){r->outputs}) &&
           delta_ranks_backward(&r->ranks, (void *const[]){w->output_grads}, (void *const[]){r->row_grads},
                                (void *const[]){r->parameter_grads});
}

/*==============================================================================
 * MARK: - Right
 *============================================================================*/

static void *download(const stage *s, const void *from, size_t bytes) {
    void *to = malloc(bytes);
    if (!to) {
        stage_fail(s, "no memory for results");
        return NULL;
    }
    if (!CUDA_TRY(s, cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost))) {
        free(to);
        return NULL;
    }
    return to;
}

static bool fetch(const runner *r, results *to) {
    const world *w = r->world;
    const size_t parameters = (size_t)delta_parameters(&w->shape) * DELTA_NUMBER_BYTES;
    return (to->outputs = download(w->stage, r->outputs, output_bytes(w))) &&
           (to->row_grads = download(w->stage, r->row_grads, input_bytes(w))) &&
           (to->parameter_grads = download(w->stage, r->parameter_grads, parameters));
}

/* NaN is not near. */
static bool lengths_are_near(const world *w, const char *what, const char *name, double apart,
                             double length) {
    w->stage->report->cases++;
    return (length > 0 && sqrt(apart / length) <= MOST_APART) ||
           stage_fail(w->stage, "%s: %s are %.3g of their length away from those of all_gather", name, what,
                      sqrt(apart / length));
}

static bool stored_are_near(const world *w, const char *what, const char *name, const uint16_t *got,
                            const uint16_t *wanted, int64_t count) {
    double apart = 0, length = 0;
    for (int64_t i = 0; i < count; i++) {
        const double a = number_of(got[i]), b = number_of(wanted[i]);
        apart += (a - b) * (a - b);
        length += b * b;
    }
    return lengths_are_near(w, what, name, apart, length);
}

static bool numbers_are_near(const world *w, const char *what, const char *name, const float *got,
                             const float *wanted, int64_t count) {
    double apart = 0, length = 0;
    for (int64_t i = 0; i < count; i++) {
        const double a = (double)got[i], b = (double)wanted[i];
        apart += (a - b) * (a - b);
        length += b * b;
    }
    return lengths_are_near(w, what, name, apart, length);
}

/* The first variant's results are kept. */
static bool is_right(world *w, const runner *r, const char *name) {
    if (!w->expected.parameter_grads)
        return fetch(r, &w->expected);
    results found = {0};
    const results *e = &w->expected;
    const bool good = fetch(r, &found) &&
                      stored_are_near(w, "outputs", name, found.outputs, e->outputs,
                                      w->rows * delta_output_width(&w->shape)) &&
                      stored_are_near(w, "gradients of rows", name, found.row_grads, e->row_grads,
                                      w->rows * delta_row_width(&w->shape)) &&
                      numbers_are_near(w, "gradients of parameters", name, found.parameter_grads,
                                       e->parameter_grads, delta_parameters(&w->shape));
    free_results(&found);
    return good;
}

/*==============================================================================
 * MARK: - Timed
 *============================================================================*/

typedef struct times {
    double step, moves; /* us */
} times;

static bool elapsed(const stage *s, cudaEvent_t begin, cudaEvent_t end, double *us) {
    float ms;
    if (!CUDA_TRY(s, cudaEventElapsedTime(&ms, begin, end)))
        return false;
    *us += (double)ms * 1e3;
    return true;
}

static bool time_step(runner *r, times *t) {
    const stage *s = r->world->stage;
    *t = (times){0};
    if (!CUDA_TRY(s, cudaEventRecord(r->begin, s->stream)) || !step(r) ||
        !CUDA_TRY(s, cudaEventRecord(r->end, s->stream)) || !stage_wait(s) ||
        !elapsed(s, r->begin, r->end, &t->step))
        return false;
    for (int i = 0; i + 1 < r->noted; i += 2)
        if (!elapsed(s, r->moves[i], r->moves[i + 1], &t->moves))
            return false;
    return stage_largest(s, &t->step) && stage_largest(s, &t->moves);
}

static int by_step(const void *a, const void *b) {
    const double x = ((const times *)a)->step, y = ((const times *)b)->step;
    return x < y ? -1 : x > y;
}

static bool tell(const world *w, const char *name, const char *what, double us) {
    line l = {.bytes = w->rows * delta_row_width(&w->shape) * (int64_t)sizeof(uint16_t),
              .rows = w->rows,
              .width = delta_row_width(&w->shape),
              .cp = w->stage->cp_size,
              .sequences = SEQUENCES,
              .time_us = us};
    snprintf(l.what, sizeof l.what, "%s", name);
    snprintf(l.type, sizeof l.type, "bf16");
    snprintf(l.from, sizeof l.from, "%s", what);
    return report_line(w->stage->report, &l);
}

static bool time_steps(const world *w, const variant *v, runner *r) {
    times steps[STEPS];
    for (int i = 0; i < STEPS; i++)
        if (!time_step(r, &steps[i]))
            return false;
    qsort(steps, STEPS, sizeof *steps, by_step);
    return tell(w, v->name, "step", steps[STEPS / 2].step) &&
           tell(w, v->name, "moves", steps[STEPS / 2].moves);
}

/* Ranks that share a GPU are looked at for what is right. */
static bool time_variant(world *w, const variant *v) {
    runner r;
    times unused;
    const bool good =
        open_runner(&r, w, v) && (r.impossible || (time_step(&r, &unused) && is_right(w, &r, v->name) &&
                                                   (w->stage->shares_gpus || time_steps(w, v, &r))));
    close_runner(&r);
    return good;
}

/*==============================================================================
 * MARK: - Counted
 *============================================================================*/

static bool count_variant(world *w, const variant *v) {
    runner r;
    sync_count count = {0};
    char name[NAME_BYTES];
    bool good = open_runner(&r, w, v);
    if (r.impossible) {
        close_runner(&r);
        return good;
    }
    good = good && step(&r) && stage_wait(w->stage);
    if (good) {
        sync_count_into(&count);
        good = step(&r);
        sync_count_into(NULL);
        good = good && stage_wait(w->stage);
    }
    close_runner(&r);
    snprintf(name, sizeof name, "waits, %s, %" PRId64, v->name, w->rows);
    if (good && count.waits && v->conversions != BY_PER_TOKEN_ROUTES)
        return stage_fail(w->stage, "a step of %s waits %" PRId64 " times, last in %s", v->name, count.waits,
                          count.last_wait);
    return good && report_figure(w->stage->report, name, (double)count.waits);
}

/*==============================================================================
 * MARK: - All
 *============================================================================*/

typedef bool look_at(world *w, const variant *v);

/* Ranks that share a GPU talk by sockets, which takes long: the least size is enough to count and to be right. */
static bool look_at_all(const stage *s, pack *p, look_at *looks) {
    const size_t sizes = s->shares_gpus ? 1 : sizeof tokens_of_a_rank / sizeof *tokens_of_a_rank;
    bool good = true;
    for (size_t t = 0; good && t < sizes; t++) {
        world w;
        good = open_world(&w, s, p, tokens_of_a_rank[t]);
        for (size_t v = 0; good && v < sizeof variants / sizeof *variants; v++) {
            stage_step(s, "%s, %" PRId64 " tokens a rank", variants[v].name, tokens_of_a_rank[t]);
            good = looks(&w, &variants[v]);
        }
        close_world(&w);
    }
    return good;
}

/* Counting slows calls down, so it comes when all is timed. */
static bool count_all(const stage *s, pack *p) {
    if (sync_count_open())
        return true; /* test_syncs tells why not */
    const bool good = look_at_all(s, p, count_variant);
    sync_count_close();
    return good;
}

bool test_measure_delta(stage *s) {
    if (!s->options->measure)
        return test_skip(s, "--measure was not asked for");
    if (heads_for(s->cp_size) == 0)
        return test_skip(s, "the layer that is measured has 16 heads, and here are more ranks");
    pack *p = malloc(sizeof *p);
    const bool good =
        p ? look_at_all(s, p, time_variant) && count_all(s, p) : stage_fail(s, "no memory for a pack");
    free(p);
    return good;
}
