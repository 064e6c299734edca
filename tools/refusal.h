/* SPDX-License-Identifier: Apache-2.0 */
/* What route, layout and explain do alike: which ranks are asked for, and how a refusal is told. */
#ifndef CPROUTE_TOOLS_REFUSAL_H
#define CPROUTE_TOOLS_REFUSAL_H

#include "arguments.h"

/* 0 if there is a batch and nothing else; EXIT_WRONG_USE, told, otherwise. */
int batch_needed(const command *c, const arguments *a);

/* The ranks to answer for. With a bad cp_size there is no list of ranks; rank 0 or the one asked for
 * stands for all. Nobody reads about more than RANKS_READ_MAX ranks, so text stops there; JSON does not. */
enum { RANKS_READ_MAX = 256 };
void ranks_asked(const arguments *a, int64_t *first, int64_t *last);

/* Says on standard error that ranks were left out, if they were. */
void tell_ranks_left_out(const arguments *a);

/* Tells a refusal of a word that was typed, with those that are valid. False if it is none. */
bool refused_word_show(const arguments *a, const cpr_error *error);

/* Tells a refusal: as JSON on standard output, or for people on standard error. False when output has
 * failed. */
bool refusal_show(const arguments *a, int64_t rank, const cpr_error *error);

/* Tells a refusal that all ranks share, and returns how to end. */
int refusal_for_all(const arguments *a, const cpr_error *error);

#endif
