/* SPDX-License-Identifier: Apache-2.0 */
/* The legal cases of corpus/cases, as corpus_table.py writes them at build time: no reader of JSON is needed on the
 * machine that runs them. */
#ifndef CPROUTE_GPU_TESTS_CORPUS_TABLE_H
#define CPROUTE_GPU_TESTS_CORPUS_TABLE_H

#include <stdint.h>

typedef struct corpus_row {
    const char *id;
    const int64_t *cu;
    int64_t entries;
    int64_t cp_size;
    const char *source, *target;
} corpus_row;

extern const corpus_row corpus_rows[];
extern const int64_t corpus_row_count;

#endif
