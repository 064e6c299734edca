/* SPDX-License-Identifier: Apache-2.0 */
#include "sink.h"
#include <stdlib.h>
#include <string.h>

static bool reserve(sink *s, size_t length) {
    if (s->length + length + 1 <= s->capacity)
        return true;
    const size_t capacity = 2 * (s->length + length) + 256;
    char *text = realloc(s->text, capacity);
    if (!text)
        return false;
    s->text = text;
    s->capacity = capacity;
    return true;
}

bool sink_write(void *context, const char *text, size_t length) {
    sink *s = context;
    s->called_after_that |= s->refused;
    s->refused |= s->limited && length > s->limit - s->length;
    if (s->refused)
        return false;
    if (!reserve(s, length)) {
        s->out_of_memory = s->refused = true;
        return false;
    }
    if (length > 0)
        memcpy(s->text + s->length, text, length);
    s->length += length;
    s->text[s->length] = '\0';
    return true;
}

void sink_free(sink *s) {
    free(s->text);
    *s = (sink){0};
}
