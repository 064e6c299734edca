/* SPDX-License-Identifier: Apache-2.0 */
#include "conform_shape.h"
#include "arguments.h"
#include "kit/show.h"
#include "laws/real_lengths.h"
#include "laws/tensor_group.h"
#include "text/text_outcome.h"
#include "text/text_shapes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ASKED_RANKS_MAX = 64, DRAW_TP_RANK = 50, DRAW_RAGGED = 51 };

/*------------------------------------------------------------------------------
 * Drawn cases
 *----------------------------------------------------------------------------*/

static bool has_group(question_op op) {
    return op == ASK_FUSED || op == ASK_CHUNKS;
}

static bool is_a_rank(const route_case *c) {
    return c->geometry.cp_size >= 1 && c->geometry.cp_size <= ASKED_RANKS_MAX && c->geometry.cp_rank >= 0 &&
           c->geometry.cp_rank < c->geometry.cp_size;
}

/* Lengths of any size, of which all ranks get equal shares: the last sequence takes what is missing. */
static bool make_ragged(route_case *c, scratch *s) {
    const int64_t *real = real_boundaries(c, s), ranks = c->geometry.cp_size;
    if (!real)
        return false;
    memcpy(c->cu, real, (size_t)c->entries * sizeof *real);
    const int64_t over = c->cu[c->entries - 1] % ranks;
    if (c->entries > 1 && over != 0)
        c->cu[c->entries - 1] += ranks - over;
    return true;
}

static void make_one_sequence(route_case *c) {
    c->cu[1] = route_case_tokens(c);
    c->cu[0] = 0;
    c->entries = 2;
}

/* False where there is no such question about the case. */
static bool dress(question_op op, route_case *c, scratch *s) {
    const bool legal = c->expected.status == CPR_OK;
    c->tp_size = 0; /* groups have their own */
    c->stride = 1;
    if (op == ASK_TWO_VIEW || op == ASK_PAD) {
        c->source = CPR_ZIGZAG;
        c->target = CPR_CONTIGUOUS;
    }
    if ((op == ASK_CHUNKS || op == ASK_REAL) && !legal)
        return false;
    if (has_group(op) && !is_a_rank(c))
        return false;
    if (op == ASK_CHUNKS)
        make_one_sequence(c);
    if (op == ASK_PAD && legal && is_a_rank(c) && salt_below(c->salt, DRAW_RAGGED, 4) != 0) {
        c->rows = CPR_ROWS_UNCHECKED;
        c->dtype = CPR_INT32; /* the only one that is taken */
        return make_ragged(c, s);
    }
    return true;
}

static json_t *numbers_of(const int64_t *items, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer(items[i]));
    return list;
}

/* The operation that the shape is about, and the rank to ask. NULL: there is none. */
static json_t *operation_of(question_op op, const route_case *c, scratch *s, int64_t *rank) {
    *rank = c->geometry.cp_rank;
    if (op == ASK_PAD)
        return json_pack("{s:s}", "op", "pad");
    if (op == ASK_REAL) {
        const int64_t *real = real_boundaries(c, s);
        return real ? json_pack("{s:s, s:o}", "op", "real", "cu", numbers_of(real, c->entries)) : NULL;
    }
    tensor_group g;
    if (!has_group(op) || !tensor_group_draw(&g, c, s))
        return NULL;
    *rank =
        *rank * g.tp_size + (int64_t)salt_below(c->salt + (uint64_t)*rank, DRAW_TP_RANK, (uint64_t)g.tp_size);
    return json_pack("{s:s, s:I, s:o}", "op", "fused", "tp", (json_int_t)g.tp_size, "order",
                     numbers_of(g.order, g.ranks));
}

static json_t *object_of_route(const route_case *c) {
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return NULL;
    write_case_text(out, c, "conform", "");
    json_t *object = fclose(out) ? NULL : json_loadb(text, length, 0, NULL);
    free(text);
    return object;
}

/* A salt has done its work, and strides are of memory. */
static void drop_what_is_not_said(json_t *object) {
    json_t *ops = json_object_get(object, "ops");
    for (size_t i = json_array_size(ops); i-- > 0;) {
        const char *name = json_string_value(json_object_get(json_array_get(ops, i), "op"));
        if (name && (!strcmp(name, "salt") || !strcmp(name, "stride")))
            json_array_remove(ops, i);
    }
}

static shape_case *shape_case_new(const json_t *object, int64_t rank) {
    char *text = json_dumps(object, JSON_COMPACT);
    const size_t length = text ? strlen(text) : 0;
    shape_case *made = text ? malloc(sizeof *made + length + 1) : NULL;
    if (made) {
        made->rank = rank;
        made->drawn = false;
        made->length = length;
        memcpy(made->text, text, length + 1);
    }
    free(text);
    return made;
}

static shape_case *make_of_route(question_op op, const route_case *c, route_case *dressed, scratch *s) {
    route_case_copy(dressed, c);
    json_t *object = dress(op, dressed, s) ? object_of_route(dressed) : NULL;
    if (!object)
        return NULL;
    int64_t rank;
    json_t *operation = operation_of(op, dressed, s, &rank);
    drop_what_is_not_said(object);
    if (!json_object_get(object, "ops"))
        json_object_set_new(object, "ops", json_array());
    if (operation)
        json_array_append_new(json_object_get(object, "ops"), operation);
    shape_case *made =
        operation || op == ASK_FLAT || op == ASK_TWO_VIEW ? shape_case_new(object, rank) : NULL;
    json_decref(object);
    if (made) {
        made->drawn = true;
        route_case_copy(&made->from, c);
    }
    return made;
}

shape_case *shape_case_of_route(question_op op, const route_case *c) {
    scratch s = {0};
    route_case *dressed = op == ASK_OUTCOME ? NULL : malloc(sizeof *dressed);
    shape_case *made = dressed ? make_of_route(op, c, dressed, &s) : NULL;
    scratch_free(&s);
    free(dressed);
    return made;
}

shape_case *shape_case_of_text(const text_case *c, int64_t rank) {
    return shape_case_new(c->object, rank);
}

shape_case *shape_case_copy(const shape_case *c) {
    shape_case *copy = malloc(sizeof *copy + c->length + 1);
    if (!copy)
        return NULL;
    copy->rank = c->rank;
    copy->drawn = c->drawn;
    copy->length = c->length;
    if (c->drawn)
        route_case_copy(&copy->from, &c->from);
    memcpy(copy->text, c->text, c->length + 1);
    return copy;
}

/* What can be shrunk comes first. */
bool shape_case_is_simpler(const shape_case *a, const shape_case *b) {
    return a->drawn != b->drawn ? a->drawn : a->length < b->length;
}

/*------------------------------------------------------------------------------
 * Right answers
 *----------------------------------------------------------------------------*/

bool text_case_has_outcome(const text_case *c) {
    return c->kv_given || c->rank_cu.count || c->a2av || c->splits.count || c->unshard_given ||
           c->transport || c->flat_forms.count || c->flats.count;
}

static cpr_error outcome_of(text_case *c) {
    verdict v = {.outcome = LAW_PASSED};
    cpr_route *route = NULL;
    cpr_error error;
    if (c->pad)
        return text_pad_outcome(c, &v);
    const int64_t rank = c->every_rank ? 0 : c->rank;
    text_case_route(c, cpr_route_build, rank, text_case_from(c), text_case_to(c), &route, &error);
    cpr_route_free(route);
    return error.status == CPR_OK ? text_case_outcome(c, &v) : error;
}

void shape_answer_write(FILE *out, question_op op, text_case *c, int64_t rank) {
    cpr_error error = {CPR_OK, -1, 0, 0};
    if (op == ASK_OUTCOME)
        error = outcome_of(c);
    else if (route_shape_write(out, c, (route_shape)(op - ASK_FLAT), rank, &error))
        return;
    if (error.status == CPR_OK)
        fputs("{\"status\":\"ok\"}\n", out);
    else
        cpr_error_dump_json(rank, &error, write_to_file, out);
}

/*------------------------------------------------------------------------------
 * Questions
 *----------------------------------------------------------------------------*/

/* Options that nobody reads are no part of the question. */
static void drop_unread(json_t *ops, const hello *h) {
    for (size_t i = json_array_size(ops); i-- > 0;) {
        const char *name = json_string_value(json_object_get(json_array_get(ops, i), "op"));
        if ((!strcmp(name, "dtype") && !h->reads_dtype) || (!strcmp(name, "rows") && !h->reads_rows) ||
            (!strcmp(name, "device") && !h->reads_device) || (!strcmp(name, "tp") && !h->reads_tp))
            json_array_remove(ops, i);
    }
}

static void write_request(FILE *request, question_op op, const json_t *object, int64_t rank) {
    json_t *asked =
        json_pack("{s:s, s:O, s:O}", "op", question_op_names[op], "cu_seqlens",
                  json_object_get(object, "cu_seqlens"), "cp_size", json_object_get(object, "cp_size"));
    json_t *ops = json_object_get(object, "ops");
    if (op != ASK_OUTCOME)
        json_object_set_new(asked, "rank", json_integer(rank));
    json_object_set_new(asked, "ops", ops ? json_incref(ops) : json_array());
    json_dumpf(asked, request, JSON_COMPACT);
    fputc('\n', request);
    json_decref(asked);
}

static bool allows(const hello *h, question_op op, const text_case *c, const json_t *ops) {
    route_case *as_route = malloc(sizeof *as_route);
    bool allowed = as_route && text_case_to_route_case(c, c->every_rank ? 0 : c->rank, true, as_route) &&
                   hello_allows(h, op, as_route);
    free(as_route);
    if (op == ASK_PAD && !h->reads_dtype && offsets_smallest_dtype(&c->cu) != CPR_INT32)
        allowed = false;
    size_t i;
    json_t *one;
    json_array_foreach(ops, i, one) {
        if (op == ASK_OUTCOME && !hello_knows_operation(h, json_string_value(json_object_get(one, "op"))))
            allowed = false;
    }
    return allowed;
}

bool shape_case_ask(FILE *request, FILE *want, question_op op, const hello *h, const shape_case *c) {
    char mistake[256];
    text_case parsed;
    json_t *object = json_loadb(c->text, c->length, 0, NULL);
    drop_what_is_not_said(object);
    drop_unread(json_object_get(object, "ops"), h);
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    bool good = text && text_case_parse(&parsed, text, strlen(text), mistake, sizeof mistake);
    if (good) {
        good = allows(h, op, &parsed, json_object_get(object, "ops"));
        if (good) {
            write_request(request, op, object, c->rank);
            shape_answer_write(want, op, &parsed, c->rank);
        }
        text_case_free(&parsed);
    }
    free(text);
    json_decref(object);
    return good;
}

/*------------------------------------------------------------------------------
 * As a line of the corpus
 *----------------------------------------------------------------------------*/

static void set_outcome(json_t *object, const cpr_error *error) {
    char expect[80];
    snprintf(expect, sizeof expect, error->status == CPR_OK ? "ok" : "error:%s",
             cpr_status_name(error->status));
    json_object_set_new(object, "expect", json_string(expect));
    if (error->status == CPR_OK)
        json_object_del(object, "expected");
    else
        json_object_set_new(object, "expected",
                            json_pack("{s:{s:I, s:I, s:I}}", "error", "index", (json_int_t)error->index,
                                      "got", (json_int_t)error->got, "want", (json_int_t)error->wanted));
}

void shape_case_write(FILE *out, const shape_case *c, const char *note) {
    char mistake[256];
    text_case parsed;
    json_t *object = json_loadb(c->text, c->length, 0, NULL);
    if (object && c->drawn && text_case_parse(&parsed, c->text, c->length, mistake, sizeof mistake)) {
        const cpr_error error = outcome_of(&parsed);
        set_outcome(object, &error);
        json_object_set_new(object, "note", json_string(note));
        text_case_free(&parsed);
    }
    if (object)
        json_dumpf(object, out, JSON_COMPACT);
    fputc('\n', out);
    json_decref(object);
}
