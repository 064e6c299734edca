/* SPDX-License-Identifier: Apache-2.0 */
/* Byte inputs and the laws that judge them. */
#ifndef CPROUTE_TOOLS_BYTE_INPUTS_H
#define CPROUTE_TOOLS_BYTE_INPUTS_H

#include "kit/law.h"

typedef void (*broken_law_fn)(void *context, const law *broken, const char *path, const uint8_t *bytes,
                              size_t length, const verdict *v);

/*
 * Judges a file by one law, by the law that its folder is named after, or by all laws (`only` NULL and no
 * such folder). Tells of every law that it breaks. The verdict is the worst that a law said,
 * LAW_NOT_APPLICABLE if none applied, and LAW_FAILED if the file cannot be read, which is printed.
 */
void byte_input_judge(const char *path, const law *only, broken_law_fn tell, void *context, verdict *v);

#endif
