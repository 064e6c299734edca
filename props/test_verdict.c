/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks come to one verdict: each rank's records and findings, played through in one process. */
#include "example.h"

#include "cuda/verdict.h"

enum { RANKS = 3, ROW_BYTES = 8 };

/* Three ranks; what each was given may be damaged. */
typedef struct ranks {
    cpr_route *built[RANKS];
    cpr_route routes[RANKS];
    cpr_run runs[RANKS][2][32];
    size_t row_bytes[RANKS];
    cpr_status status[RANKS];
} ranks;

static const int64_t BOUNDARIES[] = {0, 6, 24, 36};

static void setup(ranks *x) {
    *x = (ranks){.row_bytes = {ROW_BYTES, ROW_BYTES, ROW_BYTES}};
    for (int64_t r = 0; r < RANKS; r++) {
        x->built[r] =
            route_of(BOUNDARIES, LENGTH_OF(BOUNDARIES), (cpr_geometry){RANKS, r}, CPR_ZIGZAG, CPR_CONTIGUOUS);
        x->routes[r] = *x->built[r];
        cpr_run_list *lists[] = {&x->routes[r].send, &x->routes[r].recv};
        for (int side = 0; side < 2; side++) {
            assert_true(lists[side]->count <= LENGTH_OF(x->runs[r][side]));
            memcpy(x->runs[r][side], lists[side]->runs, (size_t)lists[side]->count * sizeof(cpr_run));
            lists[side]->runs = x->runs[r][side];
        }
    }
}

static void teardown(ranks *x) {
    for (int64_t r = 0; r < RANKS; r++)
        cpr_route_free(x->built[r]);
}

static cpr_rank_record record_of(const ranks *x, int64_t sender, int64_t receiver) {
    return x->status[sender] != CPR_OK
               ? cpr_rank_record_failed(x->status[sender])
               : cpr_rank_record_of(&x->routes[sender], cpr_route_digest(&x->routes[sender]),
                                    x->row_bytes[sender], receiver);
}

/* What all ranks say, which must be the same. */
static cpr_error verdict_of(const ranks *x) {
    cpr_error on_ranks[RANKS], findings[RANKS], chosen;
    for (int64_t r = 0; r < RANKS; r++) {
        cpr_rank_record records[RANKS];
        for (int64_t sender = 0; sender < RANKS; sender++)
            records[sender] = record_of(x, sender, r);
        const cpr_status status = cpr_verdict_on_ranks(records, RANKS, &on_ranks[r]);
        assert_int_equal(status, on_ranks[r].status);
        expect_error(&on_ranks[r], on_ranks[0].status, on_ranks[0].index, on_ranks[0].got,
                     on_ranks[0].wanted);
        if (status == CPR_OK) {
            const cpr_status finding = cpr_verdict_on_messages(records, &x->routes[r], &findings[r]);
            assert_int_equal(finding, findings[r].status);
        }
    }
    if (on_ranks[0].status != CPR_OK)
        return on_ranks[0];
    const cpr_status status = cpr_verdict_chosen(findings, RANKS, &chosen);
    assert_int_equal(status, chosen.status);
    return chosen;
}

static void expect_verdict(const ranks *x, cpr_status status, int64_t index, int64_t got, int64_t wanted) {
    const cpr_error error = verdict_of(x);
    expect_error(&error, status, index, got, wanted);
}

static void ranks_that_fit_agree(void **state) {
    (void)state;
    ranks x;
    setup(&x);
    expect_verdict(&x, CPR_OK, -1, 0, 0);
    teardown(&x);
}

static void who_could_not_take_part_is_named(void **state) {
    (void)state;
    ranks x;
    setup(&x);
    x.status[2] = CPR_NO_MEMORY;
    expect_verdict(&x, CPR_PEER_FAILED, 2, CPR_NO_MEMORY, 0);
    x.status[1] = CPR_INTERNAL;
    expect_verdict(&x, CPR_PEER_FAILED, 1, CPR_INTERNAL, 0);
    teardown(&x);
}

static void routes_of_another_place_are_found(void **state) {
    (void)state;
    ranks x;
    setup(&x);
    x.routes[1] = x.routes[2];
    expect_verdict(&x, CPR_BAD_RANK, 1, 2, 1);
    x.routes[1] = *x.built[1];
    x.routes[0].geometry.cp_size = RANKS + 1;
    expect_verdict(&x, CPR_BAD_RANK, 0, 0, 0);
    teardown(&x);
}

static void other_offsets_and_rows_are_found(void **state) {
    (void)state;
    ranks x;
    setup(&x);
    x.row_bytes[2] = ROW_BYTES + 1;
    expect_verdict(&x, CPR_DIVERGENT_METADATA, 2, ROW_BYTES + 1, ROW_BYTES);
    x.routes[1].boundaries_digest ^= 1;
    expect_verdict(&x, CPR_DIVERGENT_METADATA, 1, (int64_t)cpr_route_digest(&x.routes[1]),
                   (int64_t)cpr_route_digest(&x.routes[0]));
    teardown(&x);
}

static int64_t sent_rows(const ranks *x, int64_t sender, int64_t receiver) {
    int64_t splits[RANKS];
    assert_int_equal(cpr_route_splits(x->built[sender], CPR_SEND, splits, RANKS, NULL), CPR_OK);
    return splits[receiver];
}

static void other_split_sizes_are_found(void **state) {
    (void)state;
    ranks x;
    setup(&x);
    cpr_run *last = &x.runs[2][CPR_SEND][x.routes[2].send.count - 1];
    last->length++;
    expect_verdict(&x, CPR_SPLIT_MISMATCH, 2 * RANKS + last->peer, sent_rows(&x, 2, last->peer) + 1,
                   sent_rows(&x, 2, last->peer));
    cpr_run *earlier = &x.runs[1][CPR_SEND][x.routes[1].send.count - 1];
    earlier->length++;
    expect_verdict(&x, CPR_SPLIT_MISMATCH, 1 * RANKS + earlier->peer, sent_rows(&x, 1, earlier->peer) + 1,
                   sent_rows(&x, 1, earlier->peer));
    teardown(&x);
}

/* As many rows as wanted, but other ones. */
static void other_runs_are_found(void **state) {
    (void)state;
    ranks x;
    setup(&x);
    x.runs[0][CPR_SEND][0].source_row++;
    const int64_t receiver = x.runs[0][CPR_SEND][0].peer;
    const cpr_error error = verdict_of(&x);
    assert_int_equal(error.status, CPR_DIVERGENT_METADATA);
    assert_int_equal(error.index, receiver);
    assert_true(error.got != error.wanted);

    /* Split sizes are found before. */
    x.runs[2][CPR_RECV][0].length++;
    const cpr_error splits = verdict_of(&x);
    assert_int_equal(splits.status, CPR_SPLIT_MISMATCH);
    teardown(&x);
}

/* Whoever found it: split sizes before runs, then the smallest index. */
static void one_finding_is_chosen(void **state) {
    (void)state;
    const cpr_error findings[] = {
        {CPR_DIVERGENT_METADATA, 0, 1, 2}, {CPR_OK, -1, 0, 0},
        {CPR_SPLIT_MISMATCH, 7, 3, 4},     {CPR_SPLIT_MISMATCH, 3, 5, 6},
        {CPR_SPLIT_MISMATCH, 5, 7, 8},     {CPR_DIVERGENT_METADATA, 5, 9, 9},
    };
    cpr_error chosen;
    assert_int_equal(cpr_verdict_chosen(findings, LENGTH_OF(findings), &chosen), CPR_SPLIT_MISMATCH);
    expect_error(&chosen, CPR_SPLIT_MISMATCH, 3, 5, 6);
    assert_int_equal(cpr_verdict_chosen(findings, 2, &chosen), CPR_DIVERGENT_METADATA);
    expect_error(&chosen, CPR_DIVERGENT_METADATA, 0, 1, 2);
    assert_int_equal(cpr_verdict_chosen(findings + 1, 1, &chosen), CPR_OK);
    expect_error(&chosen, CPR_OK, -1, 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_fit_agree),
        cmocka_unit_test(who_could_not_take_part_is_named),
        cmocka_unit_test(routes_of_another_place_are_found),
        cmocka_unit_test(other_offsets_and_rows_are_found),
        cmocka_unit_test(other_split_sizes_are_found),
        cmocka_unit_test(other_runs_are_found),
        cmocka_unit_test(one_finding_is_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
