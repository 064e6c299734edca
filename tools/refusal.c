/* SPDX-License-Identifier: Apache-2.0 */
#include "refusal.h"

#include <inttypes.h>

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
    if (!a->json && *last - *first >= RANKS_READ_MAX)
        *last = *first + RANKS_READ_MAX - 1;
}

void tell_ranks_left_out(const arguments *a) {
    int64_t first, last;
    ranks_asked(a, &first, &last);
    if (a->every_rank && last > first && last + 1 < a->cp_size)
        fprintf(stderr,
                "cproute: ranks %" PRId64 " to %" PRId64 " of %" PRId64 "; --rank R shows any other\n", first,
                last, a->cp_size);
}

static void show_layout_word(const char *word) {
    fprintf(stderr, "cproute: bad_layout: '%s' is no layout; there are", word);
    for (int i = 0; i < CPR_LAYOUT_COUNT; i++)
        fprintf(stderr, "%s %s", i ? "," : "", cpr_layout_name((cpr_layout)i));
    fprintf(stderr, "\n");
}

bool refused_word_show(const arguments *a, const cpr_error *error) {
    const char *layout = error->index == 1 ? a->target_word : a->source_word;
    if (error->status == CPR_BAD_LAYOUT && layout) {
        show_layout_word(layout);
        return true;
    }
    /* Boundaries with fractions have a type of their own, whatever was typed. */
    if (error->status != CPR_DTYPE || !a->dtype_word || error->got != (int64_t)a->dtype)
        return false;
    fprintf(stderr, "cproute: dtype: '%s' is no type of boundaries; there are %s, %s\n", a->dtype_word,
            cpr_dtype_name(CPR_INT32), cpr_dtype_name(CPR_INT64));
    return true;
}

bool refusal_show(const arguments *a, int64_t rank, const cpr_error *error) {
    if (a->json)
        return cpr_error_dump_json(rank, error, write_to_file, stdout);
    if (refused_word_show(a, error))
        return true;
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
