/* SPDX-License-Identifier: Apache-2.0 */
#include "delta_on_gpu.h"

#include "consumer/ranks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SEGMENT = 5 }; /* short, so that small packs have several and some are not full */

/* An engine of the laws knows of no stage. */
static _Thread_local const stage *playing;

void delta_on_gpu_plays(const stage *s) {
    playing = s;
}

/*==============================================================================
 * MARK: - Chunkwise's conversions
 *============================================================================*/

bool delta_routes_open(delta_routes *d, const stage *s, cpr_cache *cache, const pack *p,
                       const delta_shape *shape, delta_kind kind) {
    const size_t stored = delta_stored_bytes(kind);
    const size_t inputs = (size_t)delta_row_width(shape) * stored;
    const size_t outputs = (size_t)delta_output_width(shape) * stored;
    memset(d, 0, sizeof *d);
    if (!cache)
        return conversion_open(&d->inputs, s, p, CPR_ZIGZAG, CPR_CONTIGUOUS, inputs) &&
               conversion_open(&d->outputs, s, p, CPR_ZIGZAG, CPR_CONTIGUOUS, outputs);
    return conversion_open_cached(&d->inputs, s, cache, p, CPR_ZIGZAG, CPR_CONTIGUOUS, inputs) &&
           conversion_open_cached(&d->outputs, s, cache, p, CPR_ZIGZAG, CPR_CONTIGUOUS, outputs);
}

void delta_routes_close(delta_routes *d) {
    conversion_close(&d->inputs);
    conversion_close(&d->outputs);
}

static bool run_by_routes(void *context, bool inputs, bool to_contiguous, void *const *from,
                          void *const *to) {
    const delta_routes *d = context;
    return conversion_run(inputs ? &d->inputs : &d->outputs, to_contiguous ? CPR_FORWARD : CPR_BACKWARD, from,
                          to);
}

delta_converter delta_routes_converter(delta_routes *d) {
    return (delta_converter){run_by_routes, d};
}

/*==============================================================================
 * MARK: - Numbers, there and back
 *============================================================================*/

static bool find_kind(const arithmetic *numbers, delta_kind *kind) {
    const arithmetic *const kinds[DELTA_KINDS] = {
        [DELTA_FP32] = &in_float, [DELTA_BF16] = &in_bfloat16, [DELTA_FIELD] = &in_field};
    for (int k = 0; k < DELTA_KINDS; k++)
        if (numbers == kinds[k]) {
            *kind = (delta_kind)k;
            return true;
        }
    return false;
}

/* Numbers of the kind are exact in it. `stored`: as rows hold them. */
static void write_number(delta_kind kind, bool stored, scalar value, char *to) {
    if (kind == DELTA_FIELD) {
        const uint32_t element = (uint32_t)value;
        memcpy(to, &element, sizeof element);
        return;
    }
    const float number = (float)value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    const uint16_t high = (uint16_t)(bits >> 16);
    if (stored && kind == DELTA_BF16)
        memcpy(to, &high, sizeof high);
    else
        memcpy(to, &number, sizeof number);
}

static scalar read_number(delta_kind kind, bool stored, const char *from) {
    uint32_t bits = 0;
    if (stored && kind == DELTA_BF16) {
        uint16_t high;
        memcpy(&high, from, sizeof high);
        bits = (uint32_t)high << 16;
    } else
        memcpy(&bits, from, sizeof bits);
    if (kind == DELTA_FIELD)
        return bits;
    float number;
    memcpy(&number, &bits, sizeof number);
    return (scalar)number;
}

static size_t number_bytes(delta_kind kind, bool stored) {
    return stored ? delta_stored_bytes(kind) : DELTA_NUMBER_BYTES;
}

static char *numbers_on_host(delta_kind kind, bool stored, const scalar *from, int64_t count) {
    const size_t size = number_bytes(kind, stored);
    char *made = malloc((size_t)(count + 1) * size);
    for (int64_t i = 0; made && i < count; i++)
        write_number(kind, stored, from[i], made + (size_t)i * size);
    return made;
}

/*==============================================================================
 * MARK: - A micro-batch
 *============================================================================*/

/* An array of numbers for each rank that this process is; on a real stage with room for those of all ranks. */
typedef struct sheets {
    bool stored, shared; /* shared: conversions write to it */
    int64_t count;       /* of one rank */
    void *of[MAX_RANKS];
    void *all;
} sheets;

typedef struct play {
    stage stage;
    delta_kind kind;
    pack pack;
    delta_routes routes;
    delta_ranks ranks;
    sheets rows, outputs, output_grads, row_grads, parameter_grads;
} play;

static bool make_sheets(const play *p, sheets *s, bool stored, bool shared, int64_t count) {
    const size_t bytes = (size_t)count * number_bytes(p->kind, stored);
    *s = (sheets){.stored = stored, .shared = shared, .count = count};
    for (int64_t i = 0; i < p->stage.count; i++)
        if (!(s->of[i] = shared ? stage_allocate_shared(&p->stage, bytes) : stage_allocate(&p->stage, bytes)))
            return false;
    return !p->stage.real || (s->all = stage_allocate(&p->stage, (size_t)p->stage.cp_size * bytes));
}

static void free_sheets(const play *p, sheets *s) {
    for (int64_t i = 0; i < MAX_RANKS; i++)
        if (s->of[i] && s->shared)
            stage_free_shared(&p->stage, s->of[i]);
        else
            cudaFree(s->of[i]);
    cudaFree(s->all);
}

static bool send_to_device(const play *p, const sheets *s, const scalar *const *from) {
    bool good = true;
    for (int64_t i = 0; good && i < p->stage.count; i++) {
        char *numbers = numbers_on_host(p->kind, s->stored, from[p->stage.first + i], s->count);
        good = numbers || stage_fail(&p->stage, "no memory for numbers");
        good =
            good && (s->count == 0 ||
                     CUDA_TRY(&p->stage, cudaMemcpyAsync(s->of[i], numbers,
                                                         (size_t)s->count * number_bytes(p->kind, s->stored),
                                                         cudaMemcpyHostToDevice, p->stage.stream)));
        good = stage_wait(&p->stage) && good;
        free(numbers);
    }
    return good;
}

/* Of all ranks, on every rank. */
static bool fetch_rank(const play *p, const sheets *s, int64_t rank, scalar *to) {
    const size_t size = number_bytes(p->kind, s->stored), bytes = (size_t)s->count * size;
    const char *from = p->stage.real ? (const char *)s->all + (size_t)rank * bytes : s->of[rank];
    char *numbers = malloc(bytes + 1);
    bool good = numbers || stage_fail(&p->stage, "no memory for numbers");
    good =
        good && (bytes == 0 || CUDA_TRY(&p->stage, cudaMemcpyAsync(numbers, from, bytes,
                                                                   cudaMemcpyDeviceToHost, p->stage.stream)));
    good = good && stage_wait(&p->stage);
    for (int64_t i = 0; good && i < s->count; i++)
        to[i] = read_number(p->kind, s->stored, numbers + (size_t)i * size);
    free(numbers);
    return good;
}

static bool fetch_from_device(const play *p, const sheets *s, scalar *const *to) {
    const size_t bytes = (size_t)s->count * number_bytes(p->kind, s->stored);
    if (p->stage.real && bytes > 0 &&
        !NCCL_TRY(&p->stage,
                  ncclAllGather(s->of[0], s->all, bytes, ncclInt8, p->stage.comm, p->stage.stream)))
        return false;
    for (int64_t rank = 0; rank < p->stage.cp_size; rank++)
        if (!fetch_rank(p, s, rank, to[rank]))
            return false;
    return true;
}

static bool find_stage(play *p, int64_t cp_size) {
    p->stage = *playing;
    if (cp_size == playing->cp_size)
        return true;
    if (playing->real && cp_size != 1)
        return stage_fail(playing, "a micro-batch for %" PRId64 " ranks on %" PRId64, cp_size,
                          playing->cp_size);
    p->stage.real = false;
    p->stage.first = 0;
    p->stage.count = p->stage.cp_size = cp_size;
    return true;
}

static bool find_pack(play *p, const delta_batch *batch) {
    if (batch->entries > CASE_MAX_ENTRIES)
        return stage_fail(playing, "a micro-batch with too many boundaries");
    p->pack = (pack){.name = "micro-batch", .entries = batch->entries};
    memcpy(p->pack.cu, batch->cu_seqlens, (size_t)batch->entries * sizeof *batch->cu_seqlens);
    return true;
}

static bool open_ranks(play *p, delta_group *group, const delta_layer *layer, const delta_batch *batch) {
    char *parameters = numbers_on_host(p->kind, false, layer->parameters, delta_parameters(&layer->shape));
    const delta_plan plan = {.kind = p->kind,
                             .shape = layer->shape,
                             .mode = batch->mode,
                             .segment = SEGMENT,
                             .pack = &p->pack,
                             .parameters = parameters,
                             .converter = delta_routes_converter(&p->routes)};
    const bool good =
        (parameters || stage_fail(playing, "no memory for numbers")) &&
        (batch->mode != DELTA_CHUNKWISE ||
         delta_routes_open(&p->routes, &p->stage, group->cache, &p->pack, &layer->shape, p->kind)) &&
        delta_ranks_open(&p->ranks, &p->stage, &plan);
    free(parameters);
    return good;
}

static bool open_sheets(play *p, const delta_shape *s) {
    const int64_t rows = pack_tokens(&p->pack) / p->stage.cp_size;
    return make_sheets(p, &p->rows, true, false, rows * delta_row_width(s)) &&
           make_sheets(p, &p->outputs, true, true, rows * delta_output_width(s)) &&
           make_sheets(p, &p->output_grads, true, false, rows * delta_output_width(s)) &&
           make_sheets(p, &p->row_grads, true, true, rows * delta_row_width(s)) &&
           make_sheets(p, &p->parameter_grads, false, false, delta_parameters(s));
}

static void play_close(play *p) {
    delta_ranks_close(&p->ranks);
    delta_routes_close(&p->routes);
    sheets *const all[] = {&p->rows, &p->outputs, &p->output_grads, &p->row_grads, &p->parameter_grads};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free_sheets(p, all[i]);
    free(p);
}

/* NULL with a failure told. */
static play *play_open(delta_group *group, const delta_layer *layer, const delta_batch *batch,
                       const scalar *const *rows) {
    play *p = calloc(1, sizeof *p);
    if (!p) {
        stage_fail(playing, "no memory for a micro-batch");
        return NULL;
    }
    stage_step(playing, "%s of %s, P = %" PRId64 ", %" PRId64 " tokens", delta_mode_name(batch->mode),
               layer->numbers->name, batch->cp_size, batch->cu_seqlens[batch->entries - 1]);
    const bool known =
        find_kind(layer->numbers, &p->kind) || stage_fail(playing, "a kind of numbers that no GPU has");
    if (known && find_stage(p, batch->cp_size) && find_pack(p, batch) && open_ranks(p, group, layer, batch) &&
        open_sheets(p, &layer->shape) && send_to_device(p, &p->rows, rows) &&
        delta_ranks_forward(&p->ranks, p->rows.of, p->outputs.of))
        return p;
    play_close(p);
    return NULL;
}

static delta_status finish(bool good, delta_error *error) {
    *error = (delta_error){.status = good ? DELTA_OK : DELTA_NO_MEMORY};
    return error->status;
}

static delta_status forward(delta_group *group, const delta_layer *layer, const delta_batch *batch,
                            const scalar *const *rows, scalar *const *outputs, delta_error *error) {
    play *p = play_open(group, layer, batch, rows);
    const bool good = p && fetch_from_device(p, &p->outputs, outputs);
    if (p)
        play_close(p);
    return finish(good, error);
}

static delta_status backward(delta_group *group, const delta_layer *layer, const delta_batch *batch,
                             const scalar *const *rows, const scalar *const *output_grads,
                             scalar *const *row_grads, scalar *const *parameter_grads, delta_error *error) {
    play *p = play_open(group, layer, batch, rows);
    const bool good =
        p && send_to_device(p, &p->output_grads, output_grads) &&
        delta_ranks_backward(&p->ranks, p->output_grads.of, p->row_grads.of, p->parameter_grads.of) &&
        fetch_from_device(p, &p->row_grads, row_grads) &&
        fetch_from_device(p, &p->parameter_grads, parameter_grads);
    if (p)
        play_close(p);
    return finish(good, error);
}

const delta_engine delta_on_gpu = {forward, backward, delta_mode_from_name};
