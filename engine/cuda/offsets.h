/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offsets (cu_seqlens) as a kernel reads them where they lie, and whether a pack can be converted: the rules of cproute.h in their
 * order, with the same details. Any number of threads share the reading; each scans every so many entries, and what they found is
 * joined in any order. That is enough, because every rule asks for the first entry that breaks it, or for the last entry.
 *
 * The digest of a pack is a sum over its different boundaries, so empty sequences leave it as it is and threads may add in any order.
 */
#ifndef CPROUTE_OFFSETS_H
#define CPROUTE_OFFSETS_H

#include <string.h>

#include "anywhere.h"
#include "cproute/cproute.h"

/* int64 if `wide`, else int32; `stride` entries apart. On the device they are aligned to their type. */
typedef struct cpr_offsets {
    const void *entries;
    int64_t count; /* > 0 */
    int64_t stride;
    bool wide;
} cpr_offsets;

/* What is asked for. */
typedef struct cpr_conversion_facts {
    int source, target; /* legal layouts */
    int64_t ranks;
    int64_t rows; /* of all ranks, as the caller's buffers have them; CPR_ROWS_UNCHECKED */
    int64_t tp_size;
} cpr_conversion_facts;

typedef struct cpr_offsets_scan {
    int64_t decreasing; /* first entry below the one before it; INT64_MAX: none */
    int64_t ragged;     /* first sequence whose length does not divide; INT64_MAX: none */
    uint64_t digest;
} cpr_offsets_scan;

CPR_ANYWHERE int64_t cpr_offset_at(const cpr_offsets *offsets, int64_t entry) {
    const int64_t at = entry * offsets->stride;
#ifdef __CUDA_ARCH__
    return offsets->wide ? ((const int64_t *)offsets->entries)[at] : ((const int32_t *)offsets->entries)[at];
#else
    const char *entries = (const char *)offsets->entries;
    int32_t narrow;
    int64_t whole;
    if (offsets->wide) {
        memcpy(&whole, entries + at * (int64_t)sizeof whole, sizeof whole);
        return whole;
    }
    memcpy(&narrow, entries + at * (int64_t)sizeof narrow, sizeof narrow);
    return narrow;
#endif
}

/* One word stirred; sums of stirred words differ where the words do, but by chance. */
CPR_ANYWHERE uint64_t cpr_stirred(uint64_t word) {
    word += UINT64_C(0x9E3779B97F4A7C15);
    word = (word ^ (word >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94D049BB133111EB);
    return word ^ (word >> 31);
}

CPR_ANYWHERE uint64_t cpr_stirred_in(uint64_t digest, uint64_t word) {
    return cpr_stirred(digest ^ cpr_stirred(word));
}

CPR_ANYWHERE bool cpr_layout_cuts_sequences(int layout) {
    return layout != CPR_CONTIGUOUS && layout != CPR_FLAT_ZIGZAG;
}

CPR_ANYWHERE bool cpr_facts_cut_sequences(const cpr_conversion_facts *facts) {
    return facts->ranks > 1 &&
           (cpr_layout_cuts_sequences(facts->source) || cpr_layout_cuts_sequences(facts->target));
}

/* What a thread finds in its share of the entries. Entries may be any numbers: nothing overflows. */
CPR_ANYWHERE cpr_offsets_scan cpr_offsets_scanned(const cpr_offsets *offsets,
                                                  const cpr_conversion_facts *facts, int64_t thread,
                                                  int64_t threads) {
    const int64_t divisor = cpr_facts_cut_sequences(facts) ? 2 * facts->ranks : 1;
    cpr_offsets_scan scan;
    scan.decreasing = INT64_MAX;
    scan.ragged = INT64_MAX;
    scan.digest = 0;
    for (int64_t i = thread; i < offsets->count; i += threads) {
        const int64_t entry = cpr_offset_at(offsets, i);
        const int64_t before = i == 0 ? -1 : cpr_offset_at(offsets, i - 1);
        if (entry != before) {
            scan.digest += cpr_stirred((uint64_t)entry);
        }
        if (i > 0 && entry < before && scan.decreasing == INT64_MAX) {
            scan.decreasing = i;
        }
        if (divisor > 1 && before >= 0 && entry > before && (entry - before) % divisor != 0 &&
            scan.ragged == INT64_MAX) {
            scan.ragged = i - 1;
        }
    }
    return scan;
}

CPR_ANYWHERE cpr_offsets_scan cpr_offsets_joined(cpr_offsets_scan a, cpr_offsets_scan b) {
    cpr_offsets_scan both;
    both.decreasing = a.decreasing < b.decreasing ? a.decreasing : b.decreasing;
    both.ragged = a.ragged < b.ragged ? a.ragged : b.ragged;
    both.digest = a.digest + b.digest;
    return both;
}

CPR_ANYWHERE cpr_error cpr_found(cpr_status status, int64_t index, int64_t got, int64_t wanted) {
    cpr_error error;
    error.status = status;
    error.index = index;
    error.got = got;
    error.wanted = wanted;
    return error;
}

CPR_ANYWHERE cpr_error cpr_nothing_found(void) {
    return cpr_found(CPR_OK, -1, 0, 0);
}

/* Lengths, in legal boundaries of more than one rank. */
CPR_ANYWHERE cpr_error cpr_lengths_judged(const cpr_offsets *offsets, const cpr_conversion_facts *facts,
                                          const cpr_offsets_scan *scan, int64_t total) {
    if (cpr_facts_cut_sequences(facts)) {
        if (scan->ragged == INT64_MAX) {
            return cpr_nothing_found();
        }
        const int64_t length =
            cpr_offset_at(offsets, scan->ragged + 1) - cpr_offset_at(offsets, scan->ragged);
        return cpr_found(CPR_NOT_DIVISIBLE_2CP, scan->ragged, length, 2 * facts->ranks);
    }
    if ((facts->source == CPR_FLAT_ZIGZAG || facts->target == CPR_FLAT_ZIGZAG) &&
        total % (2 * facts->ranks) != 0) {
        return cpr_found(CPR_NOT_DIVISIBLE_2CP, -1, total, 2 * facts->ranks);
    }
    return total % facts->ranks != 0 ? cpr_found(CPR_NOT_DIVISIBLE_CP, -1, total, facts->ranks)
                                     : cpr_nothing_found();
}

/* From nonzero_start on; what comes before needs no look at the entries. */
CPR_ANYWHERE cpr_error cpr_offsets_judged(const cpr_offsets *offsets, const cpr_conversion_facts *facts,
                                          const cpr_offsets_scan *scan) {
    const int64_t first = cpr_offset_at(offsets, 0);
    if (first != 0) {
        return cpr_found(CPR_NONZERO_START, 0, first, 0);
    }
    if (scan->decreasing != INT64_MAX) {
        return cpr_found(CPR_DECREASING, scan->decreasing, cpr_offset_at(offsets, scan->decreasing),
                         cpr_offset_at(offsets, scan->decreasing - 1));
    }
    const int64_t total = cpr_offset_at(offsets, offsets->count - 1);
    if (facts->rows != CPR_ROWS_UNCHECKED && facts->rows != total) {
        return cpr_found(CPR_TOTAL_MISMATCH, -1, facts->rows, total);
    }
    if (facts->ranks > 1) {
        const cpr_error lengths = cpr_lengths_judged(offsets, facts, scan, total);
        if (lengths.status != CPR_OK) {
            return lengths;
        }
    }
    const int64_t rows = total / facts->ranks;
    return facts->tp_size < 0 || (facts->tp_size > 1 && rows % facts->tp_size != 0)
               ? cpr_found(CPR_NOT_DIVISIBLE_CP_TP, -1, rows, facts->tp_size)
               : cpr_nothing_found();
}

/* What needs no look at the entries, from bad_cp_size to empty_cu_seqlens; `readable` is where entries can be read. */
CPR_ANYWHERE cpr_error cpr_conversion_refused(const cpr_cu_seqlens *cu_seqlens, cpr_geometry geometry,
                                              int source, int target, cpr_device readable) {
    if (geometry.cp_size < 1 || geometry.cp_size > CPR_CP_SIZE_MAX) {
        return cpr_found(CPR_BAD_CP_SIZE, -1, geometry.cp_size, geometry.cp_size < 1 ? 1 : CPR_CP_SIZE_MAX);
    }
    if (geometry.cp_rank < 0 || geometry.cp_rank >= geometry.cp_size) {
        return cpr_found(CPR_BAD_RANK, -1, geometry.cp_rank, geometry.cp_size);
    }
    if (source < 0 || source >= CPR_LAYOUT_COUNT) {
        return cpr_found(CPR_BAD_LAYOUT, 0, source, CPR_LAYOUT_COUNT);
    }
    if (target < 0 || target >= CPR_LAYOUT_COUNT) {
        return cpr_found(CPR_BAD_LAYOUT, 1, target, CPR_LAYOUT_COUNT);
    }
    if ((int)cu_seqlens->dtype != CPR_INT32 && (int)cu_seqlens->dtype != CPR_INT64) {
        return cpr_found(CPR_DTYPE, -1, (int)cu_seqlens->dtype, CPR_INT64);
    }
    if (cu_seqlens->device != readable) {
        return cpr_found(CPR_DEVICE, -1, (int)cu_seqlens->device, readable);
    }
    if (cu_seqlens->data == NULL && cu_seqlens->count > 0) {
        return cpr_found(CPR_DEVICE, -1, -1, readable);
    }
    if (cu_seqlens->count < 1) {
        return cpr_found(CPR_EMPTY_CU_SEQLENS, -1, cu_seqlens->count, 1);
    }
    return cpr_nothing_found();
}

CPR_ANYWHERE cpr_offsets cpr_offsets_of(const cpr_cu_seqlens *cu_seqlens) {
    cpr_offsets offsets;
    offsets.entries = cu_seqlens->data;
    offsets.count = cu_seqlens->count;
    offsets.stride = cu_seqlens->stride;
    offsets.wide = cu_seqlens->dtype == CPR_INT64;
    return offsets;
}

#endif
