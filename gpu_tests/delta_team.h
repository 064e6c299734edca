/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the kernels of the layer run: a job is a function object that does the work of one block, given a team whose each(count, f)
 * calls f(0) ... f(count - 1) and then has all of them behind it. On a device a team is the threads of a block; without one it is
 * a loop, so that a processor, and its sanitizers, run the very arithmetic of the kernels. There each() goes up and down in turns: calls
 * that depend on one another give other results, and are found.
 */
#ifndef CPROUTE_GPU_TESTS_DELTA_TEAM_H
#define CPROUTE_GPU_TESTS_DELTA_TEAM_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__

#define DELTA_ANYWHERE __host__ __device__

struct delta_team {
    template <class Each> __device__ void each(int64_t count, const Each &f) {
        for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
            f(i);
        __syncthreads();
    }
};

template <class Job> __global__ void delta_kernel(const Job job) {
    extern __shared__ uint32_t delta_shared[];
    delta_team team;
    job(team, static_cast<int64_t>(blockIdx.x), delta_shared);
}

/* Blocks of so many threads, with so many 4-byte words that they share. */
template <class Job>
cudaError_t delta_launch(const Job &job, int64_t blocks, int64_t threads, int64_t words,
                         cudaStream_t stream) {
    if (blocks == 0)
        return cudaSuccess;
    delta_kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
                   static_cast<size_t>(words) * sizeof(uint32_t), stream>>>(job);
    return cudaGetLastError();
}

#define DELTA_JOB __device__

#else

#define DELTA_ANYWHERE
#define DELTA_JOB

#include <cstdlib>
#include <cstring>

struct delta_team {
    bool down = false;
    template <class Each> void each(int64_t count, const Each &f) {
        for (int64_t i = 0; i < count; i++)
            f(down ? count - 1 - i : i);
        down = !down;
    }
};

/* By whoever stands in for the device: calls work(context) when the stream gets there, and then free(context). */
extern "C" cudaError_t double_enqueue(cudaStream_t stream, void (*work)(void *context), void *context);

template <class Job> struct delta_launched {
    Job job;
    int64_t blocks, words;
};

template <class Job> void delta_work(void *context) {
    const delta_launched<Job> *launched = static_cast<const delta_launched<Job> *>(context);
    for (int64_t block = 0; block < launched->blocks; block++) {
        const size_t bytes = static_cast<size_t>(launched->words) * sizeof(uint32_t);
        uint32_t *shared = static_cast<uint32_t *>(std::malloc(bytes));
        std::memset(shared, 0xEE, bytes);
        delta_team team;
        launched->job(team, block, shared);
        std::free(shared);
    }
}

template <class Job>
cudaError_t delta_launch(const Job &job, int64_t blocks, int64_t, int64_t words, cudaStream_t stream) {
    if (blocks == 0)
        return cudaSuccess;
    void *memory = std::malloc(sizeof(delta_launched<Job>));
    std::memset(memory, 0, sizeof(delta_launched<Job>));
    delta_launched<Job> *launched = static_cast<delta_launched<Job> *>(memory);
    launched->job = job;
    launched->blocks = blocks;
    launched->words = words;
    return double_enqueue(stream, delta_work<Job>, launched);
}

#endif

#endif
