/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text case: one JSON object a line, as corpus/README.md describes the format. Reading is strict: an
 * unknown field or operation, or a value of another type, is a mistake that is told with its place.
 */
#ifndef CPROUTE_PROPS_TEXT_CASE_H
#define CPROUTE_PROPS_TEXT_CASE_H

#include "kit/cache_case.h"
#include "kit/delta_case.h"
#include "kit/route_case.h"
#include "offsets.h"
#include <jansson.h>

/* Numbers that one rank has of its own: other boundaries, or hand-made split sizes. */
typedef struct rank_numbers {
    int64_t rank;
    offsets numbers;
} rank_numbers;

enum { TEXT_CASE_MAX_RANK_NUMBERS = 64 };

typedef struct rank_numbers_list {
    rank_numbers items[TEXT_CASE_MAX_RANK_NUMBERS];
    size_t count;
} rank_numbers_list;

typedef struct text_case {
    json_t *object; /* all strings below are its */
    const char *id, *source, *tag, *note, *law;

    offsets cu;
    int64_t cp_size;
    int64_t rank;
    bool every_rank;

    cpr_status expect;
    json_t *expected; /* the right answers, NULL: none are known */

    /* What ops say; as it is without them, the case asks for the zigzag->contiguous route. */
    cpr_layout from, to;
    int64_t rows;
    bool slack;
    bool real_given;
    offsets real;
    int64_t tp_size;
    bool dtype_given;
    cpr_dtype dtype;
    cpr_device device;
    bool kv_given;
    offsets kv;
    bool successor;
    bool transport;
    int64_t row_width, count_bits;
    bool big;
    bool a2av;
    rank_numbers_list rank_cu, splits;
    bool shard_given, unshard_given;
    cpr_layout shard, unshard;
    bool fused;
    int64_t fused_tp;
    bool order_given;
    offsets order; /* group rank of every logical rank */
    bool pad;      /* the case is about the plan that pads, not about the route */
    rank_numbers_list flats, flat_forms;
    int64_t stride;
    uint64_t salt;
    cache_case *cache; /* operations on tensors and a cache, in their order; NULL: there are none */
    delta_case *delta; /* micro-batches of the layer that consumes routes; NULL: there are none */
} text_case;

/* The operations that are not about tensors and a cache, by number. */
enum { TEXT_CASE_OPS = 23 };
const char *text_case_op_name(size_t number);

/* No boundaries, no operations: the zigzag->contiguous route. */
text_case text_case_plain(void);

/* False with a sentence in `mistake`; there is nothing to free then, but id may still name the case in it. */
bool text_case_parse(text_case *c, const char *line, size_t length, char *mistake, size_t size);
void text_case_free(text_case *c);

/* The rows that the caller says its buffer has, for boundaries `o`; rows that slack allows are not told. */
int64_t text_case_rows(const text_case *c, const offsets *o);

/* The case as laws take it, for one rank. `legal`: its route is; what is wrong then is between ranks or
 * at the transport. False if it is too large for laws. */
bool text_case_to_route_case(const text_case *c, int64_t rank, bool legal, route_case *to);

/* What the answers say about the error that is expected. False if they do not. */
bool text_case_error_details(const text_case *c, cpr_error *error);

/* The layout with that name, also "#7" for numbers without a name. */
bool layout_from_text(const char *name, cpr_layout *layout);

/*
 * Visits every case of a file, with the right answers from the file beside it (X.expected.jsonl beside
 * X.jsonl) where it has them. A line that is no case is visited with c == NULL and the mistake. False,
 * with the mistake, if a file cannot be read. A visitor that returns false ends it.
 */
typedef struct text_entry {
    const char *file;
    int line; /* from 1 */
    text_case *c;
    const char *mistake;
} text_entry;
typedef bool (*text_visit_fn)(void *context, const text_entry *entry);
bool text_file_visit(const char *path, text_visit_fn visit, void *context, char *mistake, size_t size);

/* Is it a file of text cases by its name? Answers beside cases are not. */
bool is_text_file(const char *path);
bool is_answers_file(const char *path);

#endif
