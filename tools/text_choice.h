/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of a text file as command lines name them: FILE, FILE:ID or FILE:LINE. */
#ifndef CPROUTE_TOOLS_TEXT_CHOICE_H
#define CPROUTE_TOOLS_TEXT_CHOICE_H

#include "text/text_case.h"

typedef struct text_choice {
    char *path;
    const char *id; /* an id or a line, NULL: all cases */
    int line;       /* 0: the id is none */
} text_choice;

/* False without memory. A name is chosen from where a file of text cases is named before the colon. */
bool text_choice_open(text_choice *choice, const char *operand);
void text_choice_close(text_choice *choice);

bool text_choice_takes(const text_choice *choice, const text_entry *entry);

#endif
