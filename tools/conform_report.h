/* SPDX-License-Identifier: Apache-2.0 */
/* What was found, for people, as JSON lines, and as JUnit XML for CI. */
#ifndef CPROUTE_TOOLS_CONFORM_REPORT_H
#define CPROUTE_TOOLS_CONFORM_REPORT_H

#include "conform_known.h"

typedef struct outcome_counts {
    size_t corpus_cases, random_cases, skipped_cases;
    uint64_t seed;
    bool interrupted;
    const char *incomplete;          /* why it is no measure of what differs, NULL: it is one */
    size_t fresh, accepted, not_met; /* differences */
} outcome_counts;

void report_text(const talk *t, const known *k, const outcome_counts *counts);
void report_json(const talk *t, const known *k, const outcome_counts *counts);

/* False with errno. */
bool report_junit(const talk *t, const known *k, const outcome_counts *counts, const char *path);

#endif
