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

/* Where findings go if nobody says so. */
#define FINDINGS_FOLDER "findings"

/* Writes the subject as a text case FOLDER/<law>-<hash>.jsonl and prints the line that replays it;
 * failing to write is told on standard error. `folder` may be NULL. */
void finding_keep(const char *program, const char *folder, const law *broken, const verdict *v,
                  const uint8_t *bytes, size_t length, const void *subject);

#endif
