/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases that could have been drawn shrink as bytes. The others, which people wrote, lose sequences, length, ranks and
 * options one by one until they can be drawn, or until nothing more can go.
 */
#include "conform_shrink.h"
#include "kit/shrink.h"
#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ATTEMPTS = 20000 };

typedef struct shrinking {
    talk *t;
    group *g;
    double deadline, timeout_s;
    bool failed_once;
    route_case c;        /* the attempt */
    cache_case *script;  /* or this, NULL: it is about no script */
    choice_log smallest; /* bytes of the smallest that differs */
} shrinking;

static bool is_over(const shrinking *s) {
    return talk_is_over(s->t) || seconds_now() > s->deadline;
}

/* In the way of the group; in any of its ways where it has several. */
static bool is_of_group(const group *g, const char *signature) {
    char name[FAMILY_LENGTH];
    group_family(g, name);
    return g->unstable ? family_has(name, signature) : !strcmp(signature, g->signature);
}

/* Does the attempt differ in the way of the group? If so it becomes the group's case. */
static bool attempt_differs(shrinking *s, const void *attempt) {
    question q;
    difference d;
    char *got;
    if (!question_make(&q, &s->t->h, s->g->op, attempt))
        return false;
    talk_ask_alone(s->t, &q, s->timeout_s, &d, &got);
    const bool same = is_of_group(s->g, d.signature);
    if (same)
        group_show(s->g, &q, attempt, got, d.details);
    free(got);
    question_free(&q);
    return same;
}

static bool differs(shrinking *s) {
    if (is_over(s))
        return false;
    if (!asks_with_text(s->g->op))
        return attempt_differs(s, s->script ? (void *)s->script : &s->c);
    shape_case *shape = shape_case_of_route(s->g->op, &s->c); /* NULL: there is no such question */
    const bool same = shape && attempt_differs(s, shape);
    free(shape);
    return same;
}

static const route_case *best(const shrinking *s) {
    return asks_with_text(s->g->op) ? &((const shape_case *)s->g->c)->from : s->g->c;
}

/*------------------------------------------------------------------------------
 * As bytes
 *----------------------------------------------------------------------------*/

static bool is_smaller(const choice_log *a, const choice_log *b) {
    return a->length < b->length || (a->length == b->length && memcmp(a->bytes, b->bytes, a->length) < 0);
}

static bool bytes_differ(void *context, const uint8_t *bytes, size_t length, choice_log *log) {
    shrinking *s = context;
    choices from = choices_from_bytes(bytes, length, log);
    if (s->script)
        cache_case_draw(&from, CACHE_ALPHABET_DRAWN, s->script);
    else
        route_case_draw(&from, &CASE_BOUNDS_DRAWN, &s->c);
    if (s->failed_once && !is_smaller(log, &s->smallest))
        return false;
    if (!differs(s))
        return false;
    s->failed_once = true;
    s->smallest = *log;
    return true;
}

static bool encode(const shrinking *s, uint8_t *bytes, size_t capacity, size_t *length) {
    if (s->script)
        return cache_case_encode(s->g->c, bytes, capacity, length);
    return route_case_encode(best(s), bytes, capacity, length);
}

static bool shrink_as_bytes(shrinking *s) {
    uint8_t bytes[CHOICE_LOG_BYTES];
    size_t length;
    if (!encode(s, bytes, sizeof bytes, &length))
        return false;
    shrink(bytes, &length, bytes_differ, s, MAX_ATTEMPTS);
    return true;
}

/*------------------------------------------------------------------------------
 * By structure: each step leaves s->c as it should be tried, from the group's case
 *----------------------------------------------------------------------------*/

static bool try_it(shrinking *s) {
    subject_expect(&s->c);
    return !route_case_equal(&s->c, best(s)) && differs(s);
}

static void from_group(shrinking *s) {
    route_case_copy(&s->c, best(s));
}

static bool drop_options(shrinking *s) {
    bool progress = false;
    for (int which = 0; which < 7; which++) {
        from_group(s);
        switch (which) {
        case 0:
            s->c.rows = CPR_ROWS_UNCHECKED;
            break;
        case 1:
            s->c.tp_size = 0;
            break;
        case 2:
            s->c.dtype = CPR_INT32;
            break;
        case 3:
            s->c.device = CPR_CPU;
            break;
        case 4:
            s->c.stride = 1;
            s->c.salt = 0;
            break;
        case 5:
            s->c.geometry.cp_rank = 0;
            break;
        default:
            s->c.source = CPR_ZIGZAG;
            s->c.target = CPR_CONTIGUOUS;
        }
        progress |= try_it(s);
    }
    return progress;
}

/* Boundaries may be anything. */
static int64_t minus(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* Takes `less` tokens from the sequence before an entry. */
static void shorten(route_case *c, int64_t entry, int64_t less) {
    for (int64_t i = entry; i < c->entries; i++)
        c->cu[i] = minus(c->cu[i], less);
}

static bool drop_sequences(shrinking *s) {
    bool progress = false;
    for (int64_t chunk = best(s)->entries / 2; chunk > 0; chunk /= 2) {
        for (int64_t entry = best(s)->entries - chunk; entry > 0 && !is_over(s); entry--) {
            from_group(s);
            if (entry + chunk > s->c.entries)
                continue;
            const int64_t tokens = minus(s->c.cu[entry + chunk - 1], s->c.cu[entry - 1]);
            memmove(&s->c.cu[entry], &s->c.cu[entry + chunk],
                    (size_t)(s->c.entries - entry - chunk) * sizeof *s->c.cu);
            s->c.entries -= chunk;
            shorten(&s->c, entry, tokens);
            progress |= try_it(s);
        }
    }
    return progress;
}

/* The length of a sequence as it might be: none, a remainder alone, half, a chunk less, a token less. */
static bool shorten_sequence(shrinking *s, int64_t entry) {
    const int64_t ranks = best(s)->geometry.cp_size, chunks = ranks > 0 ? 2 * ranks : 0;
    const int64_t length = minus(best(s)->cu[entry], best(s)->cu[entry - 1]);
    const int64_t half = chunks > 0 ? length / 2 / chunks * chunks : length / 2;
    const int64_t less[] = {length, chunks > 0 ? length - length % chunks : 0, half, chunks, 1};
    for (size_t i = 0; i < sizeof less / sizeof *less; i++) {
        from_group(s);
        if (less[i] <= 0 || less[i] > length)
            continue;
        shorten(&s->c, entry, less[i]);
        if (try_it(s))
            return true;
    }
    return false;
}

static bool shorten_sequences(shrinking *s) {
    bool progress = false;
    for (int64_t entry = best(s)->entries - 1; entry > 0 && !is_over(s); entry--)
        while (shorten_sequence(s, entry) && !is_over(s))
            progress = true;
    return progress;
}

/* Fewer ranks, and lengths that are to them as they were to more. */
static bool lower_ranks(shrinking *s) {
    const int64_t ranks = best(s)->geometry.cp_size;
    for (int64_t fewer = 1; fewer < ranks && fewer <= 16 && !is_over(s); fewer++) {
        from_group(s);
        s->c.geometry.cp_size = fewer;
        if (s->c.geometry.cp_rank >= fewer && s->c.geometry.cp_rank < ranks)
            s->c.geometry.cp_rank = fewer - 1;
        for (int64_t i = 0; i < s->c.entries; i++)
            s->c.cu[i] = s->c.cu[i] / ranks * fewer + s->c.cu[i] % ranks;
        if (try_it(s))
            return true;
    }
    return false;
}

static bool drop_operations(shrinking *s) {
    bool progress = false;
    for (int64_t chunk = s->script->op_count / 2 + 1; chunk > 0; chunk /= 2) {
        for (int64_t i = ((const cache_case *)s->g->c)->op_count - chunk; i >= 0 && !is_over(s); i--) {
            cache_case_copy(s->script, s->g->c);
            if (i + chunk > s->script->op_count)
                continue;
            memmove(&s->script->ops[i], &s->script->ops[i + chunk],
                    (size_t)(s->script->op_count - i - chunk) * sizeof *s->script->ops);
            s->script->op_count -= chunk;
            progress |= differs(s);
        }
    }
    return progress;
}

static void shrink_script(shrinking *s) {
    while (drop_operations(s) && !is_over(s)) {
    }
}

static void shrink_by_structure(shrinking *s) {
    static bool (*const steps[])(shrinking *) = {drop_sequences, lower_ranks, shorten_sequences,
                                                 drop_options};
    for (size_t i = 0; i < sizeof steps / sizeof *steps && !is_over(s);)
        i = steps[i](s) ? 0 : i + 1;
}

/* A text that somebody wrote is as small as it is. */
static bool can_shrink(const group *g) {
    return g->c && !talk_ended_by(g->signature) &&
           !(asks_with_text(g->op) && !((const shape_case *)g->c)->drawn);
}

void group_shrink(talk *t, group *g, double seconds) {
    shrinking *s = can_shrink(g) ? calloc(1, sizeof *s) : NULL;
    if (!s)
        return;
    s->t = t;
    s->g = g;
    s->deadline = seconds_now() + seconds;
    s->timeout_s = group_hangs(g) ? talk_short_patience(t) : t->p.timeout_s;
    if (g->op == ASK_CACHE)
        s->script = subject_copy(ASK_CACHE, g->c);
    else
        from_group(s);
    if (differs(s)) {
        s->timeout_s = talk_short_patience(t);
        if (!shrink_as_bytes(s)) {
            (s->script ? shrink_script : shrink_by_structure)(s);
            shrink_as_bytes(s);
        }
    } else if (!is_over(s)) {
        g->unstable = true;
    }
    free(s->script);
    free(s);
}
