/* SPDX-License-Identifier: Apache-2.0 */
/* Why a text cannot be read: told by whoever finds it, kept by whoever asked. */
#ifndef CPROUTE_PROPS_MISTAKE_H
#define CPROUTE_PROPS_MISTAKE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Where the sentence goes, cut to `size` bytes. */
typedef struct mistake_place {
    char *text;
    size_t size;
} mistake_place;

/* Tells it; returns false, so that a reader can `return mistaken(...)`. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
bool mistaken(const mistake_place *m, const char *format, ...);

/* Takes the fields of an object, all of them, or tells that `where` they are not as wanted: see json_unpack for the format. */
bool take_fields(const mistake_place *m, const char *where, json_t *object, const char *format, ...);

#endif
