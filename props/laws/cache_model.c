/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_model.h"
#include <stdlib.h>
#include <string.h>

void model_begin(model *m, int64_t max_entries) {
    m->entries = NULL;
    m->count = m->room = 0;
    m->clock = 0;
    m->max_entries = max_entries;
    m->hits = m->misses = m->builds = m->bypasses = m->checks = m->evictions = 0;
}

void model_end(model *m) {
    free(m->entries);
}

/*------------------------------------------------------------------------------
 * What is compared
 *----------------------------------------------------------------------------*/

static model_contents contents_of(const world *w, const world_tensor *t) {
    int64_t entries[CACHE_ENTRIES_MAX];
    model_contents made = {0};
    world_entries(w, t, entries);
    for (int64_t i = 0; i < t->count; i++)
        if (i == 0 || entries[i] != entries[i - 1])
            made.entries[made.count++] = entries[i];
    return made;
}

static bool contents_equal(const model_contents *a, const model_contents *b) {
    return a->count == b->count && memcmp(a->entries, b->entries, (size_t)a->count * sizeof *a->entries) == 0;
}

static model_state state_of(const world *w, const world_tensor *t) {
    if (!t)
        return (model_state){.present = false};
    return (model_state){
        .present = true,
        .identity = t->identity,
        .storage = w->storages[t->storage].address,
        .version = world_version(w, t),
        .untracked = world_untracked(w, t),
        .offset = t->offset,
        .stride = t->stride,
        .count = t->count,
        .device_index = t->device_index,
        .device = t->device,
        .dtype = t->dtype,
    };
}

static bool same_object(const model_state *a, const model_state *b) {
    return a->present == b->present && (!a->present || a->identity == b->identity);
}

static bool same_state(const model_state *a, const model_state *b) {
    return same_object(a, b) && (!a->present || (a->storage == b->storage && a->version == b->version &&
                                                 a->offset == b->offset && a->stride == b->stride &&
                                                 a->count == b->count && a->device_index == b->device_index &&
                                                 a->device == b->device && a->dtype == b->dtype));
}

static bool same_question(const model_question *a, const model_question *b) {
    return a->verdict == b->verdict && a->guard == b->guard && a->geometry.cp_size == b->geometry.cp_size &&
           a->geometry.cp_rank == b->geometry.cp_rank && a->source == b->source && a->target == b->target &&
           a->tp_size == b->tp_size;
}

static bool same_place(const model_entry *a, const model_entry *b) {
    if (a->question.guard != CPR_GUARD_VERSION || !same_question(&a->question, &b->question))
        return false;
    for (int i = 0; i < a->state_count; i++)
        if (!same_object(&a->states[i], &b->states[i]))
            return false;
    return true;
}

static bool right_for(const model_entry *kept, const model_entry *asked) {
    if (kept->superseded || !same_question(&kept->question, &asked->question))
        return false;
    if (kept->question.guard == CPR_GUARD_CONTENT)
        return contents_equal(&kept->contents, &asked->contents);
    for (int i = 0; i < kept->state_count; i++)
        if (!same_state(&kept->states[i], &asked->states[i]))
            return false;
    return true;
}

static model_entry *find(model *m, const model_entry *asked) {
    for (int i = 0; i < m->count; i++)
        if (right_for(&m->entries[i], asked))
            return &m->entries[i];
    return NULL;
}

/* Something happened since the entry was made that the version guard cannot see. */
static bool blinded(const model_entry *kept, const model_entry *asked) {
    for (int i = 0; i < kept->state_count; i++)
        if (kept->states[i].untracked != asked->states[i].untracked)
            return true;
    return false;
}

/*------------------------------------------------------------------------------
 * Keeping
 *----------------------------------------------------------------------------*/

static void drop(model *m, int which) {
    m->count--;
    memmove(&m->entries[which], &m->entries[which + 1], (size_t)(m->count - which) * sizeof *m->entries);
}

static int least_used(const model *m) {
    int least = -1;
    for (int i = 0; i < m->count; i++)
        if (m->entries[i].capturer_count == 0 && (least < 0 || m->entries[i].used < m->entries[least].used))
            least = i;
    return least;
}

static void evict(model *m, int64_t room) {
    int least;
    while (m->count + room > m->max_entries && (least = least_used(m)) >= 0) {
        drop(m, least);
        m->evictions++;
    }
}

int64_t model_captured(const model *m) {
    int64_t captured = 0;
    for (int i = 0; i < m->count; i++)
        captured += m->entries[i].capturer_count > 0;
    return captured;
}

void model_count_trust(const model *m, int32_t *trusting, uint64_t count) {
    for (int i = 0; i < m->count; i++)
        for (int k = 0; k < m->entries[i].state_count; k++)
            trusting[m->entries[i].states[k].identity % count] += m->entries[i].states[k].present;
}

static bool has_room(model *m) {
    if (m->count < m->room)
        return true;
    const int room = m->room ? 2 * m->room : 16;
    model_entry *entries = realloc(m->entries, (size_t)room * sizeof *entries);
    if (!entries)
        return false;
    m->entries = entries;
    m->room = room;
    return true;
}

static model_entry *keep(model *m, const model_entry *made) {
    if (model_captured(m) + 1 > m->max_entries || !has_room(m))
        return NULL;
    for (int i = 0; i < m->count;)
        if (!same_place(&m->entries[i], made)) {
            i++;
        } else if (m->entries[i].capturer_count > 0) {
            m->entries[i++].superseded = true;
        } else {
            drop(m, i);
        }
    evict(m, 1);
    m->entries[m->count] = *made;
    m->entries[m->count].used = ++m->clock;
    return &m->entries[m->count++];
}

static void capture(model *m, model_entry *entry, uint64_t identity) {
    for (int i = 0; i < entry->capturer_count; i++)
        if (entry->capturers[i].identity == identity)
            return;
    if (entry->capturer_count == MODEL_CAPTURERS)
        return;
    entry->capturers[entry->capturer_count].identity = identity;
    entry->capturers[entry->capturer_count++].when = ++m->clock;
}

/*------------------------------------------------------------------------------
 * Lookups
 *----------------------------------------------------------------------------*/

static const cpr_error fine = {CPR_OK, -1, 0, 0};

static cpr_guard guard_of(const cpr_tensor *tensor, cpr_guard guard) {
    if (guard != CPR_GUARD_DEFAULT)
        return guard;
    return tensor->view.data != NULL || tensor->view.count == 0 ? CPR_GUARD_CONTENT : CPR_GUARD_VERSION;
}

/* The definition lists every token, so more than these are left to the builder that the cache has: what is stale shows too. */
enum { MOST_TOKENS_LISTED = 1 << 12 };

static bool is_listed(const cpr_cu_seqlens *view) {
    int64_t last = 0;
    if (!view->data || view->count < 1)
        return true;
    int32_t narrow;
    const int64_t at = (view->count - 1) * view->stride;
    memcpy(&narrow, (const char *)view->data + at * 4, sizeof narrow);
    last = narrow;
    if (view->dtype == CPR_INT64)
        memcpy(&last, (const char *)view->data + at * 8, sizeof last);
    return last <= MOST_TOKENS_LISTED;
}

cpr_error model_build(const cpr_lookup *lookup, cpr_route **route) {
    const cpr_route_request request = {
        .cu_seqlens = lookup->tensor.view,
        .rows = lookup->rows,
        .geometry = lookup->geometry,
        .source = lookup->source,
        .target = lookup->target,
        .tp_size = lookup->tp_size,
    };
    cpr_error error;
    *route = NULL;
    if (is_listed(&request.cu_seqlens))
        cpr_route_build_definition(&request, NULL, route, &error);
    else
        cpr_route_build(&request, NULL, route, &error);
    return error;
}

static model_entry entry_for(const world *w, const world_tensor *t, const cpr_lookup *lookup) {
    model_entry made = {
        .question =
            {
                .guard = guard_of(&lookup->tensor, lookup->guard),
                .geometry = lookup->geometry,
                .source = lookup->source,
                .target = lookup->target,
                .tp_size = lookup->tp_size == 0 ? 1 : lookup->tp_size, /* 0 is as 1 */
            },
        .contents = contents_of(w, t),
    };
    if (made.question.guard == CPR_GUARD_VERSION)
        made.states[made.state_count++] = state_of(w, t);
    return made;
}

/* Boundaries that could be a key of contents. */
static bool legal_boundaries(const cpr_lookup *lookup, const model_contents *contents) {
    if (!lookup->tensor.view.data ||
        (lookup->tensor.view.dtype != CPR_INT32 && lookup->tensor.view.dtype != CPR_INT64))
        return false;
    for (int64_t i = 1; i < contents->count; i++)
        if (contents->entries[i] < contents->entries[i - 1])
            return false;
    return contents->count > 0 && contents->entries[0] == 0;
}

static bool rows_differ(const cpr_lookup *lookup, int64_t rows) {
    return lookup->rows != CPR_ROWS_UNCHECKED && lookup->rows != rows;
}

static bool nothing_to_read_for_one(const cpr_lookup *lookup) {
    return lookup->geometry.cp_size == 1 && lookup->geometry.cp_rank == 0 && !lookup->tensor.view.data &&
           lookup->tensor.view.count > 0;
}

static void answer_hit(model *m, const model_entry *asked, model_entry *kept, const cpr_lookup *lookup,
                       cpr_use use, model_answer *answer) {
    answer->stale = !contents_equal(&kept->contents, &asked->contents);
    answer->excused = answer->stale && blinded(kept, asked);
    if (use == CPR_USE_REPLAY && (kept->capturer_count == 0 || kept->route != lookup->captured)) {
        answer->error = (cpr_error){CPR_CAPTURE_LAYOUT_CHANGE, -1, 0, 0};
    } else if (rows_differ(lookup, kept->rows)) {
        answer->error = (cpr_error){CPR_TOTAL_MISMATCH, -1, lookup->rows, kept->rows};
    } else {
        answer->hit = true;
        answer->entry = kept;
        kept->used = ++m->clock;
        m->hits++;
        if (use == CPR_USE_CAPTURE)
            capture(m, kept, lookup->tensor.handle);
    }
}

static void answer_miss(model *m, model_entry *asked, const cpr_lookup *lookup, cpr_use use, bool bypass,
                        model_answer *answer) {
    answer->error = model_build(lookup, &answer->oracle);
    if (answer->error.status != CPR_OK)
        return;
    if (use == CPR_USE_CAPTURE && !bypass && model_captured(m) + 1 > m->max_entries) {
        answer->error = (cpr_error){CPR_OVERFLOW, -1, model_captured(m) + 1, m->max_entries};
        return;
    }
    m->builds++;
    *(bypass ? &m->bypasses : &m->misses) += 1;
    if (bypass)
        return;
    asked->rows = answer->oracle->total_tokens;
    answer->entry = keep(m, asked);
    if (answer->entry && use == CPR_USE_CAPTURE)
        capture(m, answer->entry, lookup->tensor.handle);
}

model_answer model_get(model *m, const world *w, const world_tensor *t, const cpr_lookup *lookup) {
    model_answer answer = {.error = fine, .nothing = lookup->geometry.cp_size == 1};
    if (nothing_to_read_for_one(lookup))
        return answer;
    const cpr_use use = lookup->geometry.cp_size == 1 ? CPR_USE_EAGER : lookup->use;
    model_entry asked = entry_for(w, t, lookup);
    const bool bypass = asked.question.guard == CPR_GUARD_VERSION && !lookup->tensor.has_generation;
    const bool keyless =
        bypass || (asked.question.guard == CPR_GUARD_CONTENT && !legal_boundaries(lookup, &asked.contents));
    model_entry *kept = keyless ? NULL : find(m, &asked);
    if (kept)
        answer_hit(m, &asked, kept, lookup, use, &answer);
    else if (use == CPR_USE_REPLAY)
        answer.error = (cpr_error){CPR_CAPTURE_LAYOUT_CHANGE, -1, 0, 0};
    else
        answer_miss(m, &asked, lookup, use, bypass, &answer);
    return answer;
}

model_answer model_prebuild(model *m, const world *w, const world_tensor *t, const cpr_lookup *lookup) {
    model_answer answer = {.error = fine};
    cpr_lookup mirrored = *lookup;
    mirrored.source = lookup->target;
    mirrored.target = lookup->source;
    model_entry asked[2] = {entry_for(w, t, lookup), entry_for(w, t, &mirrored)};
    const int directions = lookup->source == lookup->target ? 1 : 2;
    if (nothing_to_read_for_one(lookup) ||
        (asked[0].question.guard == CPR_GUARD_VERSION && !lookup->tensor.has_generation))
        return answer;
    const bool keyless =
        asked[0].question.guard == CPR_GUARD_CONTENT && !legal_boundaries(lookup, &asked[0].contents);
    bool missing[2] = {false, false};
    for (int i = 0; i < directions; i++) {
        const model_entry *kept = keyless ? NULL : find(m, &asked[i]);
        missing[i] = !kept;
        if (kept && rows_differ(lookup, kept->rows)) {
            answer.error = (cpr_error){CPR_TOTAL_MISMATCH, -1, lookup->rows, kept->rows};
            answer.excused = blinded(kept, &asked[i]);
            return answer;
        }
        if (kept)
            answer.excused = answer.excused || blinded(kept, &asked[i]);
    }
    if (missing[0] || (directions == 2 && missing[1])) {
        answer.error = model_build(missing[0] ? lookup : &mirrored, &answer.oracle);
        if (answer.error.status != CPR_OK)
            return answer;
        m->builds++;
    }
    for (int i = 0; i < directions; i++)
        if (!missing[i])
            find(m, &asked[i])->used = ++m->clock;
    for (int i = 0; i < directions; i++)
        if (missing[i]) {
            asked[i].rows = answer.oracle->total_tokens;
            keep(m, &asked[i]);
        }
    return answer;
}

/*------------------------------------------------------------------------------
 * Verdicts
 *----------------------------------------------------------------------------*/

static cpr_error error_of(const cpr_lookup *lookup, const cpr_tensor *tensor, int64_t *rows) {
    cpr_lookup alone = *lookup;
    cpr_route *route;
    alone.tensor = *tensor;
    const cpr_error error = model_build(&alone, &route);
    if (route)
        *rows = route->total_tokens;
    cpr_route_free(route);
    return error;
}

/* The entry of the tensor itself where its compacted entry `which` lies. */
static int64_t place_of(const world *w, const world_tensor *t, int64_t which) {
    int64_t entries[CACHE_ENTRIES_MAX], seen = -1;
    world_entries(w, t, entries);
    for (int64_t i = 0; i < t->count; i++) {
        seen += i == 0 || entries[i] != entries[i - 1];
        if (seen == which)
            return i;
    }
    return -1;
}

static cpr_error difference(const world *w, const world_tensor *q, const world_tensor *kv) {
    const model_contents a = contents_of(w, q), b = contents_of(w, kv);
    for (int64_t i = 0; i < a.count && i < b.count; i++)
        if (a.entries[i] != b.entries[i])
            return (cpr_error){CPR_DIVERGENT_METADATA, place_of(w, kv, i), b.entries[i], a.entries[i]};
    return a.count == b.count ? fine : (cpr_error){CPR_DIVERGENT_METADATA, -1, b.count - 1, a.count - 1};
}

model_answer model_resolve(model *m, const world *w, const model_params *tensors,
                           const cpr_packed_params *params, const cpr_lookup *lookup) {
    model_answer answer = {.error = fine, .nothing = true};
    const world_tensor *const all[MODEL_TENSORS] = {tensors->q, tensors->q_padded, tensors->kv,
                                                    tensors->kv_padded};
    const world_tensor *q = tensors->q_padded ? tensors->q_padded : tensors->q;
    const world_tensor *kv = tensors->kv_padded ? tensors->kv_padded : tensors->kv;
    const cpr_tensor *kv_tensor = tensors->kv_padded ? &params->kv_padded : &params->kv;
    model_entry asked = entry_for(w, q, lookup);
    asked.question.verdict = true;
    if (asked.question.guard == CPR_GUARD_CONTENT && kv)
        asked.question.guard = guard_of(kv_tensor, lookup->guard);
    const bool version = asked.question.guard == CPR_GUARD_VERSION;
    bool bypass = false;
    for (asked.state_count = 0; version && asked.state_count < MODEL_TENSORS; asked.state_count++) {
        asked.states[asked.state_count] = state_of(w, all[asked.state_count]);
        bypass = bypass || (all[asked.state_count] && all[asked.state_count]->inference);
    }
    if (kv)
        asked.kv = contents_of(w, kv);
    model_entry *kept = bypass ? NULL : find(m, &asked);
    if (kept && version) {
        const bool stale =
            !contents_equal(&kept->contents, &asked.contents) || !contents_equal(&kept->kv, &asked.kv);
        answer.excused = stale && blinded(kept, &asked);
        if (rows_differ(lookup, kept->rows)) {
            answer.error = (cpr_error){CPR_TOTAL_MISMATCH, -1, lookup->rows, kept->rows};
            return answer;
        }
    } else {
        int64_t rows = 0;
        answer.error = error_of(lookup, &lookup->tensor, &asked.rows);
        if (answer.error.status == CPR_OK && kv)
            answer.error = error_of(lookup, kv_tensor, &rows);
        if (answer.error.status == CPR_OK && kv)
            answer.error = difference(w, q, kv);
        if (answer.error.status != CPR_OK)
            return answer;
    }
    answer.hit = kept != NULL;
    if (kept)
        kept->used = ++m->clock;
    else {
        m->checks++;
        answer.entry = bypass ? NULL : keep(m, &asked);
    }
    return answer;
}

/*------------------------------------------------------------------------------
 * What the caller tells
 *----------------------------------------------------------------------------*/

void model_invalidate(model *m, uint64_t identity) {
    for (int i = 0; i < m->count;) {
        bool trusted = false;
        for (int k = 0; k < m->entries[i].state_count; k++)
            trusted =
                trusted || (m->entries[i].states[k].present && m->entries[i].states[k].identity == identity);
        if (trusted)
            drop(m, i);
        else
            i++;
    }
}

/* The newest capture of that tensor. */
static bool newest_capture(const model *m, uint64_t identity, int *entry, int *capturer) {
    uint64_t newest = 0;
    for (int i = 0; i < m->count; i++)
        for (int k = 0; k < m->entries[i].capturer_count; k++)
            if (m->entries[i].capturers[k].identity == identity && m->entries[i].capturers[k].when > newest) {
                newest = m->entries[i].capturers[k].when;
                *entry = i;
                *capturer = k;
            }
    return newest > 0;
}

/* Entries that nobody captures any more count as just used, the one that was captured first as the latest. */
void model_release(model *m, uint64_t identity) {
    int which, capturer;
    while (newest_capture(m, identity, &which, &capturer)) {
        model_entry *entry = &m->entries[which];
        entry->capturers[capturer] = entry->capturers[--entry->capturer_count];
        if (entry->capturer_count > 0)
            continue;
        if (entry->superseded)
            drop(m, which);
        else
            entry->used = ++m->clock;
    }
    evict(m, 0);
}

void model_freed(model *m, uint64_t identity) {
    model_invalidate(m, identity);
    model_release(m, identity);
}

void model_clear(model *m) {
    m->count = 0;
}

void model_limit(model *m, int64_t max_entries) {
    m->max_entries = max_entries;
    evict(m, 0);
}
