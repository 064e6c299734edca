/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences as padded and real boundaries have them. */
#ifndef CPROUTE_PADDING_H
#define CPROUTE_PADDING_H

#include "cproute/cproute.h"

/* Padded tokens [begin, end), of which [begin, real_end) are the real tokens from real_begin on. */
typedef struct cpr_sequence {
    int64_t number;
    int64_t begin, end;
    int64_t real_begin, real_end;
} cpr_sequence;

/* Of a legal padding. */
cpr_sequence cpr_sequence_of(const cpr_padding *padding, int64_t number);

/* Does `real` go with the padded boundaries, which are legal? Writes *error on failure only. */
cpr_status cpr_real_check(const cpr_padding *padding, cpr_error *error);

/* Legal boundaries, each sequence lengthened to a multiple, must stay within a limit. Writes *error on failure only. */
cpr_status cpr_pad_fits(const cpr_cu_seqlens *real, int64_t multiple, int64_t limit, cpr_error *error);

/* What a length lacks to be a multiple. */
static inline int64_t cpr_lacking(int64_t length, int64_t multiple) {
    return length % multiple == 0 ? 0 : multiple - length % multiple;
}

#endif
