/* SPDX-License-Identifier: Apache-2.0 */
#include "laws.h"
#include "scratch.h"
#include "subject.h"
#include <inttypes.h>
#include <string.h>

/* A copy to damage, with room for one run more on each side. */
typedef struct victim {
    cpr_route route;
    cpr_run_list *side; /* the one to damage */
    uint64_t salt;
} victim;

/* Damages a copy; false if this route cannot be damaged so. */
typedef bool damage_fn(victim *hurt);

static cpr_run *any_run(const victim *hurt) {
    return &hurt->side->runs[salt_below(hurt->salt, 1, (uint64_t)hurt->side->count)];
}

/* A run with another one behind it. */
static cpr_run *any_pair(const victim *hurt) {
    return &hurt->side->runs[salt_below(hurt->salt, 2, (uint64_t)hurt->side->count - 1)];
}

static bool has_runs(const victim *hurt, int64_t count) {
    return hurt->side->count >= count;
}

static bool swap_runs(victim *hurt) {
    if (!has_runs(hurt, 2))
        return false;
    cpr_run *run = any_pair(hurt), first = run[0];
    run[0] = run[1];
    run[1] = first;
    return true;
}

static bool repeat_a_run(victim *hurt) {
    if (!has_runs(hurt, 2))
        return false;
    cpr_run *run = any_pair(hurt);
    run[1] = run[0];
    return true;
}

static bool peer_below_0(victim *hurt) {
    if (!has_runs(hurt, 1))
        return false;
    hurt->side->runs[0].peer = -1;
    return true;
}

static bool peer_above_the_group(victim *hurt) {
    if (!has_runs(hurt, 1))
        return false;
    hurt->side->runs[hurt->side->count - 1].peer = hurt->route.geometry.cp_size;
    return true;
}

/* Another legal peer shows only where the rank's message to itself is concerned. */
static bool peer_becomes_oneself_or_another(victim *hurt) {
    const int64_t ranks = hurt->route.geometry.cp_size, own = hurt->route.geometry.cp_rank;
    if (!has_runs(hurt, 1) || ranks == 1)
        return false;
    cpr_run *run = any_run(hurt);
    run->peer = run->peer == own ? (own + 1) % ranks : own;
    return true;
}

static bool longer(victim *hurt) {
    if (!has_runs(hurt, 1) || any_run(hurt)->length == INT64_MAX)
        return false;
    any_run(hurt)->length++;
    return true;
}

static bool shorter(victim *hurt) {
    if (!has_runs(hurt, 1))
        return false;
    any_run(hurt)->length--;
    return true;
}

static bool enormous(victim *hurt) {
    if (!has_runs(hurt, 1) || any_run(hurt)->length == INT64_MAX)
        return false;
    any_run(hurt)->length = INT64_MAX;
    return true;
}

static bool negative_length(victim *hurt) {
    if (!has_runs(hurt, 1))
        return false;
    any_run(hurt)->length = INT64_MIN;
    return true;
}

static bool source_row_far_away(victim *hurt) {
    if (!has_runs(hurt, 1))
        return false;
    any_run(hurt)->source_row = salt_below(hurt->salt, 3, 2) ? INT64_MAX : INT64_MIN;
    return true;
}

static bool target_row_far_away(victim *hurt) {
    if (!has_runs(hurt, 1))
        return false;
    any_run(hurt)->target_row = salt_below(hurt->salt, 3, 2) ? INT64_MAX : -1;
    return true;
}

/* One row further, the run leaves the rank or meets another one. */
static bool last_row_outside(victim *hurt) {
    if (!has_runs(hurt, 1))
        return false;
    cpr_run *run = &hurt->side->runs[hurt->side->count - 1];
    run->target_row = hurt->side->rows - run->length + 1;
    return true;
}

static bool overlapping_rows(victim *hurt) {
    if (!has_runs(hurt, 2))
        return false;
    cpr_run *run = any_pair(hurt);
    if (hurt->side == &hurt->route.send)
        run[1].source_row = run[0].source_row;
    else
        run[1].target_row = run[0].target_row;
    return true;
}

/* In order still, and on the sending side each local row is there once. */
static bool target_row_hit_twice(victim *hurt) {
    for (int64_t i = 1; i < hurt->side->count; i++) {
        cpr_run *run = &hurt->side->runs[i];
        if (run[-1].peer != run->peer || run[-1].length < 2)
            continue;
        run->target_row = run[-1].target_row + 1;
        return true;
    }
    return false;
}

static bool run_split_in_two(victim *hurt) {
    for (int64_t i = 0; i < hurt->side->count; i++) {
        cpr_run *run = &hurt->side->runs[i];
        if (run->length < 2)
            continue;
        memmove(run + 1, run, (size_t)(hurt->side->count - i) * sizeof *run);
        hurt->side->count++;
        run[0].length = 1;
        run[1].source_row++;
        run[1].target_row++;
        run[1].length--;
        return true;
    }
    return false;
}

static bool run_missing(victim *hurt) {
    if (!has_runs(hurt, 1))
        return false;
    hurt->side->count--;
    return true;
}

static bool more_rows(victim *hurt) {
    if (hurt->side->rows == INT64_MAX)
        return false;
    hurt->side->rows++;
    return true;
}

static bool fewer_rows(victim *hurt) {
    hurt->side->rows--;
    return true;
}

static bool identity_flag_flipped(victim *hurt) {
    hurt->side->identity = !hurt->side->identity;
    return true;
}

static bool rank_outside(victim *hurt) {
    hurt->route.geometry.cp_rank = salt_below(hurt->salt, 4, 2) ? -1 : hurt->route.geometry.cp_size;
    return true;
}

static bool group_of_0(victim *hurt) {
    hurt->route.geometry.cp_size = 0;
    return true;
}

static bool group_too_large(victim *hurt) {
    hurt->route.geometry.cp_size = CPR_CP_SIZE_MAX + 1;
    return true;
}

static bool unknown_source(victim *hurt) {
    hurt->route.source = CPR_LAYOUT_COUNT;
    return true;
}

static bool unknown_target(victim *hurt) {
    hurt->route.target = CPR_LAYOUT_COUNT;
    return true;
}

static bool a_token_more(victim *hurt) {
    if (hurt->route.total_tokens == INT64_MAX)
        return false;
    hurt->route.total_tokens++;
    return true;
}

static bool a_token_less(victim *hurt) {
    hurt->route.total_tokens--;
    return true;
}

static const struct {
    const char *name;
    damage_fn *damage;
} damages[] = {
    {"two runs swapped", swap_runs},
    {"a run twice", repeat_a_run},
    {"peer -1", peer_below_0},
    {"peer cp_size", peer_above_the_group},
    {"a message to or from oneself misdirected", peer_becomes_oneself_or_another},
    {"a run one row longer", longer},
    {"a run one row shorter", shorter},
    {"a run of INT64_MAX rows", enormous},
    {"a run of INT64_MIN rows", negative_length},
    {"a source row far away", source_row_far_away},
    {"a target row far away", target_row_far_away},
    {"the last run one row outside", last_row_outside},
    {"two runs at one row", overlapping_rows},
    {"a target row hit twice", target_row_hit_twice},
    {"a run split in two", run_split_in_two},
    {"the last run missing", run_missing},
    {"a row more than the runs have", more_rows},
    {"a row less than the runs have", fewer_rows},
    {"the identity flag flipped", identity_flag_flipped},
    {"a rank outside the group", rank_outside},
    {"a group of no ranks", group_of_0},
    {"a group above the limit", group_too_large},
    {"an unknown source layout", unknown_source},
    {"an unknown target layout", unknown_target},
    {"a token more than the ranks hold", a_token_more},
    {"a token less than the ranks hold", a_token_less},
};

static bool copy_runs(cpr_run_list *list, scratch *s) {
    cpr_run *runs = scratch_bytes(s, ((size_t)list->count + 1) * sizeof *runs);
    if (!runs)
        return false;
    if (list->count > 0)
        memcpy(runs, list->runs, (size_t)list->count * sizeof *runs);
    list->runs = runs;
    return true;
}

static bool damage_is_noticed(const engine_under_test *engine, const cpr_route *route, cpr_side side,
                              size_t damage, uint64_t salt, verdict *v) {
    scratch s = {0};
    victim hurt = {.route = *route, .salt = salt};
    hurt.side = side == CPR_SEND ? &hurt.route.send : &hurt.route.recv;
    if (!copy_runs(&hurt.route.send, &s) || !copy_runs(&hurt.route.recv, &s)) {
        scratch_free(&s);
        return subject_no_memory(v);
    }
    const char *why = NULL, *name = damages[damage].name;
    bool good = true;
    if (damages[damage].damage(&hurt)) {
        if (engine->validate(&hurt.route, NULL, &why))
            good = law_fail(v, "a damaged route validates", "%s, side %d", name, side);
        else if (!why || !*why)
            good = law_fail(v, "a refusal without a reason", "%s, side %d", name, side);
        else if (engine->validate(&hurt.route, NULL, NULL))
            good = law_fail(v, "a verdict depends on whether a reason is asked for", "%s", name);
        else if (engine->equal(route, &hurt.route) || engine->equal(&hurt.route, route))
            good = law_fail(v, "a damaged route is called equal", "%s, side %d", name, side);
    }
    scratch_free(&s);
    return good;
}

/* Routes of other boundaries can be alike in all else, and nothing in one of them shows it. */
static bool boundaries_matter(const engine_under_test *engine, const cpr_route *route, verdict *v) {
    cpr_route other = *route;
    other.boundaries_digest ^= 1;
    return (!engine->equal(route, &other) && !engine->equal(&other, route)) ||
           law_fail(v, "a route of other boundaries is called equal", "digests differ in a bit");
}

static void judge_route(const engine_under_test *engine, const cpr_route *route, uint64_t salt, verdict *v) {
    const char *why = "";
    if (!engine->validate(route, NULL, &why)) {
        law_fail(v, "a built route does not validate", "%s", why);
        return;
    }
    if (!engine->equal(route, route)) {
        law_fail(v, "equal routes are called different", "a route and itself");
        return;
    }
    if (!boundaries_matter(engine, route, v))
        return;
    for (size_t damage = 0; damage < sizeof damages / sizeof *damages; damage++)
        for (int side = CPR_SEND; side <= CPR_RECV; side++)
            if (!damage_is_noticed(engine, route, (cpr_side)side, damage, salt, v))
                return;
}

void judge_validation(const route_case *c, const engine_under_test *engine, verdict *v) {
    if (!subject_legal(c, v))
        return;
    const cpr_route_request request = subject_request(c);
    cpr_route *route;
    if (engine_builds(engine, &request, &route, v))
        judge_route(engine, route, c->salt, v);
    cpr_route_free(route);
}
