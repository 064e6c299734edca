/* SPDX-License-Identifier: Apache-2.0 */
#include "text_choice.h"
#include "arguments.h"

#include <stdlib.h>
#include <string.h>

/* Ids may have colons too, so the first one behind a file of text cases counts. */
static char *colon_behind_file(char *operand) {
    if (is_text_file(operand))
        return NULL;
    for (char *colon = strchr(operand, ':'); colon; colon = strchr(colon + 1, ':')) {
        *colon = '\0';
        const bool found = is_text_file(operand);
        *colon = ':';
        if (found)
            return colon;
    }
    return NULL;
}

bool text_choice_open(text_choice *choice, const char *operand) {
    int64_t line = 0;
    *choice = (text_choice){.path = strdup(operand)};
    if (!choice->path)
        return false;
    char *colon = colon_behind_file(choice->path);
    if (!colon)
        return true;
    *colon = '\0';
    choice->id = colon + 1;
    if (parse_int64(choice->id, &line) && line > 0 && line < INT32_MAX)
        choice->line = (int)line;
    return true;
}

void text_choice_close(text_choice *choice) {
    free(choice->path);
}

bool text_choice_takes(const text_choice *choice, const text_entry *entry) {
    return !choice->id || entry->line == choice->line || (entry->c && !strcmp(entry->c->id, choice->id));
}
