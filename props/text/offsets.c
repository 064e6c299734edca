/* SPDX-License-Identifier: Apache-2.0 */
#include "offsets.h"

#include <stdlib.h>
#include <string.h>

void offsets_free(offsets *o) {
    int64_list_free(&o->list);
    free(o->narrow);
    *o = OFFSETS_NONE;
}

/*------------------------------------------------------------------------------
 * Reading text. Written out, because strtoll knows the locale and more shapes of numbers than JSON.
 *----------------------------------------------------------------------------*/

typedef struct cursor {
    const char *text;
    size_t length, position;
} cursor;

static char peek(const cursor *c) {
    return c->position < c->length ? c->text[c->position] : '\0';
}

static bool is_digit(char character) {
    return character >= '0' && character <= '9';
}

static bool take(cursor *c, char character) {
    if (c->position >= c->length || c->text[c->position] != character)
        return false;
    c->position++;
    return true;
}

static void skip_space(cursor *c) {
    while (c->position < c->length && strchr(" \t\r\n", c->text[c->position]) && c->text[c->position])
        c->position++;
}

typedef struct number {
    int64_t value;
    bool oversize, fraction;
} number;

static bool take_digits(cursor *c) {
    size_t start = c->position;
    while (is_digit(peek(c)))
        c->position++;
    return c->position > start;
}

/* Counts downwards, where int64 reaches one further than upwards. */
static bool take_integer(cursor *c, number *n) {
    bool negative = take(c, '-');
    size_t start = c->position;
    if (!take_digits(c))
        return false;
    int64_t value = 0;
    bool oversize = false;
    for (size_t i = start; i < c->position && !oversize; i++) {
        int digit = c->text[i] - '0';
        oversize = value < (INT64_MIN + digit) / 10;
        if (!oversize)
            value = value * 10 - digit;
    }
    oversize = oversize || (!negative && value == INT64_MIN);
    if (oversize)
        value = negative ? INT64_MIN : INT64_MAX;
    else if (!negative)
        value = -value;
    *n = (number){.value = value, .oversize = oversize};
    return true;
}

static bool take_number(cursor *c, number *n) {
    if (!take_integer(c, n))
        return false;
    if (take(c, '.')) {
        n->fraction = true;
        if (!take_digits(c))
            return false;
    }
    if (take(c, 'e') || take(c, 'E')) {
        n->fraction = true;
        if (!take(c, '+'))
            take(c, '-');
        if (!take_digits(c))
            return false;
    }
    char next = peek(c);
    return c->position == c->length || (next && strchr(", \t\r\n]", next));
}

static bool mistaken(offsets_mistake *mistake, const offsets *o, size_t position, const char *reason) {
    *mistake = (offsets_mistake){.entry = o->list.count, .position = position, .reason = reason};
    return false;
}

bool offsets_parse(offsets *o, const char *text, size_t length, offsets_mistake *mistake) {
    cursor c = {.text = text, .length = length};
    skip_space(&c);
    bool bracketed = take(&c, '[');
    skip_space(&c);
    bool comma = false;
    while (c.position < length && peek(&c) != ']') {
        size_t start = c.position;
        number n;
        if (!take_number(&c, &n))
            return mistaken(mistake, o, start, "not a number");
        if (n.oversize && !n.fraction && o->oversize < 0)
            o->oversize = o->list.count;
        o->fractions = o->fractions || n.fraction;
        if (!int64_list_append(&o->list, n.value))
            return mistaken(mistake, o, start, "out of memory");
        skip_space(&c);
        comma = take(&c, ',');
        skip_space(&c);
    }
    if (comma)
        return mistaken(mistake, o, c.position, "a number must follow a comma");
    if (bracketed != take(&c, ']'))
        return mistaken(mistake, o, c.position,
                        bracketed ? "the closing ']' is missing" : "no '[' opened this");
    skip_space(&c);
    if (c.position < length)
        return mistaken(mistake, o, c.position, "nothing may follow the closing ']'");
    return true;
}

/*------------------------------------------------------------------------------
 * Making requests
 *----------------------------------------------------------------------------*/

static int64_t first_beyond_int32(const offsets *o) {
    for (int64_t i = 0; i < o->list.count; i++)
        if (o->list.items[i] > INT32_MAX || o->list.items[i] < INT32_MIN)
            return i;
    return -1;
}

int64_t offsets_tokens(const offsets *o) {
    int64_t last = o->list.count ? o->list.items[o->list.count - 1] : 0;
    return last > 0 ? last : 0;
}

cpr_dtype offsets_smallest_dtype(const offsets *o) {
    return first_beyond_int32(o) < 0 ? CPR_INT32 : CPR_INT64;
}

static bool refuses(const cpr_route_request *request, cpr_error *error) {
    cpr_route *route = NULL;
    if (cpr_route_build(request, NULL, &route, error) != CPR_OK)
        return error->status != CPR_NO_MEMORY;
    cpr_route_free(route);
    return false;
}

/* Which rules come before the size of a number is the engine's knowledge: the same request over 64-bit numbers
 * shows it. What 64 bits cannot hold has no difference to the entry before it, so then those before it, and the
 * rules that need no entry, are all that can be judged. */
static bool refused_before_overflow(const offsets *o, const cpr_route_request *request, cpr_error *error) {
    static const int64_t no_tokens[] = {0};
    const cpr_device device = request->cu_seqlens.device;
    cpr_route_request probe = *request;
    if (o->oversize < 0) {
        probe.cu_seqlens = cpr_cu_seqlens_int64(o->list.items, o->list.count);
        probe.cu_seqlens.device = device;
        return refuses(&probe, error);
    }
    probe.rows = CPR_ROWS_UNCHECKED;
    probe.tp_size = 0;
    probe.cu_seqlens = cpr_cu_seqlens_int64(no_tokens, 1);
    probe.cu_seqlens.device = device;
    if (refuses(&probe, error))
        return true;
    probe.geometry = (cpr_geometry){.cp_size = 1};
    probe.cu_seqlens = cpr_cu_seqlens_int64(o->list.items, o->oversize);
    return o->oversize > 0 && refuses(&probe, error);
}

static bool narrow(offsets *o) {
    int32_t *items = realloc(o->narrow, (size_t)(o->list.count ? o->list.count : 1) * sizeof *items);
    if (!items)
        return false;
    for (int64_t i = 0; i < o->list.count; i++)
        items[i] = (int32_t)o->list.items[i];
    o->narrow = items;
    return true;
}

bool offsets_hand_over(offsets *o, cpr_dtype dtype, cpr_route_request *request, cpr_error *error) {
    static const int64_t nothing[] = {0};
    const cpr_device device = request->cu_seqlens.device;
    if (o->fractions)
        dtype = CPR_FLOAT64;
    /* What int64 cannot hold is kept as its limits, which int32 cannot hold either. */
    int64_t misfit = -1;
    if (dtype == CPR_INT32)
        misfit = first_beyond_int32(o);
    else if (dtype == CPR_INT64)
        misfit = o->oversize;
    if (misfit >= 0) {
        if (!refused_before_overflow(o, request, error)) {
            bool above = o->list.items[misfit] > 0;
            int64_t limit =
                dtype == CPR_INT32 ? (above ? INT32_MAX : INT32_MIN) : (above ? INT64_MAX : INT64_MIN);
            *error = (cpr_error){CPR_OVERFLOW, misfit, o->list.items[misfit], limit};
        }
        return false;
    }
    request->cu_seqlens = cpr_cu_seqlens_int64(o->list.items ? o->list.items : nothing, o->list.count);
    request->cu_seqlens.dtype = dtype;
    request->cu_seqlens.device = device;
    if (dtype == CPR_INT32) {
        if (!narrow(o)) {
            *error = (cpr_error){CPR_NO_MEMORY, -1, 0, 0};
            return false;
        }
        request->cu_seqlens.data = o->narrow;
    }
    return true;
}
