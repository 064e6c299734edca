/* SPDX-License-Identifier: Apache-2.0 */
/* A fingerprint of boundaries, to be compared between ranks. */
#ifndef CPROUTE_DIGEST_H
#define CPROUTE_DIGEST_H

#include "cproute/cproute.h"

/* Of legal boundaries; dtype, stride and empty sequences leave it as it is. */
uint64_t cpr_boundaries_digest(const cpr_cu_seqlens *cu_seqlens);

#endif
