/* SPDX-License-Identifier: Apache-2.0 */
/* Zigzag and contiguous, the pair that is in use: the lists of a route between them, in closed form. */
#ifndef CPROUTE_ZIGZAG_CONTIGUOUS_H
#define CPROUTE_ZIGZAG_CONTIGUOUS_H

#include "cproute/cproute.h"
#include "exact_divisor.h"

typedef struct cpr_zigzag_contiguous {
    const cpr_cu_seqlens *cu_seqlens;
    int64_t ranks; /* more than one */
    int64_t rank;
    int64_t rows; /* of a rank */
    cpr_exact_divisor by_chunks;
    bool zigzag_sends;
} cpr_zigzag_contiguous;

/* The list of a rank that has, or gets, zigzag rows; and of one that has, or gets, contiguous rows. Linear in entries and runs, with
 * no memory but the list. False without memory. */
bool cpr_list_of_zigzag_rank(const cpr_zigzag_contiguous *pair, const cpr_allocator *allocator,
                             cpr_run_list *list);
bool cpr_list_of_contiguous_rank(const cpr_zigzag_contiguous *pair, const cpr_allocator *allocator,
                                 cpr_run_list *list);

#endif
