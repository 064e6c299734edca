/* SPDX-License-Identifier: Apache-2.0 */
#include "all_laws.h"
#include "board.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOW_EVERY = 8, PLACE_BYTES = 5, FAMILIES = 3 };

static const family *const families[FAMILIES] = {&route_family, &cache_family, &tensor_family};
static void *subjects[FAMILIES];
static const law *only;

/* Threads are started, kernels run thread by thread, each allocation fails once. */
static bool is_slow(const law *l) {
    static const char *const slow[] = {"cache_threads", "direct", "device_moves", "no_memory"};
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
        if (!strcmp(l->id, slow[i]))
            return true;
    return false;
}

bool law_has_turn(const law *l, uint64_t round) {
    return l->family != &delta_family && (round % SLOW_EVERY == 0 || !is_slow(l));
}

/* Before the first input, so that an input runs through the same edges however often it is run. */
void all_laws_open(void) {
    const char *id = getenv("PROOF_LAW");
    only = id ? law_named(id) : NULL;
    if (id && !only)
        abort();
    for (int i = 0; i < FAMILIES; i++) {
        subjects[i] = malloc(families[i]->size);
        if (!subjects[i])
            abort();
    }
}

static void judge_by(const law *l, const void *subject) {
    verdict v;
    law_judge(l, subject, &v);
    if (v.outcome == LAW_FAILED) {
        board_detected(l);
        fprintf(stderr, "law %s failed: %s\n%s\n", l->id, v.reason, v.details);
        abort();
    }
}

static void judge_family(int number, make_case_fn *make, const uint8_t *bytes, size_t length,
                         uint64_t round) {
    const family *f = families[number];
    size_t place = 0;
    for (size_t i = 0; i < law_count; i++) {
        if (laws[i].family != f)
            continue;
        const size_t begin = place < length ? place : length;
        if (law_has_turn(&laws[i], round) && make(f, bytes + begin, length - begin, subjects[number]))
            judge_by(&laws[i], subjects[number]);
        place += PLACE_BYTES;
    }
}

void all_laws_judge(make_case_fn *make, const uint8_t *bytes, size_t length) {
    const size_t told = length > 0;
    for (int i = 0; i < FAMILIES; i++) {
        if (!only)
            judge_family(i, make, bytes + told, length - told, told ? bytes[0] : 0);
        else if (only->family == families[i] && make(families[i], bytes, length, subjects[i]))
            judge_by(only, subjects[i]);
    }
}
