/* SPDX-License-Identifier: Apache-2.0 */
/* Every text case of the corpus, judged; or of another folder, given as the only argument. */
#include "text/text_replay.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cmocka wants the four above before it. */
#include <cmocka.h>

typedef struct tally {
    long passed, failed, skipped;
    route_case *subject;
} tally;

static bool judge_entry(void *context, const text_entry *entry) {
    tally *t = context;
    if (!entry->c) {
        t->failed++;
        print_error("%s:%d %s\n", entry->file, entry->line, entry->mistake);
        return true;
    }
    verdict v;
    const law *broken;
    text_case_judge(entry->c, NULL, &v, &broken, t->subject);
    t->passed += v.outcome == LAW_PASSED;
    t->skipped += v.outcome == LAW_NOT_APPLICABLE;
    t->failed += v.outcome == LAW_FAILED;
    if (v.outcome == LAW_FAILED)
        print_error("%s:%d %s: %s%s%s (%s)\n", entry->file, entry->line, entry->c->id,
                    broken ? broken->id : "", broken ? ": " : "", v.reason, v.details);
    return true;
}

static void every_case_holds(void **state) {
    const char *folder = *state;
    tally t = {.subject = malloc(sizeof(route_case))};
    assert_non_null(t.subject);
    struct dirent **entries;
    int files = scandir(folder, &entries, NULL, alphasort);
    assert_true(files > 0);
    for (int i = 0; i < files; i++) {
        char path[4096], mistake[4600];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (is_text_file(path) && !text_file_visit(path, judge_entry, &t, mistake, sizeof mistake))
            fail_msg("%s", mistake);
        free(entries[i]);
    }
    free(entries);
    free(t.subject);
    print_message("corpus: %ld passed, %ld failed, %ld skipped\n", t.passed, t.failed, t.skipped);
    assert_int_equal(t.failed, 0);
    assert_true(t.passed > 0);
}

int main(int argc, char **argv) {
    char *folder = argc > 1 ? argv[1] : CORPUS_CASES;
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(every_case_holds, folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
