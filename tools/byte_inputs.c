/* SPDX-License-Identifier: Apache-2.0 */
#include "byte_inputs.h"
#include "files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL: the folder is not named after a law. */
static const law *law_of_folder(const char *path) {
    const char *end = strrchr(path, '/'), *begin = end;
    char name[64];
    if (!end)
        return NULL;
    while (begin > path && begin[-1] != '/')
        begin--;
    snprintf(name, sizeof name, "%.*s", (int)(end - begin), begin);
    return law_named(name);
}

/* Several laws about one input make one verdict: the worst. */
static bool goes_before(const verdict *opinion, const verdict *v) {
    static const int weight[] = {[LAW_NOT_APPLICABLE] = 0, [LAW_PASSED] = 1, [LAW_FAILED] = 2};
    return !v->reason || weight[opinion->outcome] > weight[v->outcome];
}

void byte_input_judge(const char *path, const law *only, broken_law_fn tell, void *context, verdict *v) {
    size_t length;
    *v = (verdict){.outcome = LAW_FAILED, .reason = "the file cannot be judged"};
    uint8_t *bytes = (uint8_t *)read_whole(path, &length, v->details, sizeof v->details);
    if (!bytes) {
        printf("%s: %s (%s)\n", path, v->reason, v->details);
        return;
    }
    *v = (verdict){.outcome = LAW_NOT_APPLICABLE};
    only = only ? only : law_of_folder(path);
    for (size_t i = 0; i < law_count; i++) {
        verdict opinion;
        if (only && only != &laws[i])
            continue;
        law_judge_bytes(&laws[i], bytes, length, NULL, &opinion);
        if (opinion.outcome == LAW_FAILED)
            tell(context, &laws[i], path, bytes, length, &opinion);
        if (goes_before(&opinion, v))
            *v = opinion;
    }
    free(bytes);
}
