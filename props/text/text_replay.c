/* SPDX-License-Identifier: Apache-2.0 */
#include "text_replay.h"
#include "laws/cache_walk.h"
#include "text_answers.h"
#include "text_outcome.h"
#include "text_shapes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name;
    text_builder_fn *build;
} oracles[] = {{"per-token", cpr_route_build_per_token}, {"definition", cpr_route_build_definition}};

static void describe(const cpr_error *error, char *text, size_t size) {
    snprintf(text, size, "%s [%" PRId64 "] got %" PRId64 " want %" PRId64, cpr_status_name(error->status),
             error->index, error->got, error->wanted);
}

static void fail_errors(verdict *v, const char *reason, const char *who, const cpr_error *got,
                        const cpr_error *want) {
    char got_text[128], want_text[128];
    describe(got, got_text, sizeof got_text);
    describe(want, want_text, sizeof want_text);
    law_fail(v, reason, "%s: %s; against: %s", who, got_text, want_text);
}

/*------------------------------------------------------------------------------
 * Three builders, every rank: one answer
 *----------------------------------------------------------------------------*/

static bool asked_of(const cpr_error *first, const text_case *c) {
    return first->status != CPR_OK || text_case_is_enumerable(c);
}

static void judge_oracles(text_case *c, int64_t rank, const cpr_route *route, const cpr_error *answer,
                          verdict *v) {
    for (size_t i = 0; i < sizeof oracles / sizeof *oracles && asked_of(answer, c); i++) {
        cpr_route *other = NULL;
        cpr_error error;
        text_case_route(c, oracles[i].build, rank, text_case_from(c), text_case_to(c), &other, &error);
        if (!errors_equal(answer, &error))
            fail_errors(v, "a builder gives another error than the interval builder", oracles[i].name, &error,
                        answer);
        else if (route && !cpr_route_equal(route, other))
            law_fail(v, "a builder gives another route than the interval builder", "%s, rank %" PRId64,
                     oracles[i].name, rank);
        cpr_route_free(other);
    }
}

static void judge_route(const cpr_route *route, verdict *v) {
    const char *why = "";
    if (!cpr_route_validate(route, NULL, &why))
        law_fail(v, "the route does not validate", "rank %" PRId64 ": %s", route->geometry.cp_rank, why);
}

/* What all builders and ranks say about the route; where they differ, the verdict fails. */
static cpr_error judge_builders(text_case *c, verdict *v) {
    judged_ranks ranks = text_case_ranks(c);
    cpr_error first = {CPR_OK, -1, 0, 0};
    for (size_t i = 0; i < ranks.count && v->outcome != LAW_FAILED; i++) {
        cpr_route *route = NULL;
        cpr_error error;
        text_case_route(c, cpr_route_build, ranks.items[i], text_case_from(c), text_case_to(c), &route,
                        &error);
        if (i == 0)
            first = error;
        else if (!errors_equal(&first, &error))
            fail_errors(v, "ranks give different errors", "a later rank", &error, &first);
        judge_oracles(c, ranks.items[i], route, &error, v);
        if (route)
            judge_route(route, v);
        cpr_route_free(route);
    }
    return first;
}

static void judge_expectation(const text_case *c, const cpr_error *got, verdict *v) {
    cpr_error want;
    if (got->status != c->expect)
        fail_errors(v, "not the outcome that is expected", "got", got, &(cpr_error){c->expect, -1, 0, 0});
    else if (text_case_error_details(c, &want) && !errors_equal(got, &want))
        fail_errors(v, "the error has other details", "got", got, &want);
}

/*------------------------------------------------------------------------------
 * What a case says beside its route
 *----------------------------------------------------------------------------*/

static void judge_real(const text_case *c, verdict *v) {
    const cpr_padding padding = text_case_padding(c);
    cpr_error error;
    if (!c->real_given)
        return;
    if (c->real.list.count == 0)
        law_fail(v, "the real offsets do not fit the padded ones", "there are none");
    else if (cpr_padding_check(&padding, &error) != CPR_OK) {
        char text[128];
        describe(&error, text, sizeof text);
        law_fail(v, "the real offsets do not fit the padded ones", "%s", text);
    }
}

static bool cuts_every_sequence(cpr_layout layout) {
    return layout == CPR_ZIGZAG || layout == CPR_PER_SEQUENCE_CONTIGUOUS || layout == CPR_HEADS_THEN_TAILS;
}

/* Where every rank has its part of every sequence, its local offsets are the boundaries divided by P. */
static void judge_local_offsets(text_case *c, verdict *v) {
    judged_ranks ranks = text_case_ranks(c);
    if (!c->real_given || !cuts_every_sequence(text_case_from(c)) || !text_case_is_enumerable(c))
        return;
    for (size_t i = 0; i < ranks.count; i++) {
        int64_list own = {0};
        cpr_error error = {CPR_OK, -1, 0, 0};
        if (!text_shape_answer(c, SHAPE_LOCAL_OFFSETS, ranks.items[i], &own, &error))
            law_fail(v, "there are no local offsets", "%s", cpr_status_name(error.status));
        for (int64_t k = 0; k < own.count; k++)
            if (own.items[k] != c->cu.list.items[k] / c->cp_size)
                law_fail(v, "local offsets are not the boundaries divided by P",
                         "rank %" PRId64 " boundary %" PRId64 ": got %" PRId64, ranks.items[i], k,
                         own.items[k]);
        int64_list_free(&own);
    }
}

/* How often each token is the successor of a row of some rank. False if it cannot be asked. */
static bool count_successors(text_case *c, unsigned char *named, verdict *v) {
    bool good = true;
    for (int64_t rank = 0; rank < c->cp_size && good; rank++) {
        int64_list own = {0};
        cpr_error error = {CPR_OK, -1, 0, 0};
        good = text_shape_answer(c, SHAPE_SUCCESSORS, rank, &own, &error) ||
               law_fail(v, "there are no successors", "%s", cpr_status_name(error.status));
        for (int64_t i = 0; i < own.count && good; i++)
            if (own.items[i] >= 0)
                named[own.items[i]]++;
        int64_list_free(&own);
    }
    return good;
}

/* Every real token but the first of a sequence is the successor of one row of one rank. */
static void judge_successors(text_case *c, verdict *v) {
    const cpr_padding padding = text_case_padding(c);
    const int64_t tokens = text_case_tokens(c), *cu = c->cu.list.items;
    if (!c->successor || !text_case_is_enumerable(c) || v->outcome == LAW_FAILED)
        return;
    unsigned char *named = calloc((size_t)tokens + 1, 1);
    int64_t *real_of = malloc(((size_t)tokens + 1) * sizeof *real_of);
    if (!named || !real_of || cpr_padding_map(&padding, real_of, tokens, NULL, 0, NULL) != CPR_OK)
        law_fail(v, "out of memory", "%" PRId64 " tokens", tokens);
    else if (count_successors(c, named, v))
        for (int64_t t = 0, sequence = 0; t < tokens; t++) {
            while (cu[sequence + 1] <= t)
                sequence++;
            const int wanted = real_of[t] >= 0 && t != cu[sequence];
            if (named[t] != wanted)
                law_fail(v, "a row has no successor, or several", "token %" PRId64 " is that of %d rows", t,
                         named[t]);
        }
    free(named);
    free(real_of);
}

/*------------------------------------------------------------------------------
 * Laws
 *----------------------------------------------------------------------------*/

enum { RANKS_FOR_LAWS = 3 };

/* First, middle and last are enough: laws look at other ranks by themselves. */
static size_t ranks_for_laws(const text_case *c, int64_t ranks[RANKS_FOR_LAWS]) {
    judged_ranks all = text_case_ranks(c);
    const size_t picks[RANKS_FOR_LAWS] = {0, all.count / 2, all.count - 1};
    size_t count = 0;
    for (size_t i = 0; i < RANKS_FOR_LAWS; i++)
        if (i == 0 || picks[i] != picks[i - 1])
            ranks[count++] = all.items[picks[i]];
    return count;
}

static void judge_laws_of(const family *kind, const law *only, const void *subject, verdict *v,
                          const law **broken) {
    for (size_t i = 0; i < law_count && !*broken; i++) {
        verdict opinion = {.outcome = LAW_PASSED};
        if (laws[i].family != kind || (only && only != &laws[i]))
            continue;
        laws[i].judge(subject, &opinion);
        if (opinion.outcome == LAW_FAILED) {
            *v = opinion;
            *broken = &laws[i];
        }
    }
}

/* Numbers that do not fit the type that the case gives them have no place in the arrays that laws hand
 * over. */
static bool fits_its_dtype(const text_case *c) {
    return !(c->dtype_given && c->dtype == CPR_INT32) || offsets_smallest_dtype(&c->cu) == CPR_INT32;
}

static void judge_laws(text_case *c, const law *only, bool legal, verdict *v, const law **broken,
                       route_case *subject) {
    int64_t ranks[RANKS_FOR_LAWS];
    size_t count = ranks_for_laws(c, ranks);
    for (size_t i = 0; i < count && !*broken; i++)
        if (fits_its_dtype(c) && text_case_to_route_case(c, ranks[i], legal, subject))
            judge_laws_of(&route_family, only, subject, v, broken);
}

typedef struct cache_ending {
    cpr_error error;
    int64_t skipped; /* a step on what is not there, of which the case says nothing; 0: none */
} cache_ending;

static void note_ending(void *context, const cache_observation *seen) {
    cache_ending *ending = context;
    if (seen->op->want != CACHE_WANT_CASE)
        return;
    if (ending->error.status == CPR_OK)
        ending->error = seen->error;
    if (ending->skipped == 0 && seen->skipped)
        ending->skipped = seen->step + 1;
}

/* The first error of a step of which the case says nothing. */
static cpr_error cache_outcome(const cache_case *script, verdict *v) {
    cache_ending ending = {.error = {CPR_OK, -1, 0, 0}};
    verdict unwatched = {.outcome = LAW_PASSED};
    cache_walk(script,
               &(cache_walk_options){.engine = &the_cache_engine, .observe = note_ending, .context = &ending},
               &unwatched);
    if (ending.skipped > 0)
        law_fail(v, "a step is about a tensor or a graph that is not there", "step %" PRId64, ending.skipped);
    return ending.error;
}

/* What the case wants of each step, then every law about caches. */
static void judge_cache(const cache_case *script, const law *only, verdict *v, const law **broken) {
    cache_walk(script, &(cache_walk_options){.engine = &the_cache_engine, .watch = WATCH_ALL}, v);
    if (v->outcome == LAW_PASSED)
        judge_laws_of(&cache_family, only, script, v, broken);
}

const void *text_case_subject(const text_case *c, const law *broken, const route_case *subject) {
    if (broken->family == &delta_family)
        return c->delta;
    return broken->family == &cache_family ? (const void *)c->cache : subject;
}

static bool is_legal(text_case *c, int64_t rank) {
    cpr_route *route = NULL;
    cpr_error error;
    bool legal = text_case_route(c, cpr_route_build, rank, text_case_from(c), text_case_to(c), &route,
                                 &error) == CPR_OK;
    cpr_route_free(route);
    return legal;
}

bool text_case_for_laws(text_case *c, route_case *to) {
    int64_t rank = c->every_rank ? 0 : c->rank;
    return !c->pad && fits_its_dtype(c) && text_case_to_route_case(c, rank, is_legal(c, rank), to);
}

/* Why there is nothing in the case for laws of that family; NULL: there is. */
static const char *not_about(const text_case *c, const family *kind) {
    if (kind == &tensor_family)
        return c->flats.count + c->flat_forms.count > 0 ? NULL : "the law is about flat tensors";
    if (kind == &cache_family)
        return c->cache ? NULL : "the law is about caches";
    if (kind == &delta_family)
        return c->delta ? NULL : "the law is about the layer that consumes routes";
    return c->cache ? "the law is not about caches" : NULL;
}

void text_case_judge(text_case *c, const law *only, verdict *v, const law **broken, route_case *subject) {
    *v = (verdict){.outcome = LAW_PASSED};
    *broken = NULL;
    const char *reason = only ? not_about(c, only->family) : NULL;
    if (reason) {
        law_skip(v, reason);
        return;
    }
    cpr_error ending = c->pad ? text_pad_outcome(c, v) : judge_builders(c, v);
    bool legal = ending.status == CPR_OK;
    if (legal && v->outcome == LAW_PASSED && !c->pad) {
        ending = text_case_outcome(c, v);
        judge_real(c, v);
        judge_local_offsets(c, v);
        judge_successors(c, v);
    }
    if (ending.status == CPR_OK && v->outcome == LAW_PASSED && c->cache)
        ending = cache_outcome(c->cache, v);
    if (v->outcome == LAW_PASSED)
        judge_expectation(c, &ending, v);
    if (v->outcome == LAW_PASSED)
        text_case_judge_answers(c, v);
    if (v->outcome == LAW_PASSED && c->cache)
        judge_cache(c->cache, only, v, broken);
    if (v->outcome == LAW_PASSED && c->delta)
        judge_laws_of(&delta_family, only, c->delta, v, broken);
    if (v->outcome == LAW_PASSED && subject && !c->pad)
        judge_laws(c, only, legal, v, broken, subject);
}
