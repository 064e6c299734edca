/* SPDX-License-Identifier: Apache-2.0 */
#include "per_token_conversion.h"

#include <string.h>

bool per_token_conversion_open(per_token_conversion *c, const stage *s, int64_t tokens, size_t row_bytes) {
    const size_t rows = (size_t)(tokens / s->cp_size);
    *c = (per_token_conversion){.stage = s};
    c->method = per_token_create(tokens, CASE_MAX_ENTRIES, s->cp_size, s->stream);
    if (!c->method)
        return stage_fail(s, "no device memory for the per-token method");
    c->cu = stage_allocate(s, CASE_MAX_ENTRIES * sizeof *c->cu);
    bool good = c->cu;
    for (int64_t i = 0; good && i < s->count; i++) {
        c->recv_rows[i] = stage_allocate(s, rows * sizeof *c->recv_rows[i]);
        c->sent[i] = stage_allocate(s, rows * row_bytes);
        c->received[i] = stage_allocate(s, rows * row_bytes);
        good = c->recv_rows[i] && c->sent[i] && c->received[i];
    }
    return good;
}

void per_token_conversion_close(per_token_conversion *c) {
    per_token_free(c->method);
    cudaFree(c->cu);
    for (int64_t i = 0; i < MAX_RANKS; i++) {
        cudaFree(c->recv_rows[i]);
        cudaFree(c->sent[i]);
        cudaFree(c->received[i]);
    }
    memset(c, 0, sizeof *c);
}

bool per_token_conversion_take(per_token_conversion *c, const pack *p) {
    c->entries = p->entries;
    return CUDA_TRY(c->stage, cudaMemcpyAsync(c->cu, p->cu, (size_t)p->entries * sizeof *c->cu,
                                              cudaMemcpyHostToDevice, c->stage->stream));
}

static char *bytes_at(void *rows, int64_t row, size_t row_bytes) {
    return (char *)rows + (size_t)row * row_bytes;
}

/* Both ends of the messages between all pairs, as the split sizes have them. */
static bool copy_messages(const per_token_conversion *c, size_t row_bytes) {
    const stage *s = c->stage;
    int64_t sent[MAX_RANKS] = {0}, received[MAX_RANKS] = {0};
    for (int64_t from = 0; from < s->cp_size; from++)
        for (int64_t to = 0; to < s->cp_size; to++) {
            const int64_t rows = c->routes[from].input_splits[to];
            if (rows != c->routes[to].output_splits[from])
                return stage_fail(s, "the per-token method's split sizes do not fit");
            if (!CUDA_TRY(s, cudaMemcpyAsync(bytes_at(c->received[to], received[to], row_bytes),
                                             bytes_at(c->sent[from], sent[from], row_bytes),
                                             (size_t)rows * row_bytes, cudaMemcpyDeviceToDevice, s->stream)))
                return false;
            sent[from] += rows;
            received[to] += rows;
        }
    return true;
}

static bool send_messages(const per_token_conversion *c, size_t row_bytes) {
    const stage *s = c->stage;
    const per_token_route *route = &c->routes[0];
    int64_t sent = 0, received = 0;
    if (!NCCL_TRY(s, ncclGroupStart()))
        return false;
    for (int64_t peer = 0; peer < s->cp_size; peer++) {
        const size_t out = (size_t)route->input_splits[peer] * row_bytes,
                     in = (size_t)route->output_splits[peer] * row_bytes;
        if ((out && !NCCL_TRY(s, ncclSend(bytes_at(c->sent[0], sent, row_bytes), out, ncclUint8, (int)peer,
                                          s->comm, s->stream))) ||
            (in && !NCCL_TRY(s, ncclRecv(bytes_at(c->received[0], received, row_bytes), in, ncclUint8,
                                         (int)peer, s->comm, s->stream))))
            return false;
        sent += route->input_splits[peer];
        received += route->output_splits[peer];
    }
    return NCCL_TRY(s, ncclGroupEnd());
}

/* The method's lists last until its next route; those of several simulated ranks are kept. */
static bool pack_rank(per_token_conversion *c, int64_t i, bool to_contiguous, size_t row_bytes,
                      const void *from) {
    const stage *s = c->stage;
    per_token_route *route = &c->routes[i];
    return CUDA_TRY(s, per_token_build(c->method, c->cu, c->entries, s->first + i, to_contiguous, route)) &&
           CUDA_TRY(s,
                    cudaMemcpyAsync(c->recv_rows[i], route->recv_rows, (size_t)route->rows * sizeof(int64_t),
                                    cudaMemcpyDeviceToDevice, s->stream)) &&
           CUDA_TRY(s, per_token_gather(c->sent[i], from, route->send_rows, route->rows, (int64_t)row_bytes,
                                        s->stream));
}

bool per_token_conversion_run(per_token_conversion *c, bool to_contiguous, size_t row_bytes,
                              void *const *from, void *const *to) {
    const stage *s = c->stage;
    for (int64_t i = 0; i < s->count; i++)
        if (!pack_rank(c, i, to_contiguous, row_bytes, from[i]))
            return false;
    if (!(s->real ? send_messages(c, row_bytes) : copy_messages(c, row_bytes)))
        return false;
    for (int64_t i = 0; i < s->count; i++)
        if (!CUDA_TRY(s, per_token_put(to[i], c->received[i], c->recv_rows[i], c->routes[i].rows,
                                       (int64_t)row_bytes, s->stream)))
            return false;
    return true;
}
