/* SPDX-License-Identifier: Apache-2.0 */
#include "conform_subject.h"
#include "kit/law.h"

#include <stdlib.h>

void *subject_copy(question_op op, const void *subject) {
    if (asks_with_text(op))
        return shape_case_copy(subject);
    void *copy = malloc(op == ASK_CACHE ? sizeof(cache_case) : sizeof(route_case));
    if (copy && op == ASK_CACHE)
        cache_case_copy(copy, subject);
    else if (copy)
        route_case_copy(copy, subject);
    return copy;
}

static bool is_simpler_route(const route_case *a, const route_case *b) {
    if (a->entries != b->entries)
        return a->entries < b->entries;
    const int64_t a_last = a->entries ? a->cu[a->entries - 1] : 0,
                  b_last = b->entries ? b->cu[b->entries - 1] : 0;
    return a_last < b_last;
}

bool subject_is_simpler(question_op op, const void *a, const void *b) {
    if (asks_with_text(op))
        return shape_case_is_simpler(a, b);
    if (op == ASK_CACHE)
        return ((const cache_case *)a)->op_count < ((const cache_case *)b)->op_count;
    return is_simpler_route(a, b);
}

void subject_expect(route_case *c) {
    boundaries b = boundaries_make(c);
    cpr_route *route = NULL;
    cpr_route_build(&b.request, NULL, &route, &c->expected);
    c->expected_known = true;
    cpr_route_free(route);
    boundaries_free(&b);
}

void subject_write(FILE *out, question_op op, const void *subject, const char *note) {
    if (asks_with_text(op)) {
        shape_case_write(out, subject, note);
        return;
    }
    const family *f = op == ASK_CACHE ? &cache_family : &route_family;
    f->write_text(out, subject, "conform", note);
}
