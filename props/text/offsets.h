/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boundaries as a person or a file writes them: numbers that may have a fraction, or not fit any integer.
 * They are kept as they were given until a request is made of them, so that each such number is refused
 * as what it is.
 */
#ifndef CPROUTE_PROPS_OFFSETS_H
#define CPROUTE_PROPS_OFFSETS_H

#include "cproute/cproute.h"
#include "int64_list.h"

typedef struct offsets {
    int64_list list;  /* a number that int64 cannot hold is the nearest one that it can */
    int64_t oversize; /* first entry that int64 cannot hold, -1: there is none */
    bool fractions;   /* some number had a fraction or an exponent, which makes all of them floats */
    int32_t *narrow;  /* the items as int32, once they were handed over as such */
} offsets;

#define OFFSETS_NONE ((offsets){.oversize = -1})

void offsets_free(offsets *o);

typedef struct offsets_mistake {
    int64_t entry;      /* the number at which reading stopped, from 0 */
    size_t position;    /* its place in the text, from 0 */
    const char *reason; /* static */
} offsets_mistake;

/* Appends what a text says: numbers between commas or white space, in JSON brackets or without. No number
 * is legal. False, with the place, where it is not a list of numbers. */
bool offsets_parse(offsets *o, const char *text, size_t length, offsets_mistake *mistake);

/* Tokens by the last entry; 0 if there is none, or it is negative. */
int64_t offsets_tokens(const offsets *o);

/* int32, or int64 if there is a number that needs it. */
cpr_dtype offsets_smallest_dtype(const offsets *o);

/*
 * Makes request->cu_seqlens of the offsets, as `dtype`. False with the error if numbers do not fit that
 * type; what builders refuse before `overflow` is reported first, as they would. The rest of the request,
 * and the device in the view, must be set. The view is good until the offsets change.
 */
bool offsets_hand_over(offsets *o, cpr_dtype dtype, cpr_route_request *request, cpr_error *error);

#endif
