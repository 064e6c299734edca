/* SPDX-License-Identifier: Apache-2.0 */
#include "board.h"
#include "planted.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static board unkept;
static board *at = &unkept;

void board_open(void) {
    const char *path = getenv("PLANTED_BOARD");
    const int file = path ? open(path, O_RDWR | O_CREAT, 0666) : -1;
    if (file < 0)
        return;
    if (ftruncate(file, sizeof *at) == 0) {
        void *mapped = mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (mapped != MAP_FAILED)
            at = mapped;
    }
    close(file);
}

/* Without a branch, so that the patch itself shows fuzzers nothing to aim at. Counts of threads may get lost. */
void planted(bool triggered) {
    __atomic_store_n(&at->reached, __atomic_load_n(&at->reached, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&at->triggered, __atomic_load_n(&at->triggered, __ATOMIC_RELAXED) + triggered,
                     __ATOMIC_RELAXED);
}

void board_detected(const law *l) {
    struct timespec now;
    if (at->detected_ns != 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    at->law = (uint64_t)(l - laws);
    at->detected_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
