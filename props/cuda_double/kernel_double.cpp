/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_double.h"

#include "direct_on_a_processor.inc"

#include <cstdlib>
#include <memory>
#include <random>
#include <ucontext.h>
#include <vector>

kernel_index threadIdx, blockIdx, gridDim;

namespace {

constexpr size_t STACK_BYTES = 32 * 1024;
constexpr uint64_t TURN_NS = 100, IDLE_NS = 1000000;

struct block;

struct thread {
    ucontext_t context;
    std::vector<char> stack;
    block *of;
    unsigned number;
    bool ended = false;
};

struct block {
    members<1> all;
    unsigned number, blocks;
    bool still;
    std::vector<int64_t> entries;
    block_state state;
    std::vector<std::unique_ptr<thread>> threads;
    size_t ended = 0, turn = 0;
    /* The barrier. */
    int arrived = 0, holds = 1, outcome = 1;
    unsigned passed = 0;

    bool is_over() const {
        return still || ended == threads.size();
    }
};

ucontext_t scheduler;
thread *current;
uint64_t clock_ns = 1;

/* Between two turns of a thread others had theirs. */
void take_turn() {
    threadIdx = {current->number, 0};
    blockIdx = {current->of->number, 0};
    gridDim = {current->of->blocks, 1};
}

void run_thread() {
    take_turn();
    convert_directly<unsigned char, 1>(current->of->all);
    current->ended = true;
    current->of->ended++;
    swapcontext(&current->context, &scheduler);
}

void prepare(thread &t) {
    getcontext(&t.context);
    t.context.uc_stack.ss_sp = t.stack.data();
    t.context.uc_stack.ss_size = t.stack.size();
    t.context.uc_link = nullptr;
    makecontext(&t.context, run_thread, 0);
}

std::unique_ptr<block> make_block(const kernel_play &play, int rank, int number) {
    auto made = std::make_unique<block>();
    made->all.of[0] = play.members[rank];
    made->number = static_cast<unsigned>(number);
    made->blocks = static_cast<unsigned>(play.blocks);
    made->still = rank == play.still_rank && number == play.still_block;
    made->entries.resize(play.offset_entries);
    for (unsigned i = 0; i < CPR_MOVE_THREADS; i++) {
        auto t = std::make_unique<thread>();
        t->of = made.get();
        t->number = i;
        t->stack.resize(STACK_BYTES);
        prepare(*t);
        made->threads.push_back(std::move(t));
    }
    return made;
}

/* One after the other, so that blocks get far ahead of others; or by chance, so that threads do. */
void give_turns(block &b, unsigned turns, bool by_chance, std::mt19937 &random) {
    enum { MOST_AT_ONCE = 16 };
    for (unsigned left = 0; turns-- > 0 && !b.is_over(); left--) {
        if (left == 0 || current->ended) {
            current = b.threads[(by_chance ? random() : b.turn++) % b.threads.size()].get();
            left = by_chance ? 1 + static_cast<unsigned>(random() % MOST_AT_ONCE) : 1;
        }
        if (!current->ended) {
            clock_ns += TURN_NS;
            swapcontext(&scheduler, &current->context);
        }
    }
}

struct stream {
    int run = 0;
    std::vector<std::unique_ptr<block>> blocks;

    bool is_at_end_of_run() const {
        for (const auto &b : blocks)
            if (!b->is_over())
                return false;
        return true;
    }
};

} // namespace

void kernel_lets_others_go_on() {
    thread *self = current;
    swapcontext(&self->context, &scheduler);
    current = self;
    take_turn();
}

int __syncthreads_and(int holds) {
    block &b = *current->of;
    const unsigned passed = b.passed;
    b.holds = b.holds && holds;
    if (++b.arrived == CPR_MOVE_THREADS) {
        b.outcome = b.holds;
        b.holds = 1;
        b.arrived = 0;
        b.passed++;
    }
    while (b.passed == passed)
        kernel_lets_others_go_on();
    return b.outcome;
}

uint64_t kernel_clock_ns() {
    return clock_ns;
}

int64_t *kernel_entries() {
    return current->of->entries.data();
}

void *kernel_state(size_t) {
    return &current->of->state;
}

extern "C" void kernel_perform(const kernel_play *play) {
    enum { MOST_TURNS = 400 };
    std::mt19937 random(play->seed);
    std::vector<stream> streams(static_cast<size_t>(play->ranks));
    for (int under_way = play->ranks; under_way > 0;) {
        const int rank = static_cast<int>(random() % streams.size());
        stream &s = streams[static_cast<size_t>(rank)];
        clock_ns += play->still_rank >= 0 ? IDLE_NS : 0;
        if (s.run == play->runs)
            continue;
        if (s.blocks.empty()) {
            play->before(play->context, rank, s.run);
            for (int number = 0; number < play->blocks; number++)
                s.blocks.push_back(make_block(*play, rank, number));
        }
        give_turns(*s.blocks[random() % s.blocks.size()], 1 + static_cast<unsigned>(random() % MOST_TURNS),
                   play->seed % 2 != 0, random);
        if (s.is_at_end_of_run()) {
            s.blocks.clear();
            play->after(play->context, rank, s.run);
            under_way -= ++s.run == play->runs;
        }
    }
}

/* Launches are not made here. */
extern "C" cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t) {
    abort();
}

extern "C" cudaError_t cudaLaunchCooperativeKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t) {
    abort();
}

extern "C" cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, const void *) {
    abort();
}

extern "C" cudaError_t cudaGetDevice(int *) {
    abort();
}

extern "C" cudaError_t cudaDeviceGetAttribute(int *, cudaDeviceAttr, int) {
    abort();
}
