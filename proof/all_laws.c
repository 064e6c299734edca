/* SPDX-License-Identifier: Apache-2.0 */
#include "all_laws.h"
#include "board.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOW_EVERY = 4, FAMILIES = 3 };

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

static void judge_case(const family *f, const void *subject, uint64_t round) {
    for (size_t i = 0; i < law_count; i++)
        if (laws[i].family == f && (only ? only == &laws[i] : law_has_turn(&laws[i], round)))
            judge_by(&laws[i], subject);
}

void all_laws_judge(make_case_fn *make, const uint8_t *bytes, size_t length) {
    const size_t told = !only && length > 0;
    const uint64_t round = told ? bytes[0] : 0;
    for (int i = 0; i < FAMILIES; i++)
        if ((!only || only->family == families[i]) && make(families[i], bytes + told, length - told, subjects[i]))
            judge_case(families[i], subjects[i], round);
}
