/* SPDX-License-Identifier: Apache-2.0 */
/* Cases for people, as pictures, and for corpus/cases, as text. */
#ifndef CPROUTE_PROPS_SHOW_H
#define CPROUTE_PROPS_SHOW_H

#include "route_case.h"
#include <stdio.h>

/* Everything about a case within 80 columns: its numbers, an arrow at the entry that is to blame, and, if it is legal,
 * who holds what in both layouts. */
void show_case(FILE *out, const route_case *c, bool colour);

/*
 * The stream as a bar for every rank (`rank` -1) or one rank: its own tokens in the letter and colour of their sequence,
 * the others as dots, and at the right its intervals in local row order if there is room. If T is larger than the bar,
 * a letter stands for several tokens. Nothing is drawn of a case that has no such layout.
 */
void show_layout(FILE *out, const route_case *c, cpr_layout layout, int64_t rank, bool colour, int columns);

/*
 * One line of JSON, as corpus/cases holds them:
 *   {"id":"LAW-HASH","law":LAW,"tag":"found","cu_seqlens":[..],"cp_size":P,"rank":R,"ops":[..],
 *    "expect":"ok"|"error:KIND","note":..}
 * `ops` lists what differs from a zigzag->contiguous request of dense int32 boundaries on the CPU:
 *   {"op":"layouts","src":NAME,"dst":NAME}   {"op":"rows","n":N}   {"op":"dtype","v":NAME}   {"op":"device","v":NAME}
 *   {"op":"tp","n":N}   {"op":"stride","n":N}   {"op":"salt","n":N}
 * What has no name is written as its number: "#7". An error that is known in all details adds
 *   "expected":{"error":{"index":I,"got":G,"want":W}}
 */
void write_case_text(FILE *out, const route_case *c, const char *law, const char *note);

/* So that a shell reads it as one word: as it is, or in quotes where that is needed. */
void write_shell_word(FILE *out, const char *text);

/* With quotes, and escaped as JSON wants it. */
void write_json_string(FILE *out, const char *text);

#endif
