/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "flat_form.h"
#include "laws.h"
#include "subject.h"
#include <string.h>

/* In a block of its own, so that ASan sees every entry read beyond it. */
void judge_flat_decode(const tensor_case *c, const engine_under_test *engine, verdict *v) {
    scratch s = {0};
    int64_t *flat = scratch_int64(&s, c->count);
    const cpr_error wanted = flat_expected(c->entries, c->count, c->geometry);
    if (!flat || wanted.status == CPR_NO_MEMORY) {
        subject_no_memory(v);
    } else {
        memcpy(flat, c->entries, (size_t)c->count * sizeof *flat);
        flat_decodes_as(engine, flat, c->count, c->geometry, wanted, &s, v);
    }
    scratch_free(&s);
}
