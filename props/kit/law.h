/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Laws: pure functions that judge one case and return a verdict.
 *
 * A law does not abort, print, or know who called it: cmocka tests, fuzz targets, the replay driver and the command
 * are adapters of a few lines. laws.def is the only list of laws. It runs nothing twice by itself: a law that
 * calls the engine leaves no memory behind, whatever the verdict.
 */
#ifndef CPROUTE_PROPS_LAW_H
#define CPROUTE_PROPS_LAW_H

#include "cache_case.h"
#include "delta_case.h"
#include "route_case.h"
#include "tensor_case.h"
#include <stdio.h>

typedef enum outcome { LAW_PASSED, LAW_FAILED, LAW_NOT_APPLICABLE } outcome;

typedef struct verdict {
    outcome outcome;
    const char *reason; /* static; names the class of a failure: shrinking stays with one reason */
    char details[640];  /* both answers and the first place where they differ */
} verdict;

#if defined(__GNUC__)
#define LAW_PRINTF __attribute__((format(printf, 3, 4)))
#else
#define LAW_PRINTF
#endif

/* Set the verdict; both return false so that a helper can `return law_fail(...)`. The first failure stays. */
bool law_fail(verdict *v, const char *reason, const char *format, ...) LAW_PRINTF;
bool law_skip(verdict *v, const char *reason);

/*
 * A family is a kind of case. Everything that runs, shrinks, shows and replays laws goes through it, so a law
 * about something else than routes brings its family and nothing else changes.
 */
typedef struct family {
    const char *name;
    size_t size;
    void (*draw)(choices *choices, void *subject);             /* as fuzzers and random tests do */
    void (*show)(FILE *out, const void *subject, bool colour); /* a picture, within 80 columns */
    void (*write_text)(FILE *out, const void *subject, const char *law, const char *note); /* one line */
} family;
extern const family route_family, cache_family, tensor_family, delta_family;

typedef struct law {
    const char *id; /* as in laws.def and file names: letters, digits and _ */
    const char *meaning;
    const family *family;
    void (*judge)(const void *subject, verdict *v);
} law;

extern const law laws[];
extern const size_t law_count;
const law *law_named(const char *id); /* NULL if there is none */

/* Judges a subject of the law's family. */
void law_judge(const law *law, const void *subject, verdict *v);

/* Judges what the bytes decode to. `subject` (family->size bytes) may be NULL: then one is allocated. */
void law_judge_bytes(const law *law, const uint8_t *bytes, size_t length, void *subject, verdict *v);

#endif
