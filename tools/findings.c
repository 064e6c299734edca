/* SPDX-License-Identifier: Apache-2.0 */
#include "findings.h"
#include "arguments.h"
#include "files.h"
#include "kit/show.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void *subject_from_bytes(const law *broken, const uint8_t *bytes, size_t length) {
    void *subject = calloc(1, broken->family->size);
    if (subject) {
        choices from = choices_from_bytes(bytes, length, NULL);
        broken->family->draw(&from, subject);
    }
    return subject;
}

void finding_show(FILE *out, const law *broken, const verdict *v, const void *subject) {
    fprintf(out, "  law %s: %s\n  %s: %s\n", broken->id, broken->meaning, v->reason, v->details);
    if (subject)
        broken->family->show(out, subject, has_colour(out));
}

static bool write_case(const char *path, const law *broken, const verdict *v, const void *subject) {
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    broken->family->write_text(file, subject, broken->id, v->reason);
    bool failed = ferror(file) != 0;
    return !fclose(file) && !failed;
}

void finding_tell_replay(FILE *out, const char *program, const law *only, const char *path, int line) {
    char number[16] = "";
    const size_t room = strlen(path) + sizeof number;
    char *place = malloc(room);
    if (!place)
        return;
    if (line)
        snprintf(number, sizeof number, ":%d", line);
    snprintf(place, room, "%s%s", path, number);
    fputs("  replay: ", out);
    write_shell_word(out, program);
    fprintf(out, " replay %s%s%s", only ? "--law " : "", only ? only->id : "", only ? " " : "");
    write_shell_word(out, place);
    fputc('\n', out);
    free(place);
}

void finding_keep(const char *program, const char *folder, const law *broken, const verdict *v,
                  const uint8_t *bytes, size_t length, const void *subject) {
    folder = folder ? folder : FINDINGS_FOLDER;
    size_t room = strlen(folder) + strlen(broken->id) + 32;
    char *path = malloc(room);
    if (!path)
        return;
    snprintf(path, room, "%s/%s-%016" PRIx64 ".jsonl", folder, broken->id, content_hash(bytes, length));
    if (make_folder(folder) && write_case(path, broken, v, subject))
        finding_tell_replay(stdout, program, NULL, path, 0);
    else
        fprintf(stderr, "cproute: cannot write %s: %s\n", path, strerror(errno));
    free(path);
}
