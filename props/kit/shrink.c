/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate.h"

#include <stdlib.h>
#include <string.h>

/*
 * What is compared and kept are canonical bytes: those that the decoder in fact chose. Every pass proposes bytes that
 * are shortlex smaller than the best so far, so each success makes progress and repeating passes ends.
 */
typedef struct search {
    uint8_t *best;
    size_t length;
    still_fails_fn still_fails;
    void *context;
    size_t max_attempts;
    shrink_report report;
    choice_log log;   /* of the last attempt */
    choice_log shape; /* of the best: where its records lie */
    uint8_t trial[CHOICE_LOG_BYTES];
} search;

/*==============================================================================
 * MARK: - Attempts
 *============================================================================*/

static bool smaller(const uint8_t *a, size_t a_length, const uint8_t *b, size_t b_length) {
    return a_length < b_length || (a_length == b_length && memcmp(a, b, a_length) < 0);
}

static bool exhausted(const search *s) {
    return s->report.attempts >= s->max_attempts;
}

static bool fails(search *s, const uint8_t *bytes, size_t length) {
    s->log.length = s->log.record_count = 0;
    s->log.full = false;
    s->report.attempts++;
    return s->still_fails(s->context, bytes, length, &s->log);
}

static void keep(search *s, const uint8_t *bytes, size_t length) {
    memmove(s->best, bytes, length);
    s->length = length;
    memcpy(&s->shape, &s->log, sizeof s->shape);
}

/* The trial bytes, if they fail and are smaller when written canonically, become the best. */
static bool attempt(search *s, size_t length) {
    if (exhausted(s) || !smaller(s->trial, length, s->best, s->length) || !fails(s, s->trial, length))
        return false;
    const bool canonical = !s->log.full && s->log.length > 0;
    const uint8_t *bytes = canonical ? s->log.bytes : s->trial;
    const size_t used = canonical ? s->log.length : length;
    if (!smaller(bytes, used, s->best, s->length))
        return false;
    keep(s, bytes, used);
    s->report.successes++;
    return true;
}

static void try_from_best(search *s) {
    memcpy(s->trial, s->best, s->length);
}

static bool attempt_without(search *s, size_t offset, size_t length) {
    memcpy(s->trial, s->best, offset);
    memcpy(s->trial + offset, s->best + offset + length, s->length - offset - length);
    return attempt(s, s->length - length);
}

static bool attempt_byte(search *s, size_t i, uint8_t value) {
    try_from_best(s);
    s->trial[i] = value;
    return attempt(s, s->length);
}

/* The first place is the more significant one, so lowering it pays for raising the other. */
static bool attempt_two(search *s, size_t i, unsigned value_i, size_t j, unsigned value_j) {
    try_from_best(s);
    s->trial[i] = (uint8_t)value_i;
    s->trial[j] = (uint8_t)value_j;
    return value_j <= UINT8_MAX && attempt(s, s->length);
}

/*==============================================================================
 * MARK: - Passes: true if something became smaller
 *============================================================================*/

static size_t end_of_record(const search *s, size_t record) {
    return s->shape.records[record].offset + s->shape.records[record].length;
}

static bool delete_records(search *s) {
    bool progress = false;
    for (size_t chunk = 8; chunk > 0; chunk /= 2) {
        for (size_t end = s->shape.record_count; end >= chunk && !exhausted(s); end--) {
            const size_t from = s->shape.records[end - chunk].offset;
            if (attempt_without(s, from, end_of_record(s, end - 1) - from)) {
                progress = true;
                end = s->shape.record_count < end ? s->shape.record_count + 1 : end;
            }
        }
    }
    return progress;
}

static bool delete_bytes(search *s) {
    bool progress = false;
    for (size_t half = s->length / 2; half > 0 && !exhausted(s); half /= 2) {
        if (half < s->length)
            progress |= attempt_without(s, s->length - half, half);
    }
    for (size_t i = s->length; i-- > 0 && !exhausted(s);) {
        if (i < s->length)
            progress |= attempt_without(s, i, 1);
    }
    return progress;
}

/* As long as a record, and across two of them: the first one may be written otherwise than those that follow, so that it cannot
 * be dropped without becoming one of them. */
static bool delete_spans(search *s) {
    bool progress = false;
    for (size_t record = 0; record < s->shape.record_count; record++) {
        const size_t length = s->shape.records[record].length;
        const bool is_new = record == 0 || length != s->shape.records[record - 1].length;
        for (size_t i = 0; is_new && i + length < s->length && !exhausted(s); i++)
            progress |= attempt_without(s, i, length);
    }
    return progress;
}

static bool zero_blocks(search *s) {
    bool progress = false;
    for (size_t block = s->length; block > 1 && !exhausted(s); block /= 2) {
        for (size_t i = 0; i + block <= s->length && !exhausted(s); i += block) {
            try_from_best(s);
            memset(s->trial + i, 0, block);
            progress |= attempt(s, s->length);
        }
    }
    return progress;
}

static bool lower_byte(search *s, size_t i) {
    enum { SMALL = 16 }; /* below, every value is tried: what fails need not be an interval */
    const unsigned value = s->best[i];
    for (unsigned lower = 0; lower < value && lower < SMALL; lower++) {
        if (attempt_byte(s, i, (uint8_t)lower))
            return true;
    }
    bool progress = false;
    unsigned low = SMALL;
    while (i < s->length && low < s->best[i] && !exhausted(s)) {
        const unsigned middle = low + (s->best[i] - low) / 2;
        if (attempt_byte(s, i, (uint8_t)middle))
            progress = true;
        else
            low = middle + 1;
    }
    return progress;
}

static bool lower_bytes(search *s) {
    bool progress = false;
    for (size_t i = 0; i < s->length && !exhausted(s); i++)
        progress |= lower_byte(s, i);
    return progress;
}

static bool lower_pair(search *s, size_t i, size_t j) {
    const unsigned both = s->best[i] < s->best[j] ? s->best[i] : s->best[j];
    for (unsigned less = both; less > 0; less /= 2) {
        if (attempt_two(s, i, s->best[i] - less, j, s->best[j] - less))
            return true;
    }
    return false;
}

static bool lower_pairs(search *s) {
    bool progress = false;
    for (size_t i = 0; i < s->length; i++) {
        for (size_t j = i + 1; j < s->length && s->best[i] > 0 && !exhausted(s); j++) {
            if (s->best[j] > 0)
                progress |= lower_pair(s, i, j);
        }
    }
    return progress;
}

static bool swap_records(search *s, size_t a, size_t b) {
    const size_t at_a = s->shape.records[a].offset, at_b = s->shape.records[b].offset;
    const size_t length = s->shape.records[a].length;
    if (s->shape.records[b].length != length || memcmp(s->best + at_b, s->best + at_a, length) >= 0)
        return false;
    try_from_best(s);
    memcpy(s->trial + at_a, s->best + at_b, length);
    memcpy(s->trial + at_b, s->best + at_a, length);
    return attempt(s, s->length);
}

static bool sort_records(search *s) {
    bool progress = false;
    for (size_t a = 0; a < s->shape.record_count; a++) {
        for (size_t b = a + 1; b < s->shape.record_count && !exhausted(s); b++)
            progress |= swap_records(s, a, b);
    }
    return progress;
}

/* Fields that repeat outside records, such as two mistakes of one kind. */
static bool swap_blocks(search *s) {
    enum { WIDEST = 4 };
    bool progress = false;
    for (size_t width = 1; width <= WIDEST; width++) {
        for (size_t i = 0; i + 2 * width <= s->length && !exhausted(s); i++) {
            try_from_best(s);
            memcpy(s->trial + i, s->best + i + width, width);
            memcpy(s->trial + i + width, s->best + i, width);
            progress |= attempt(s, s->length);
        }
    }
    return progress;
}

enum { MOST_RAISED = 4 };

static bool trade(search *s, size_t i, size_t j) {
    const unsigned mine = s->best[i], yours = s->best[j];
    if (attempt_two(s, i, 0, j, yours + mine) || attempt_two(s, i, mine - 1, j, yours + 1) ||
        attempt_two(s, i, mine - 1, j, UINT8_MAX))
        return true;
    for (unsigned more = 1; more <= MOST_RAISED; more++) {
        if (attempt_two(s, i, 0, j, yours + more) ||
            (mine > 1 && more > 1 && attempt_two(s, i, mine - 1, j, yours + more)))
            return true;
    }
    return false;
}

static bool trade_bytes(search *s) {
    bool progress = false;
    for (size_t i = 0; i < s->length; i++) {
        for (size_t j = i + 1; j < s->length && s->best[i] > 0 && !exhausted(s); j++)
            progress |= trade(s, i, j);
    }
    return progress;
}

/* One byte lower, and the same field of every record higher. */
static bool lower_and_raise_field(search *s, size_t i, size_t field, unsigned more) {
    try_from_best(s);
    s->trial[i]--;
    for (size_t record = 0; record < s->shape.record_count; record++) {
        uint8_t *raised = &s->trial[s->shape.records[record].offset + field];
        if (field >= s->shape.records[record].length || *raised > UINT8_MAX - more)
            return false;
        *raised = (uint8_t)(*raised + more);
    }
    return attempt(s, s->length);
}

static bool trade_with_fields(search *s) {
    bool progress = false;
    for (size_t i = 0; s->shape.record_count > 0 && i < s->shape.records[0].offset; i++) {
        for (size_t field = 0; s->shape.record_count > 0 && field < s->shape.records[0].length; field++) {
            for (unsigned more = 1; more <= MOST_RAISED && s->best[i] > 0 && !exhausted(s); more++)
                progress |= lower_and_raise_field(s, i, field, more);
        }
    }
    return progress;
}

/* One byte lower, and two behind it raised a little: the last means out of a valley, for short cases only. */
static bool trade_for_two(search *s, size_t i, size_t j, size_t k) {
    enum { LITTLE = 2 };
    for (unsigned choice = 0; choice < LITTLE * LITTLE; choice++) {
        try_from_best(s);
        s->trial[i]--;
        s->trial[j] = (uint8_t)(s->trial[j] + 1 + choice % LITTLE);
        s->trial[k] = (uint8_t)(s->trial[k] + 1 + choice / LITTLE);
        if (attempt(s, s->length))
            return true;
    }
    return false;
}

static bool trade_triples(search *s) {
    enum { LONGEST = 32 };
    for (size_t i = 0; i < s->length && s->length <= LONGEST; i++) {
        for (size_t j = i + 1; j < s->length && s->best[i] > 0; j++) {
            for (size_t k = j + 1; k < s->length && !exhausted(s); k++) {
                if (trade_for_two(s, i, j, k))
                    return true;
            }
        }
    }
    return false;
}

static bool delete_record_and_raise(search *s, size_t record, size_t j) {
    const size_t from = s->shape.records[record].offset, length = s->shape.records[record].length;
    const size_t rest = s->length - length;
    memcpy(s->trial, s->best, from);
    memcpy(s->trial + from, s->best + from + length, rest - from);
    for (unsigned more = 1; more <= MOST_RAISED && s->trial[j] < UINT8_MAX; more++) {
        s->trial[j]++;
        if (attempt(s, rest))
            return true;
    }
    return false;
}

static bool merge_records(search *s) {
    bool progress = false;
    for (size_t record = 0; record < s->shape.record_count; record++) {
        for (size_t j = 0; record < s->shape.record_count && j + s->shape.records[record].length < s->length;
             j++) {
            if (exhausted(s))
                return progress;
            progress |= delete_record_and_raise(s, record, j);
        }
    }
    return progress;
}

/*==============================================================================
 * MARK: - Shrinking
 *============================================================================*/

/* Cheap ones first; each success begins again. */
static bool (*const passes[])(search *s) = {delete_records, delete_bytes,  zero_blocks,       lower_bytes,
                                            sort_records,   swap_blocks,   delete_spans,      lower_pairs,
                                            trade_bytes,    merge_records, trade_with_fields, trade_triples};

static bool begin(search *s) {
    if (!fails(s, s->best, s->length))
        return false;
    const bool canonical = !s->log.full && s->log.length > 0;
    if (canonical)
        keep(s, s->log.bytes, s->log.length);
    else
        keep(s, s->best, s->length);
    s->report.drawn = s->length;
    return s->length <= sizeof s->trial;
}

static shrink_report run_passes(search *s) {
    const size_t count = sizeof passes / sizeof *passes;
    for (size_t i = 0; i < count && !exhausted(s);)
        i = passes[i](s) ? 0 : i + 1;
    return s->report;
}

shrink_report shrink(uint8_t *bytes, size_t *length, still_fails_fn still_fails, void *context,
                     size_t max_attempts) {
    search *s = calloc(1, sizeof *s);
    if (!s)
        return (shrink_report){0};
    s->best = bytes;
    s->length = *length;
    s->still_fails = still_fails;
    s->context = context;
    s->max_attempts = max_attempts;
    const shrink_report report = begin(s) ? run_passes(s) : s->report;
    *length = s->length;
    free(s);
    return report;
}

typedef struct law_failure {
    const law *l;
    void *subject;
    const char *reason; /* of the first attempt */
    workshop *workshop; /* NULL: attempts run in this process */
    verdict v;
    choice_log smallest; /* what failed so far */
} law_failure;

/* What would not be an improvement is not judged: judging may take as long as a hang. */
static bool law_still_fails(void *context, const uint8_t *bytes, size_t length, choice_log *log) {
    law_failure *f = context;
    const verdict *v = &f->v;
    choices from = choices_from_bytes(bytes, length, log);
    f->l->family->draw(&from, f->subject);
    if (f->reason && !log->full && !smaller(log->bytes, log->length, f->smallest.bytes, f->smallest.length))
        return false;
    if (f->workshop)
        v = workshop_judge(f->workshop);
    else
        law_judge(f->l, f->subject, &f->v);
    if (v->outcome != LAW_FAILED || (f->reason && strcmp(v->reason, f->reason) != 0))
        return false;
    f->reason = v->reason;
    memcpy(&f->smallest, log, sizeof *log);
    return true;
}

static shrink_report shrink_law_here(const law *l, uint8_t *bytes, size_t *length, size_t max_attempts) {
    shrink_report report = {0};
    law_failure *f = calloc(1, sizeof *f);
    void *subject = calloc(1, l->family->size);
    if (f && subject) {
        f->l = l;
        f->subject = subject;
        report = shrink(bytes, length, law_still_fails, f, max_attempts);
    }
    free(subject);
    free(f);
    return report;
}

static shrink_report shrink_law_apart(const law *l, uint8_t *bytes, size_t *length, unsigned timeout_s,
                                      size_t max_attempts) {
    shrink_report report = {0};
    law_failure *f = calloc(1, sizeof *f);
    workshop w;
    if (f && workshop_open(&w, l, timeout_s)) {
        f->l = l;
        f->subject = w.subject;
        f->workshop = &w;
        report = shrink(bytes, length, law_still_fails, f, max_attempts);
        workshop_close(&w);
    }
    free(f);
    return report;
}

shrink_report shrink_law(const law *l, uint8_t *bytes, size_t *length, bool isolate, unsigned timeout_s,
                         size_t max_attempts) {
    return isolate ? shrink_law_apart(l, bytes, length, timeout_s, max_attempts)
                   : shrink_law_here(l, bytes, length, max_attempts);
}
