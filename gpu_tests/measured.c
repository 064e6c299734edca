/* SPDX-License-Identifier: Apache-2.0 */
#include "measured.h"

#include <inttypes.h>

static const int64_t token_counts[] = {65536, 16384, 8192, 256};
static const int64_t sequence_counts[] = {8, 64, 1024};

bool measured_pack(int64_t number, int64_t cp_size, pack *p) {
    enum {
        COUNTS = sizeof token_counts / sizeof *token_counts,
        SEQUENCES = sizeof sequence_counts / sizeof *sequence_counts
    };
    if (number >= COUNTS * SEQUENCES)
        return false;
    pack_spread(token_counts[number / SEQUENCES], sequence_counts[number % SEQUENCES], cp_size, p);
    return true;
}

void measured_tell(FILE *out, int64_t cp_size, pack *p) {
    fprintf(out,
            "{\"cp\":%" PRId64 ",\"width\":%d,\"batches\":%d,\"runs\":%d,\"warm_up\":%d,\"sets\":%d,"
            "\"packs\":[",
            cp_size, MEASURED_WIDTH, MEASURED_BATCHES, MEASURED_RUNS, MEASURED_WARM_UP, MEASURED_SETS);
    for (int64_t number = 0; measured_pack(number, cp_size, p); number++) {
        fprintf(out, "%s\n[", number ? "," : "");
        for (int64_t i = 0; i < p->entries; i++)
            fprintf(out, "%s%" PRId64, i ? "," : "", p->cu[i]);
        fprintf(out, "]");
    }
    fprintf(out, "]}\n");
}
