/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of conversions once more, without a route; where ranks cannot write to each other's memory, by the same interface with one. */
#include "tests.h"
#include "trip.h"

static bool directly(stage *s, test_function *test) {
    s->direct = true;
    return test(s);
}

bool test_direct_layouts(stage *s) {
    return directly(s, test_layouts);
}

bool test_direct_widths(stage *s) {
    return directly(s, test_widths);
}

bool test_direct_packs(stage *s) {
    return directly(s, test_packs);
}

/* Each boundary so often that 4,097 of them take 160 KiB. */
bool test_direct_long(stage *s) {
    s->repeat = 10;
    return directly(s, test_packs);
}

bool test_direct_corpus(stage *s) {
    return directly(s, test_corpus);
}

bool test_direct_drawn(stage *s) {
    return directly(s, test_drawn);
}

bool test_direct_adjoint(stage *s) {
    return directly(s, test_adjoint);
}

bool test_direct_delta(stage *s) {
    return directly(s, test_delta);
}

bool test_direct_graph(stage *s) {
    return directly(s, test_graph);
}
