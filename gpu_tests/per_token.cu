/* SPDX-License-Identifier: Apache-2.0 */
#include "per_token.h"

#include <new>

namespace {

enum { THREADS = 256, SLICES = 256 };

unsigned blocks_for(int64_t items) {
    return static_cast<unsigned>(items < 1 ? 1 : (items + THREADS - 1) / THREADS);
}

__device__ int64_t item() {
    return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/* Sets *flag if some length is below 0, or no multiple of `divisor` if that is not 0. */
__global__ void bad_length_kernel(const int64_t *cu, int64_t lengths, int64_t divisor, int64_t *flag) {
    const int64_t i = item();
    if (i < lengths) {
        const int64_t length = cu[i + 1] - cu[i];
        if (length < 0 || (divisor && length % divisor != 0))
            *flag = 1;
    }
}

__global__ void boundary_mask_kernel(const int64_t *cu, int64_t entries, bool *mask) {
    const int64_t i = item();
    if (i < entries)
        mask[i] = i == 0 || cu[i] != cu[i - 1];
}

__global__ void count_kernel(int64_t *numbers, int64_t count, int64_t first) {
    const int64_t i = item();
    if (i < count)
        numbers[i] = first + i;
}

/* Which rank owns every token under zigzag, and at which row. */
__global__ void zigzag_kernel(const int64_t *cu, int64_t sequences, int64_t tokens, int64_t ranks,
                              int64_t rank, bool *mask, int64_t *local) {
    const int64_t token = item();
    if (token >= tokens)
        return;
    int64_t low = 0, high = sequences; /* the last sequence that begins at or before the token */
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (cu[middle] <= token)
            low = middle;
        else
            high = middle;
    }
    const int64_t begin = cu[low], chunk_length = (cu[low + 1] - begin) / (2 * ranks);
    const int64_t chunk = (token - begin) / chunk_length, offset = (token - begin) % chunk_length;
    const bool tail = chunk >= ranks;
    mask[token] = (tail ? 2 * ranks - 1 - chunk : chunk) == rank;
    local[token] = begin / ranks + (tail ? chunk_length : 0) + offset;
}

__global__ void own_kernel(const int64_t *indices, int64_t count, int64_t rank, int64_t *owner,
                           int64_t *position) {
    const int64_t i = item();
    if (i < count) {
        owner[indices[i]] = rank;
        position[indices[i]] = i;
    }
}

__global__ void select_kernel(const int64_t *from, const int64_t *indices, int64_t count, int64_t *to) {
    const int64_t i = item();
    if (i < count)
        to[i] = from[indices[i]];
}

__global__ void equal_kernel(const int64_t *numbers, int64_t count, int64_t value, bool *mask) {
    const int64_t i = item();
    if (i < count)
        mask[i] = numbers[i] == value;
}

/* What the mask keeps, in order, in three steps: slices count theirs, then each learns what is before it, then all write. */
struct slice {
    int64_t begin, end;
};

__device__ slice slice_of(int64_t count, int64_t number) {
    const int64_t length = (count + SLICES - 1) / SLICES, begin = number * length, end = begin + length;
    return {begin < count ? begin : count, end < count ? end : count};
}

__global__ void count_slices_kernel(const bool *mask, int64_t count, int64_t *kept) {
    const slice mine = slice_of(count, item());
    int64_t found = 0;
    for (int64_t i = mine.begin; i < mine.end; i++)
        found += mask[i];
    kept[item()] = found;
}

__global__ void add_slices_kernel(int64_t *kept, int64_t *total) {
    int64_t before = 0;
    for (int64_t i = 0; i < SLICES; i++) {
        const int64_t here = kept[i];
        kept[i] = before;
        before += here;
    }
    *total = before;
}

__global__ void keep_kernel(const int64_t *from, const bool *mask, int64_t count, const int64_t *kept,
                            int64_t *to) {
    const slice mine = slice_of(count, item());
    int64_t at = kept[item()];
    for (int64_t i = mine.begin; i < mine.end; i++)
        if (mask[i])
            to[at++] = from[i];
}

__global__ void place_kernel(const int64_t *keys, const int64_t *values, int64_t count, int64_t *slots,
                             bool *taken) {
    const int64_t i = item();
    if (i < count) {
        slots[keys[i]] = values[i];
        taken[keys[i]] = true;
    }
}

/* A block a row. */
__global__ void gather_kernel(uint64_t *to, const uint64_t *from, const int64_t *rows, int64_t words) {
    const int64_t row = blockIdx.x;
    for (int64_t w = threadIdx.x; w < words; w += blockDim.x)
        to[row * words + w] = from[rows[row] * words + w];
}

__global__ void put_kernel(uint64_t *to, const uint64_t *from, const int64_t *rows, int64_t words) {
    const int64_t row = blockIdx.x;
    for (int64_t w = threadIdx.x; w < words; w += blockDim.x)
        to[rows[row] * words + w] = from[row * words + w];
}

} // namespace

struct per_token {
    int64_t ranks, max_tokens, max_entries;
    cudaStream_t stream;
    int64_t *memory; /* the lists below lie in it */
    int64_t *cu, *positions, *local, *owner, *position, *picked, *keys, *slots, *send_rows, *recv_rows;
    int64_t *source_owner, *source_position, *number, *kept;
    int64_t *source_by_rank, *target_by_rank; /* max_tokens each: rank r's share begins at r * T / P */
    bool *mask, *taken;
    cudaError_t failed;
};

namespace {

/* The first error stays; everything after it does nothing of use. */
void note(per_token *p, cudaError_t result) {
    if (p->failed == cudaSuccess)
        p->failed = result;
}

/* As item() does: the host waits for one number. */
int64_t read(per_token *p, const int64_t *number) {
    int64_t value = 0;
    note(p, cudaMemcpyAsync(&value, number, sizeof value, cudaMemcpyDeviceToHost, p->stream));
    note(p, cudaStreamSynchronize(p->stream));
    return p->failed == cudaSuccess ? value : 0;
}

/* The kept ones of `from`; their number is left on the device. */
void compact(per_token *p, const int64_t *from, const bool *mask, int64_t count, int64_t *to) {
    count_slices_kernel<<<1, SLICES, 0, p->stream>>>(mask, count, p->kept);
    add_slices_kernel<<<1, 1, 0, p->stream>>>(p->kept, p->number);
    keep_kernel<<<1, SLICES, 0, p->stream>>>(from, mask, count, p->kept, to);
}

/* As x[mask] does: the size of the result is read. */
int64_t pick(per_token *p, const int64_t *from, int64_t count, int64_t *to) {
    compact(p, from, p->mask, count, to);
    return read(p, p->number);
}

/* As values[argsort(keys)] does, for keys that are rows of a rank and so below `rows` and all different. */
void sort(per_token *p, const int64_t *keys, const int64_t *values, int64_t count, int64_t rows,
          int64_t *sorted) {
    note(p, cudaMemsetAsync(p->taken, 0, static_cast<size_t>(rows), p->stream));
    place_kernel<<<blocks_for(count), THREADS, 0, p->stream>>>(keys, values, count, p->slots, p->taken);
    compact(p, p->slots, p->taken, rows, sorted);
}

bool any_bad_length(per_token *p, const int64_t *cu, int64_t lengths, int64_t divisor) {
    note(p, cudaMemsetAsync(p->number, 0, sizeof *p->number, p->stream));
    bad_length_kernel<<<blocks_for(lengths), THREADS, 0, p->stream>>>(cu, lengths, divisor, p->number);
    return read(p, p->number) != 0;
}

/* The token indices of a rank: seven reads for zigzag, five for contiguous. */
int64_t rank_indices(per_token *p, const int64_t *cu, int64_t entries, int64_t rank, bool contiguous,
                     int64_t *indices) {
    if (read(p, cu) != 0 || any_bad_length(p, cu, entries - 1, 0))
        note(p, cudaErrorInvalidValue);
    boundary_mask_kernel<<<blocks_for(entries), THREADS, 0, p->stream>>>(cu, entries, p->mask);
    const int64_t distinct = pick(p, cu, entries, p->cu);
    if (p->failed != cudaSuccess || distinct < 1)
        return 0;
    const int64_t tokens = read(p, p->cu + distinct - 1);
    if (tokens == 0)
        return 0;
    if (tokens > p->max_tokens || any_bad_length(p, p->cu, distinct - 1, 2 * p->ranks)) {
        note(p, cudaErrorInvalidValue);
        return 0;
    }
    const int64_t rows = tokens / p->ranks;
    if (contiguous) {
        count_kernel<<<blocks_for(rows), THREADS, 0, p->stream>>>(indices, rows, rank * rows);
        return rows;
    }
    count_kernel<<<blocks_for(tokens), THREADS, 0, p->stream>>>(p->positions, tokens, 0);
    zigzag_kernel<<<blocks_for(tokens), THREADS, 0, p->stream>>>(p->cu, distinct - 1, tokens, p->ranks, rank,
                                                                 p->mask, p->local);
    pick(p, p->positions, tokens, p->picked);
    const int64_t mine = pick(p, p->local, tokens, p->keys);
    sort(p, p->keys, p->picked, mine, rows, indices);
    return mine;
}

void send_rows(per_token *p, const int64_t *source, per_token_route *route) {
    const int64_t rows = route->rows;
    select_kernel<<<blocks_for(rows), THREADS, 0, p->stream>>>(p->owner, source, rows, p->source_owner);
    select_kernel<<<blocks_for(rows), THREADS, 0, p->stream>>>(p->position, source, rows, p->source_position);
    count_kernel<<<blocks_for(rows), THREADS, 0, p->stream>>>(p->positions, rows, 0);
    int64_t sent = 0;
    for (int64_t to = 0; to < p->ranks; to++) {
        equal_kernel<<<blocks_for(rows), THREADS, 0, p->stream>>>(p->source_owner, rows, to, p->mask);
        const int64_t count = pick(p, p->positions, rows, p->picked);
        select_kernel<<<blocks_for(count), THREADS, 0, p->stream>>>(p->source_position, p->picked, count,
                                                                    p->keys);
        sort(p, p->keys, p->picked, count, rows, p->send_rows + sent);
        route->input_splits[to] = count;
        sent += count;
    }
}

void recv_rows(per_token *p, int64_t rank, per_token_route *route) {
    const int64_t rows = route->rows;
    int64_t received = 0;
    for (int64_t from = 0; from < p->ranks; from++) {
        const int64_t *source = p->source_by_rank + from * rows;
        select_kernel<<<blocks_for(rows), THREADS, 0, p->stream>>>(p->owner, source, rows, p->local);
        equal_kernel<<<blocks_for(rows), THREADS, 0, p->stream>>>(p->local, rows, rank, p->mask);
        const int64_t count = pick(p, source, rows, p->picked);
        select_kernel<<<blocks_for(count), THREADS, 0, p->stream>>>(p->position, p->picked, count, p->keys);
        sort(p, p->keys, p->keys, count, rows, p->recv_rows + received);
        route->output_splits[from] = count;
        received += count;
    }
}

} // namespace

per_token *per_token_create(int64_t max_tokens, int64_t max_entries, int64_t cp_size, cudaStream_t stream) {
    per_token *p = new (std::nothrow) per_token();
    if (!p)
        return nullptr;
    p->ranks = cp_size;
    p->max_tokens = max_tokens;
    p->max_entries = max_entries;
    p->stream = stream;
    int64_t **const lists[] = {&p->positions,     &p->local,        &p->owner,           &p->position,
                               &p->picked,        &p->keys,         &p->slots,           &p->send_rows,
                               &p->recv_rows,     &p->source_owner, &p->source_position, &p->source_by_rank,
                               &p->target_by_rank};
    const int64_t longest = (max_tokens > max_entries ? max_tokens : max_entries) + 1;
    const int64_t list_count = static_cast<int64_t>(sizeof lists / sizeof *lists);
    const size_t numbers = static_cast<size_t>(longest * list_count + max_entries + SLICES + 1);
    if (cudaMalloc(&p->memory, numbers * sizeof *p->memory) != cudaSuccess ||
        cudaMalloc(&p->mask, static_cast<size_t>(longest)) != cudaSuccess ||
        cudaMalloc(&p->taken, static_cast<size_t>(longest)) != cudaSuccess) {
        per_token_free(p);
        return nullptr;
    }
    for (int64_t i = 0; i < list_count; i++)
        *lists[i] = p->memory + i * longest;
    p->cu = p->memory + list_count * longest;
    p->kept = p->cu + max_entries;
    p->number = p->kept + SLICES;
    return p;
}

void per_token_free(per_token *p) {
    if (!p)
        return;
    cudaFree(p->memory);
    cudaFree(p->mask);
    cudaFree(p->taken);
    delete p;
}

cudaError_t per_token_build(per_token *p, const int64_t *cu, int64_t entries, int64_t cp_rank,
                            bool to_contiguous, per_token_route *route) {
    p->failed = entries >= 1 && entries <= p->max_entries ? cudaSuccess : cudaErrorInvalidValue;
    /* each rank's share begins where the one before it ends: all have the same number of rows */
    int64_t rows = 0;
    for (int64_t r = 0; r < p->ranks && p->failed == cudaSuccess; r++)
        rows = rank_indices(p, cu, entries, r, !to_contiguous, p->source_by_rank + r * rows);
    for (int64_t r = 0; r < p->ranks && p->failed == cudaSuccess; r++)
        rows = rank_indices(p, cu, entries, r, to_contiguous, p->target_by_rank + r * rows);
    if (p->failed == cudaSuccess)
        read(p, cu + entries - 1);
    if (p->failed != cudaSuccess)
        return p->failed;
    route->rows = rows;
    for (int64_t r = 0; r < p->ranks; r++)
        own_kernel<<<blocks_for(rows), THREADS, 0, p->stream>>>(p->target_by_rank + r * rows, rows, r,
                                                                p->owner, p->position);
    send_rows(p, p->source_by_rank + cp_rank * rows, route);
    recv_rows(p, cp_rank, route);
    route->send_rows = p->send_rows;
    route->recv_rows = p->recv_rows;
    note(p, cudaGetLastError());
    return p->failed;
}

cudaError_t per_token_gather(void *to, const void *from, const int64_t *rows, int64_t count,
                             int64_t row_bytes, cudaStream_t stream) {
    if (count > 0)
        gather_kernel<<<static_cast<unsigned>(count), THREADS, 0, stream>>>(
            static_cast<uint64_t *>(to), static_cast<const uint64_t *>(from), rows, row_bytes / 8);
    return cudaGetLastError();
}

cudaError_t per_token_put(void *to, const void *from, const int64_t *rows, int64_t count, int64_t row_bytes,
                          cudaStream_t stream) {
    if (count > 0)
        put_kernel<<<static_cast<unsigned>(count), THREADS, 0, stream>>>(
            static_cast<uint64_t *>(to), static_cast<const uint64_t *>(from), rows, row_bytes / 8);
    return cudaGetLastError();
}
