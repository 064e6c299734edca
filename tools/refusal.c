/* SPDX-License-Identifier: Apache-2.0 */
#include "refusal.h"

int batch_needed(const command *c, const arguments *a) {
    if (a->operand_count)
        return wrong_use(c, "unexpected '%s'", a->operands[0]);
    if (!a->cu_given)
        return wrong_use(c, "--cu is missing");
    if (!a->cp_given)
        return wrong_use(c, "--cp is missing");
    return EXIT_GOOD;
}

void ranks_asked(const arguments *a, int64_t *first, int64_t *last) {
    bool listable = a->cp_size >= 1 && a->cp_size <= CPR_CP_SIZE_MAX;
    *first = a->every_rank ? 0 : a->rank;
    *last = a->every_rank && listable ? a->cp_size - 1 : *first;
}

bool refusal_show(const arguments *a, int64_t rank, const cpr_error *error) {
    if (a->json)
        return cpr_error_dump_json(rank, error, write_to_file, stdout);
    char text[256];
    cpr_error_format(error, text, sizeof text);
    fprintf(stderr, "cproute: %s: %s\n", cpr_status_name(error->status), text);
    return true;
}

int refusal_for_all(const arguments *a, const cpr_error *error) {
    int64_t first, last;
    ranks_asked(a, &first, &last);
    if (!a->json)
        last = first;
    for (int64_t rank = first; rank <= last; rank++)
        if (!refusal_show(a, rank, error))
            break;
    return finish_output(EXIT_FINDINGS);
}
