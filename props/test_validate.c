/* SPDX-License-Identifier: Apache-2.0 */
/* Routes damaged by hand: each kind of damage is found and named, and makes routes unequal. */
#include "example.h"

enum { MAX_RUNS = 8 };

/* A route made by hand. */
typedef struct handmade {
    cpr_route route;
    cpr_run send[MAX_RUNS];
    cpr_run recv[MAX_RUNS];
} handmade;

/* Rank 0 of cu = [0,4,16], P = 2, zigzag to contiguous. */
static void make_sound(handmade *h) {
    static const handmade sound = {
        .route = {.source = CPR_ZIGZAG,
                  .target = CPR_CONTIGUOUS,
                  .geometry = {2, 0},
                  .total_tokens = 16,
                  .send = {.count = 3, .rows = 8, .identity = true},
                  .recv = {.count = 4, .rows = 8}},
        .send = {{0, 0, 0, 1}, {0, 1, 3, 4}, {1, 5, 5, 3}},
        .recv = {{0, 0, 0, 1}, {0, 1, 3, 4}, {1, 0, 1, 2}, {1, 2, 7, 1}},
    };
    *h = sound;
    h->route.send.runs = h->send;
    h->route.recv.runs = h->recv;
}

static void expect_sound(const handmade *h) {
    const char *why = "untouched";
    assert_true(cpr_route_validate(&h->route, NULL, &why));
    assert_true(cpr_route_validate(&h->route, NULL, NULL));
    assert_string_equal(why, "untouched");
}

/* Tells what is wrong, and repairs. */
static void expect_wrong(handmade *h, const char *wanted) {
    const char *why = NULL;
    assert_false(cpr_route_validate(&h->route, NULL, &why));
    assert_string_equal(why, wanted);
    assert_false(cpr_route_validate(&h->route, NULL, NULL));
    make_sound(h);
}

static void a_sound_route_made_by_hand(void **state) {
    (void)state;
    handmade h;
    make_sound(&h);
    expect_sound(&h);

    h.route = (cpr_route){.geometry = {3, 2}, .send = {.identity = true}, .recv = {.identity = true}};
    expect_sound(&h);
}

static void damaged_headers(void **state) {
    (void)state;
    handmade h;
    make_sound(&h);
    h.route.source = CPR_LAYOUT_COUNT;
    expect_wrong(&h, "a layout is unknown");
    h.route.source = (cpr_layout)-1;
    expect_wrong(&h, "a layout is unknown");
    h.route.target = CPR_LAYOUT_COUNT;
    expect_wrong(&h, "a layout is unknown");
    h.route.target = (cpr_layout)-1;
    expect_wrong(&h, "a layout is unknown");

    h.route.geometry.cp_size = 0;
    expect_wrong(&h, "cp_size is out of range");
    h.route.geometry.cp_size = CPR_CP_SIZE_MAX + 1;
    expect_wrong(&h, "cp_size is out of range");
    h.route.geometry.cp_rank = -1;
    expect_wrong(&h, "cp_rank is out of range");
    h.route.geometry.cp_rank = 2;
    expect_wrong(&h, "cp_rank is out of range");

    h.route.total_tokens = 15;
    expect_wrong(&h, "the tokens cannot be shared equally by the ranks");
    h.route.total_tokens = -16;
    expect_wrong(&h, "the tokens cannot be shared equally by the ranks");
    h.route.total_tokens = 18;
    expect_wrong(&h, "the row count of a side is not that of a rank");
}

static void damaged_lists(void **state) {
    (void)state;
    handmade h;
    make_sound(&h);
    h.route.send.rows = 7;
    expect_wrong(&h, "the row count of a side is not that of a rank");
    h.route.recv.rows = INT64_MAX;
    expect_wrong(&h, "the row count of a side is not that of a rank");
    h.route.send.count = -1;
    expect_wrong(&h, "a side has no runs where it says so");
    h.route.recv.runs = NULL;
    expect_wrong(&h, "a side has no runs where it says so");
    h.route.send.count = 1;
    h.route.send.runs = NULL;
    expect_wrong(&h, "a side has no runs where it says so");
    h.route.recv.count = 1;
    h.route.recv.runs = NULL;
    expect_wrong(&h, "a side has no runs where it says so");

    h.route.send.count = 2;
    expect_wrong(&h, "the runs of a side are fewer than its rows");
    h.route.recv.count = 0;
    expect_wrong(&h, "the runs of a side are fewer than its rows");
    h.send[2].source_row = 4;
    h.send[2].target_row = 4;
    h.send[2].length = 4;
    expect_wrong(&h, "the runs of a side are more than its rows");

    h.route.send.identity = false;
    expect_wrong(&h, "an identity flag is wrong");
    h.route.recv.identity = true;
    expect_wrong(&h, "an identity flag is wrong");
}

static void damaged_runs(void **state) {
    (void)state;
    handmade h;
    make_sound(&h);
    h.send[0].peer = -1;
    expect_wrong(&h, "a peer is not a rank of the group");
    h.recv[3].peer = 2;
    expect_wrong(&h, "a peer is not a rank of the group");
    h.send[1].length = 0;
    expect_wrong(&h, "the length of a run is out of range");
    h.recv[1].length = 9;
    expect_wrong(&h, "the length of a run is out of range");
    h.send[1].length = INT64_MAX;
    expect_wrong(&h, "the length of a run is out of range");

    h.send[0].source_row = -1;
    expect_wrong(&h, "a run leaves the rows of a rank");
    h.send[2].source_row = 6;
    expect_wrong(&h, "a run leaves the rows of a rank");
    h.send[2].source_row = INT64_MAX;
    expect_wrong(&h, "a run leaves the rows of a rank");
    h.recv[0].target_row = INT64_MIN;
    expect_wrong(&h, "a run leaves the rows of a rank");
    h.recv[3].target_row = 8;
    expect_wrong(&h, "a run leaves the rows of a rank");
}

static void damaged_order(void **state) {
    (void)state;
    handmade h;
    make_sound(&h);
    h.send[0].peer = 1;
    expect_wrong(&h, "runs are not ordered by peer and target row");
    h.send[1].target_row = 0;
    expect_wrong(&h, "runs are not ordered by peer and target row");
    h.recv[3].target_row = 0;
    expect_wrong(&h, "runs are not ordered by peer and target row");
    h.recv[0].length = 4;
    expect_wrong(&h, "a target row is hit twice");

    h.route.send.count = 4;
    h.send[3] = h.send[2];
    h.send[1] = (cpr_run){0, 1, 3, 2};
    h.send[2] = (cpr_run){0, 3, 5, 2};
    expect_wrong(&h, "a run goes on where the one before it ended");
}

static void damaged_coverage(void **state) {
    (void)state;
    handmade h;
    make_sound(&h);
    h.recv[2].target_row = 0;
    expect_wrong(&h, "a local row is missing and another one is there twice");
    h.recv[3].target_row = 6;
    expect_wrong(&h, "a local row is missing and another one is there twice");
    h.send[2].source_row = 4;
    h.route.send.identity = false;
    expect_wrong(&h, "a local row is missing and another one is there twice");
}

static void what_a_rank_keeps_is_told_twice(void **state) {
    (void)state;
    const char *const wanted = "what the rank sends to itself is not what it receives from itself";
    handmade h;
    make_sound(&h);
    h.recv[0].source_row = 7;
    expect_wrong(&h, wanted);
    h.recv[1].source_row = 2;
    expect_wrong(&h, wanted);
    h.send[1].target_row = 4;
    expect_wrong(&h, wanted);
    h.route.recv.count = 5;
    h.recv[4] = h.recv[3];
    h.recv[3] = h.recv[2];
    h.recv[1] = (cpr_run){0, 1, 3, 3};
    h.recv[2] = (cpr_run){0, 6, 6, 1};
    expect_wrong(&h, wanted);
    h.recv[0].peer = h.recv[1].peer = 1;
    h.recv[2].target_row = 1;
    h.recv[0] = (cpr_run){1, 0, 0, 8};
    h.route.recv.count = 1;
    h.route.recv.identity = true;
    expect_wrong(&h, wanted);
}

static void without_memory_the_answer_is_no(void **state) {
    (void)state;
    handmade h;
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    const char *why = NULL;
    make_sound(&h);
    assert_true(cpr_route_validate(&h.route, &allocator, &why));
    assert_int_equal(book.held, 0);
    const int64_t allocations = book.allocations;
    for (int64_t k = 0; k < allocations; k++) {
        book = (ledger){.fail_at = k};
        assert_false(cpr_route_validate(&h.route, &allocator, &why));
        assert_string_equal(why, "there was no memory to find out");
        assert_int_equal(book.held, 0);
    }
}

static void built_routes_are_sound_in_any_order(void **state) {
    (void)state;
    enum { SEQUENCES = 40 };
    int64_t boundaries[SEQUENCES + 1] = {0};
    for (int64_t i = 0; i < SEQUENCES; i++)
        boundaries[i + 1] = boundaries[i] + 6 * (1 + i % 5);
    for (int source = 0; source < CPR_LAYOUT_COUNT; source++) {
        for (int target = 0; target < CPR_LAYOUT_COUNT; target++) {
            cpr_route *route = route_of(boundaries, SEQUENCES + 1, (cpr_geometry){3, 1}, (cpr_layout)source,
                                        (cpr_layout)target);
            assert_true(cpr_route_validate(route, NULL, NULL));
            cpr_route_free(route);
        }
    }
}

static void expect_unequal(handmade *h) {
    handmade sound;
    make_sound(&sound);
    assert_false(cpr_route_equal(&h->route, &sound.route));
    assert_false(cpr_route_equal(&sound.route, &h->route));
    make_sound(h);
}

static void equal_routes_agree_in_everything_but_allocators(void **state) {
    (void)state;
    handmade h, sound;
    ledger book;
    make_sound(&sound);
    make_sound(&h);
    h.route.allocator = ledger_allocator(&book);
    assert_true(cpr_route_equal(&h.route, &sound.route));

    h.route.source = CPR_FLAT_ZIGZAG;
    expect_unequal(&h);
    h.route.target = CPR_FLAT_ZIGZAG;
    expect_unequal(&h);
    h.route.geometry.cp_size = 4;
    expect_unequal(&h);
    h.route.geometry.cp_rank = 1;
    expect_unequal(&h);
    h.route.total_tokens = 32;
    expect_unequal(&h);
    h.route.boundaries_digest = 1;
    expect_unequal(&h);
    h.route.send.count = 2;
    expect_unequal(&h);
    h.route.send.rows = 9;
    expect_unequal(&h);
    h.route.send.identity = false;
    expect_unequal(&h);
    h.send[2].peer = 0;
    expect_unequal(&h);
    h.send[1].source_row = 2;
    expect_unequal(&h);
    h.recv[3].target_row = 6;
    expect_unequal(&h);
    h.recv[0].length = 2;
    expect_unequal(&h);
    h.route.recv.identity = true;
    expect_unequal(&h);
}

static void empty_slots_make_no_other_route(void **state) {
    (void)state;
    static const int64_t plain[] = {0, 4, 16}, padded[] = {0, 0, 4, 4, 16, 16}, other[] = {0, 8, 16};
    const cpr_geometry geometry = {2, 1};
    cpr_route *a = route_of(plain, 3, geometry, CPR_CONTIGUOUS, CPR_CONTIGUOUS);
    cpr_route *b = route_of(padded, 6, geometry, CPR_CONTIGUOUS, CPR_CONTIGUOUS);
    cpr_route *c = route_of(other, 3, geometry, CPR_CONTIGUOUS, CPR_CONTIGUOUS);
    assert_true(cpr_route_equal(a, b));
    /* The same runs, yet of another pack: only the digest tells. */
    assert_false(cpr_route_equal(a, c));
    cpr_route_free(a);
    cpr_route_free(b);
    cpr_route_free(c);
}

/* More entries than are hashed at a time. */
static void long_packs_have_digests_too(void **state) {
    (void)state;
    enum { ENTRIES = 1000 };
    int64_t boundaries[ENTRIES];
    for (int64_t i = 0; i < ENTRIES; i++)
        boundaries[i] = 4 * i;
    cpr_route *a = route_of(boundaries, ENTRIES, (cpr_geometry){1, 0}, CPR_ZIGZAG, CPR_ZIGZAG);
    boundaries[ENTRIES - 2] += 1;
    cpr_route *b = route_of(boundaries, ENTRIES, (cpr_geometry){1, 0}, CPR_ZIGZAG, CPR_ZIGZAG);
    assert_true(a->boundaries_digest != b->boundaries_digest);
    assert_false(cpr_route_equal(a, b));
    cpr_route_free(a);
    cpr_route_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_route_made_by_hand),
        cmocka_unit_test(damaged_headers),
        cmocka_unit_test(damaged_lists),
        cmocka_unit_test(damaged_runs),
        cmocka_unit_test(damaged_order),
        cmocka_unit_test(damaged_coverage),
        cmocka_unit_test(what_a_rank_keeps_is_told_twice),
        cmocka_unit_test(without_memory_the_answer_is_no),
        cmocka_unit_test(built_routes_are_sound_in_any_order),
        cmocka_unit_test(equal_routes_agree_in_everything_but_allocators),
        cmocka_unit_test(empty_slots_make_no_other_route),
        cmocka_unit_test(long_packs_have_digests_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
