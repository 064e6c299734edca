/* SPDX-License-Identifier: Apache-2.0 */
/* cproute layout: which tokens every rank holds. */
#include "arguments.h"
#include "refusal.h"

#include <inttypes.h>

static bool take_layout(arguments *a, const char *value, char *mistake, size_t size) {
    return take_layout_into(&a->layout, value, mistake, size);
}

static const option_spec option_layout = {"layout", "LAYOUT",
                                          "zigzag (default), contiguous, per_sequence_contiguous,\n"
                                          "flat_zigzag or heads_then_tails",
                                          take_layout};

static const option_spec *const options[] = {&option_cu,    &option_cp,   &option_layout, &option_rank,
                                             &option_dtype, &option_rows, &option_json,   NULL};

static void write_tokens(int64_t rank, const cpr_intervals *share) {
    const char *separator = "";
    printf("{\"rank\":%" PRId64 ",\"tokens\":[", rank);
    for (int64_t i = 0; i < share->count && !ferror(stdout); i++) {
        for (int64_t token = share->items[i].begin; token < share->items[i].end && !ferror(stdout); token++) {
            printf("%s%" PRId64, separator, token);
            separator = ",";
        }
    }
    printf("]}\n");
}
