/* SPDX-License-Identifier: Apache-2.0 */
#include "script_answers.h"
#include "laws/cache_walk.h"

typedef struct answers {
    FILE *out;
    const char *separator;
} answers;

bool script_asks(cache_op_kind kind) {
    return kind == CACHE_GET || kind == CACHE_CAPTURE || kind == CACHE_REPLAY || kind == CACHE_RESOLVE ||
           kind == CACHE_PREBUILD;
}

static void answer(void *context, const cache_observation *seen) {
    answers *a = context;
    if (!script_asks(seen->op->kind))
        return;
    fprintf(a->out, "%s\"", a->separator);
    a->separator = ",";
    if (seen->skipped)
        fputs("nothing", a->out);
    else if (seen->error.status != CPR_OK)
        fprintf(a->out, "error:%s", cpr_status_name(seen->error.status));
    else if (seen->op->kind == CACHE_PREBUILD)
        fputs("ok", a->out);
    else
        fputs(seen->hit ? "hit" : "miss", a->out);
    fputc('"', a->out);
}

bool script_answers_write(FILE *out, const cache_case *c) {
    answers a = {.out = out, .separator = ""};
    verdict v = {.outcome = LAW_PASSED};
    const cache_walk_options options = {.engine = &the_cache_engine, .observe = answer, .context = &a};
    fputs("{\"answers\":[", out);
    cache_walk(c, &options, &v);
    fputs("]}\n", out);
    return v.outcome != LAW_FAILED && !ferror(out);
}
