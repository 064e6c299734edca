/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each block reads and judges the offsets by itself, tells the block of its number at every rank what it found, and waits to be
 * told. If all ranks found the same and nothing wrong, its warps move rows, straight to where they belong; then it tells the
 * others that its writes are done and waits for theirs. Blocks of one rank never wait for each other.
 *
 * Why that is enough, by the memory model of PTX:
 *
 *   Before. The target of rank d may be written once rank d's stream has come to this conversion. What ran before on that stream
 *   happens before every block of the kernel. Block b of d passes __syncthreads, then a thread stores the step to rank r's slot with
 *   st.release.sys. A thread of block b of r reads it with ld.acquire.sys, so the store's past is its own; __syncthreads hands that
 *   on to all threads of the block. So no write of block b at r comes before anything that d's stream did earlier with its target.
 *   It takes one block of d to say so for all of d, because the stream reached all of them together.
 *
 *   After. Writes of a block's threads to rank d are ordinary stores. __syncthreads orders them before the thread that stores the next
 *   step to d with st.release.sys; a release is cumulative, so whoever acquires the step has them all. Block b of d acquires the steps
 *   of block b of every rank, and the kernel of d ends when all its blocks do; every block of every rank is waited for by the one
 *   block of its number at d. So what comes after on d's stream has all rows. That needs the same number of blocks on every rank,
 *   which is agreed when a conversion is created.
 *
 *   Notes. A note is written by ordinary stores before the step's release and read after its acquire. The slot is written again in
 *   the next conversion of the channel at the earliest, and the sender gets there only past the reader's second step, which
 *   the reader stores after it has read: so what a block answers is made up before that step.
 *
 *   Steps only count up, in 64 bits, and are kept on the device, so a replayed graph goes on where the last one ended.
 *
 * A rank that does not come ends the waiting by the timeout, or by the host when it gives up the group: then nothing more is written
 * by this rank, and the group has failed. Whichever block it is notes that for the host, and on the board for what is enqueued behind it
 * or replayed: steps of blocks that ended differently would pair this conversion's with another one's. Blocks wait for blocks of other ranks, so those must get to run: no more than
 * one block a multiprocessor is launched and four fit, so that several conversions are under way at once.
 *
 * No multicast: each row has one reader.
 */
#include <cuda/atomic>
#include <cuda_runtime.h>

#include "direct.h"
#include "move_in_line.h"
#include "unit_kernels.h"

enum { BLOCKS_RESIDENT = 4, SHARED_BYTES = 40 * 1024, POLLS_UNTIL_A_LOOK_AT_THE_HOST = 256 };

template <int COUNT> struct members { cpr_direct_member of[COUNT]; };

/* What the threads of a block share. */
struct block_state {
    long long decreasing, ragged;
    unsigned long long digest;
    long long failed, different;
    unsigned long long step;
    cpr_error own, answer;
    cpr_direct_note note;
    long long waited_ms; /* 0 or more: for this long, in vain */
    bool lost;           /* before */
};

using step_ref = cuda::atomic_ref<uint64_t, cuda::thread_scope_system>;

static __device__ __forceinline__ int thread_number() {
    return static_cast<int>(threadIdx.x);
}

static __device__ __forceinline__ uint64_t nanoseconds() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/*==============================================================================
 * MARK: - Ranks among each other
 *============================================================================*/

/* The slot at rank `at` for notes from rank `from`. */
static __device__ __forceinline__ cpr_direct_slot *slot_of(const cpr_direct_member &m, int64_t at,
                                                           int64_t from) {
    char *board = static_cast<char *>(m.boards[at]);
    return reinterpret_cast<cpr_direct_slot *>(
        board + cpr_direct_slot_at(m.facts.ranks, m.channel, blockIdx.x, from));
}

static __device__ __forceinline__ unsigned long long *own_step(const cpr_direct_member &m) {
    char *board = static_cast<char *>(m.boards[m.rank]);
    return reinterpret_cast<unsigned long long *>(board +
                                                  cpr_direct_step_at(m.facts.ranks, m.channel, blockIdx.x));
}

/* Read and written by blocks that run at once. */
static __device__ __forceinline__ volatile uint64_t *lost_word(const cpr_direct_member &m) {
    char *board = static_cast<char *>(m.boards[m.rank]);
    return reinterpret_cast<uint64_t *>(board + cpr_direct_lost_at(m.facts.ranks));
}

/* After a __syncthreads that follows all that is told of. */
static __device__ void tell_all(const cpr_direct_member &m, uint64_t step, const cpr_direct_note *note) {
    for (int64_t peer = thread_number(); peer < m.facts.ranks; peer += CPR_MOVE_THREADS) {
        cpr_direct_slot *slot = slot_of(m, peer, m.rank);
        if (note != nullptr) {
            slot->note = *note;
        }
        step_ref(slot->step).store(step, cuda::memory_order_release);
    }
}

static __device__ bool is_told(const cpr_direct_member &m, cpr_direct_slot *slot, uint64_t step,
                               block_state &state) {
    const uint64_t begun = nanoseconds();
    for (unsigned polls = 1; step_ref(slot->step).load(cuda::memory_order_acquire) < step; polls++) {
        if (polls % POLLS_UNTIL_A_LOOK_AT_THE_HOST != 0) {
            continue;
        }
        const int64_t waited_ms = static_cast<int64_t>((nanoseconds() - begun) / 1000000);
        if (waited_ms >= m.timeout_ms || *static_cast<const volatile int *>(&m.watch->given_up) != 0) {
            state.waited_ms = waited_ms;
            return false;
        }
    }
    return true;
}

/* Until every rank is at `step`; true for all threads of the block, or false for all. */
static __device__ bool await_all(const cpr_direct_member &m, uint64_t step, block_state &state) {
    bool good = true;
    for (int64_t peer = thread_number(); good && peer < m.facts.ranks; peer += CPR_MOVE_THREADS) {
        good = is_told(m, slot_of(m, m.rank, peer), step, state);
    }
    return __syncthreads_and(good) != 0;
}

/*==============================================================================
 * MARK: - Judging
 *============================================================================*/

/* The block's own copy of the offsets, where they fit: what is judged is then what rows are moved by. */
static __device__ cpr_offsets offsets_at_hand(const cpr_offsets &offsets, int64_t *shared) {
    const size_t entry_bytes = offsets.wide ? sizeof(int64_t) : sizeof(int32_t);
    if (static_cast<size_t>(offsets.count) * entry_bytes > SHARED_BYTES) {
        return offsets;
    }
    for (int64_t i = thread_number(); i < offsets.count; i += CPR_MOVE_THREADS) {
        if (offsets.wide) {
            shared[i] = cpr_offset_at(&offsets, i);
        } else {
            reinterpret_cast<int32_t *>(shared)[i] = static_cast<int32_t>(cpr_offset_at(&offsets, i));
        }
    }
    cpr_offsets copy = offsets;
    copy.entries = shared;
    copy.stride = 1;
    return copy;
}

/* state.own, and the note that says it. */
static __device__ void judge(const cpr_direct_member &m, const cpr_offsets &offsets, block_state &state) {
    if (m.refusal.status == CPR_OK) {
        const cpr_offsets_scan scan =
            cpr_offsets_scanned(&offsets, &m.facts, thread_number(), CPR_MOVE_THREADS);
        atomicMin(&state.decreasing, static_cast<long long>(scan.decreasing));
        atomicMin(&state.ragged, static_cast<long long>(scan.ragged));
        atomicAdd(&state.digest, static_cast<unsigned long long>(scan.digest));
    }
    __syncthreads();
    if (thread_number() == 0) {
        cpr_offsets_scan all;
        all.decreasing = state.decreasing;
        all.ragged = state.ragged;
        all.digest = state.digest;
        state.own = m.refusal.status == CPR_OK ? cpr_offsets_judged(&offsets, &m.facts, &all) : m.refusal;
        state.note.status = state.own.status;
        state.note.digest = cpr_direct_digest(m.call_digest, &all);
    }
    __syncthreads();
}

static __device__ cpr_error answer_of(const cpr_direct_member &m, const block_state &state) {
    cpr_direct_findings findings;
    findings.failed = state.failed;
    findings.different = state.different;
    const int64_t failed = findings.failed == INT64_MAX ? 0 : findings.failed;
    const int64_t different = findings.different == INT64_MAX ? 0 : findings.different;
    return cpr_direct_answer(state.own, &findings, &slot_of(m, m.rank, failed)->note,
                             &slot_of(m, m.rank, different)->note, &slot_of(m, m.rank, 0)->note);
}

/* state.answer; slots must not be read after the step that follows. */
static __device__ void read_notes(const cpr_direct_member &m, block_state &state) {
    const cpr_direct_note of_rank_0 = slot_of(m, m.rank, 0)->note;
    for (int64_t peer = thread_number(); peer < m.facts.ranks; peer += CPR_MOVE_THREADS) {
        const cpr_direct_note note = slot_of(m, m.rank, peer)->note;
        const cpr_direct_findings findings = cpr_direct_found_in(peer, &note, &of_rank_0);
        atomicMin(&state.failed, static_cast<long long>(findings.failed));
        atomicMin(&state.different, static_cast<long long>(findings.different));
    }
    __syncthreads();
    if (thread_number() == 0) {
        state.answer = answer_of(m, state);
    }
    __syncthreads();
}

/* The host reads it without asking the device. */
static __device__ void report(const cpr_direct_member &m, const cpr_error &error) {
    volatile cpr_direct_report *there = m.report;
    const uint64_t number = there->raised + 1;
    there->begun = number;
    __threadfence_system();
    there->error.status = error.status;
    there->error.index = error.index;
    there->error.got = error.got;
    there->error.wanted = error.wanted;
    __threadfence_system();
    there->raised = number;
}

/* By one thread of whichever blocks have waited in vain; the host's word is a single one, so that they may all write it. */
static __device__ void note_loss(const cpr_direct_member &m, const block_state &state) {
    *lost_word(m) = 1;
    *static_cast<volatile int64_t *>(&m.watch->waited_ms) = state.waited_ms;
}

/*==============================================================================
 * MARK: - Moving
 *============================================================================*/

template <class Unit>
static __device__ __forceinline__ Unit *target_of(const cpr_direct_member &m, int64_t peer) {
    return reinterpret_cast<Unit *>(static_cast<char *>(m.targets[peer]) + m.target_offset);
}

template <class Unit>
static __device__ void move_chunk(const cpr_direct_member &m, const cpr_places &places, int64_t units_per_row,
                                  const cpr_direct_chunk &chunk, int lane) {
    const Unit *from = static_cast<const Unit *>(m.source);
    if (!chunk.in_one_run) {
        for (int64_t unit = chunk.begin + lane; unit < chunk.end; unit += CPR_MOVE_LANES) {
            const cpr_direct_place place = cpr_direct_by_lookup(&places, units_per_row, unit);
            target_of<Unit>(m, place.peer)[place.unit] = __ldcs(from + unit);
        }
        return;
    }
    const int64_t first = chunk.begin + lane;
    const cpr_direct_place place = cpr_direct_in_one_run(&chunk, units_per_row, first);
    Unit *to = target_of<Unit>(m, place.peer) + place.unit;
    if (chunk.end - chunk.begin == CPR_MOVE_CHUNK) {
        move_in_line<CPR_MOVE_DEPTH, true>(from + first, to, CPR_MOVE_DEPTH);
    } else {
        const int units = static_cast<int>(chunk.end - chunk.begin);
        move_in_line<CPR_MOVE_DEPTH, false>(from + first, to,
                                            (units - lane + CPR_MOVE_LANES - 1) / CPR_MOVE_LANES);
    }
}

template <class Unit>
static __device__ void move_all(const cpr_direct_member &m, const cpr_offsets &offsets) {
    const cpr_places places = cpr_places_of(&offsets, &m.facts, m.rank);
    const int64_t units_per_row = static_cast<int64_t>(m.row_bytes / sizeof(Unit));
    const int64_t chunks = cpr_direct_chunks(&places, units_per_row);
    const int64_t stride = cpr_move_chunk_stride(gridDim.x);
    const int lane = thread_number() % CPR_MOVE_LANES;
    for (int64_t number = cpr_move_first_chunk(blockIdx.x, thread_number()); number < chunks;
         number += stride) {
        const cpr_direct_chunk chunk =
            cpr_direct_chunk_at(&places, units_per_row, cpr_direct_turn(&places, chunks, number));
        move_chunk<Unit>(m, places, units_per_row, chunk, lane);
    }
}

/*==============================================================================
 * MARK: - The kernel
 *============================================================================*/

static __device__ void begin(const cpr_direct_member &m, block_state &state) {
    if (thread_number() == 0) {
        state.decreasing = state.ragged = state.failed = state.different = INT64_MAX;
        state.digest = 0;
        state.step = *own_step(m);
        state.waited_ms = -1;
        state.lost = *lost_word(m) != 0;
    }
}

/* By the first thread of a block; block 0 speaks for all, since all come to the same. */
static __device__ void end(const cpr_direct_member &m, const block_state &state) {
    *own_step(m) = state.step + 2;
    if (blockIdx.x == 0 && state.answer.status != CPR_OK) {
        report(m, state.answer);
    }
}

template <class Unit, int COUNT>
static __global__
__launch_bounds__(CPR_MOVE_THREADS,
                  BLOCKS_RESIDENT) void convert_directly(const __grid_constant__ members<COUNT> all) {
    extern __shared__ int64_t shared[];
    __shared__ block_state state;
    const cpr_direct_member &m = all.of[blockIdx.y];
    begin(m, state);
    const cpr_offsets offsets = m.refusal.status == CPR_OK ? offsets_at_hand(m.offsets, shared) : m.offsets;
    __syncthreads();
    if (state.lost) {
        return;
    }
    judge(m, offsets, state);
    tell_all(m, state.step + 1, &state.note);
    bool together = await_all(m, state.step + 1, state);
    if (together) {
        read_notes(m, state);
        if (state.answer.status == CPR_OK) {
            move_all<Unit>(m, offsets);
        }
        __syncthreads();
        tell_all(m, state.step + 2, nullptr);
        together = await_all(m, state.step + 2, state);
    }
    if (thread_number() == 0) {
        if (together) {
            end(m, state);
        } else {
            note_loss(m, state);
        }
    }
}

/*==============================================================================
 * MARK: - The launch
 *============================================================================*/

template <int COUNT> static const void *kernel_for(size_t unit_bytes) {
    return cpr_kernel_for_unit(unit_bytes, [](auto unit) {
        return reinterpret_cast<const void *>(convert_directly<decltype(unit), COUNT>);
    });
}

static size_t shared_bytes(const cpr_direct_member *member) {
    const size_t bytes = static_cast<size_t>(member->offsets.count) *
                         (member->offsets.wide ? sizeof(int64_t) : sizeof(int32_t));
    return member->refusal.status == CPR_OK && bytes <= SHARED_BYTES ? bytes : 0;
}

/* As many as have a chunk for each of their warps, if rows were as wide units as can be. */
extern "C" int cpr_direct_blocks(int64_t bytes, int multiprocessors) {
    const int64_t block_bytes = static_cast<int64_t>(CPR_MOVE_WARPS) * CPR_MOVE_CHUNK * 16;
    const int64_t wanted = bytes / block_bytes + 1;
    const int64_t most = multiprocessors < CPR_DIRECT_BLOCKS ? multiprocessors : CPR_DIRECT_BLOCKS;
    return static_cast<int>(wanted < most ? wanted : most);
}

extern "C" cudaError_t cpr_direct_load(void) {
    return cpr_load_kernels(kernel_for<1>);
}

extern "C" cudaError_t cpr_direct_launch(const cpr_direct_member *member, size_t unit_bytes, int blocks,
                                         cudaStream_t stream) {
    members<1> all;
    all.of[0] = *member;
    void *arguments[] = {&all};
    return cudaLaunchKernel(kernel_for<1>(unit_bytes), dim3(static_cast<unsigned>(blocks)),
                            dim3(CPR_MOVE_THREADS), arguments, shared_bytes(member), stream);
}

extern "C" cudaError_t cpr_direct_launch_together(const cpr_direct_member *member, int count,
                                                  size_t unit_bytes, int blocks, cudaStream_t stream) {
    static_assert(sizeof(members<CPR_DIRECT_MEMBERS>) <= 32764, "parameters of a kernel");
    const void *kernel = kernel_for<CPR_DIRECT_MEMBERS>(unit_bytes);
    members<CPR_DIRECT_MEMBERS> all = {};
    size_t bytes = 0;
    for (int i = 0; i < count; i++) {
        all.of[i] = member[i];
        const size_t needed = shared_bytes(&member[i]);
        bytes = needed > bytes ? needed : bytes;
    }
    int device, multiprocessors, resident;
    cudaError_t result = cudaGetDevice(&device);
    if (result == cudaSuccess) {
        result = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    }
    if (result == cudaSuccess) {
        result = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, CPR_MOVE_THREADS, bytes);
    }
    if (result != cudaSuccess) {
        return result;
    }
    /* Half of what fits: tools that instrument kernels take registers too. */
    const int fit = multiprocessors * resident / 2 / count;
    if (fit < blocks) {
        blocks = fit > 0 ? fit : 1;
    }
    void *arguments[] = {&all};
    return cudaLaunchCooperativeKernel(kernel,
                                       dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(count)),
                                       dim3(CPR_MOVE_THREADS), arguments, bytes, stream);
}

struct table {
    void *entries[CPR_DIRECT_MEMBERS];
};

static __global__ void write_entries(void **there, const table values, int count) {
    if (thread_number() < count) {
        there[threadIdx.x] = values.entries[threadIdx.x];
    }
}

extern "C" cudaError_t cpr_direct_write_table(void **table_on_device, void *const *entries, int count,
                                              cudaStream_t stream) {
    table values = {};
    for (int i = 0; i < count; i++) {
        values.entries[i] = entries[i];
    }
    void *arguments[] = {&table_on_device, &values, &count};
    return cudaLaunchKernel(reinterpret_cast<const void *>(write_entries), dim3(1), dim3(CPR_DIRECT_MEMBERS),
                            arguments, 0, stream);
}
