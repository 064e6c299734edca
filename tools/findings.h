/* SPDX-License-Identifier: Apache-2.0 */
/* A broken law as people see it: what it says, the case drawn, a text case kept, and the line that
 * replays it. */
#ifndef CPROUTE_TOOLS_FINDINGS_H
#define CPROUTE_TOOLS_FINDINGS_H

#include "kit/law.h"

/* What bytes decode to; freed with free(). NULL without memory. */
void *subject_from_bytes(const law *broken, const uint8_t *bytes, size_t length);

/* The law, the verdict and the picture. */
void finding_show(FILE *out, const law *broken, const verdict *v, const void *subject);

/* The line that replays a text case (`line` 0: all of its file) or a byte input, as a shell takes it.
 * `only` may be NULL: all laws. */
void finding_tell_replay(FILE *out, const char *program, const law *only, const char *path, int line);

/* Writes the subject as a text case FOLDER/<law>-<hash>.jsonl and prints the line that replays it;
 * failing to write is told on standard error. `folder` may be NULL. */
void finding_keep(const char *program, const char *folder, const law *broken, const verdict *v,
                  const uint8_t *bytes, size_t length, const void *subject);

#endif
