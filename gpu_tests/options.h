/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line asks for. */
#ifndef CPROUTE_GPU_TESTS_OPTIONS_H
#define CPROUTE_GPU_TESTS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct options {
    int64_t ranks;         /* 0: one for each GPU */
    int64_t oversubscribe; /* so many real ranks that share the GPUs there are; 0: no sharing */
    bool one_host;         /* those reach each other's memory, instead of seeming to be far apart */
    int64_t packs;         /* what is measured on so many ranks is told, and no more; 0: it is not */
    int64_t timeout_s;     /* of one test; 0: each its own */
    int64_t cases;         /* drawn cases of one test */
    uint64_t seed;
    bool quick; /* a small part of every test, for slow tools */
    bool
        in_process; /* simulated tests alone, without a process for each: for compute-sanitizer and debuggers */
    bool measure;   /* also what takes time only to be measured */
    bool list;
    bool gpus;          /* how many there are */
    const char *only;   /* names of tests, or their beginnings, with commas; NULL: all */
    const char *except; /* which of them are left out; NULL: none */
    const char *json;   /* file; NULL: none */
} options;

/* True to go on; else *exit_code says how to end. */
bool options_read(int count, char **arguments, options *o, int *exit_code);

/* Is a test asked for? By its name, with simulated/ or nccl/ before it or without. */
bool options_choose(const options *o, const char *name);

#endif
