/* SPDX-License-Identifier: Apache-2.0 */
/* A fingerprint of boundaries, to be compared between ranks. */
#ifndef CPROUTE_DIGEST_H
#define CPROUTE_DIGEST_H

#include "cproute/cproute.h"

/* Of legal boundaries; dtype, stride and empty sequences leave it as it is. */
uint64_t cpr_boundaries_digest(const cpr_cu_seqlens *cu_seqlens);

/* Of boundaries and of the group that TP ranks add to; that of the boundaries where they add nothing. */
uint64_t cpr_grouped_digest(uint64_t boundaries_digest, int64_t cp_size, const cpr_tensor_ranks *tp);

/* Of what a plan that pads is built from. */
uint64_t cpr_padded_digest(uint64_t boundaries_digest, int64_t cp_size);

#endif
