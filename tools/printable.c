/* SPDX-License-Identifier: Apache-2.0 */
#include "printable.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How many bytes a character has that begins so; 0: none does. */
static size_t length_by_head(unsigned char head) {
    if (head < 0x80)
        return 1;
    if (head < 0xC2)
        return 0;
    if (head < 0xE0)
        return 2;
    return head < 0xF0 ? 3 : (head < 0xF5 ? 4 : 0);
}

/* The character that text begins with; false if it is cut, or written in a longer way than it should be. */
static bool decode(const unsigned char *text, size_t length, uint32_t *character) {
    static const uint32_t first_of_length[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code = length == 1 ? text[0] : text[0] & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80) /* the end of the text, too */
            return false;
        code = code << 6 | (text[i] & 0x3Fu);
    }
    *character = code;
    return length > 0 && code >= first_of_length[length];
}

static bool is_shown(uint32_t character) {
    const bool control = character < ' ' || (character >= 0x7F && character < 0xA0);
    const bool surrogate = character >= 0xD800 && character < 0xE000;
    const bool noncharacter = (character & 0xFFFE) == 0xFFFE || (character >= 0xFDD0 && character < 0xFDF0);
    return !control && !surrogate && !noncharacter && character < 0x110000;
}

void make_printable(char *text) {
    while (*text) {
        const unsigned char *bytes = (const unsigned char *)text;
        const size_t length = length_by_head(bytes[0]);
        uint32_t character;
        if (decode(bytes, length, &character)) {
            if (!is_shown(character))
                memset(text, '?', length);
            text += length;
        } else {
            *text++ = '?';
        }
    }
}
