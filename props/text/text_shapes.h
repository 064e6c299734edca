/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine makes of a text case in other shapes than the route itself. */
#ifndef CPROUTE_PROPS_TEXT_SHAPES_H
#define CPROUTE_PROPS_TEXT_SHAPES_H

#include "kit/law.h"
#include "text_case.h"

/* Lists of numbers that a case can know the right ones of, each for one rank. */
typedef enum shape_answer {
    SHAPE_FLAT,
    SHAPE_ZIGZAG_INDEX, /* empty for an identity */
    SHAPE_ZIGZAG_SPLITS,
    SHAPE_CONTIGUOUS_INDEX,
    SHAPE_CONTIGUOUS_SPLITS,
    SHAPE_FUSED_SEND_ROWS, /* from here to the chunks: for a logical rank of the TP x CP group */
    SHAPE_FUSED_RECV_ROWS,
    SHAPE_FUSED_INPUT_SPLITS,
    SHAPE_FUSED_OUTPUT_SPLITS,
    SHAPE_CHUNK_SEND,
    SHAPE_CHUNK_RECV,
    SHAPE_PADDED_CU,
    SHAPE_PAD_CONTIGUOUS_SPLITS,
    SHAPE_PAD_ZIGZAG_SPLITS,
    SHAPE_PAD_CONTIGUOUS_ROWS,
    SHAPE_PAD_ZIGZAG_ROWS,
    SHAPE_PAD_CONTIGUOUS_GATHER,
    SHAPE_PAD_ZIGZAG_GATHER,
    SHAPE_REAL_ROWS,
    SHAPE_REAL_TOKENS,
    SHAPE_SUCCESSORS,
    SHAPE_LOCAL_OFFSETS
} shape_answer;

/* Appends it. False with the error where there is none. */
bool text_shape_answer(text_case *c, shape_answer which, int64_t rank, int64_list *answer, cpr_error *error);

/* Ranks that a shape is for: those of the TP x CP group, or of the CP group. */
int64_t text_shape_ranks(const text_case *c, shape_answer which);

/* How the operations about shapes end, one after the other: the first error, or CPR_OK. */
cpr_error text_shapes_outcome(text_case *c);

/* How the plan that pads ends, on every rank; where they differ, the verdict fails. */
cpr_error text_pad_outcome(text_case *c, verdict *v);

/* The padded boundaries and the real ones of a case. */
cpr_padding text_case_padding(const text_case *c);

#endif
