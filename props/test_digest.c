/* SPDX-License-Identifier: Apache-2.0 */
/* What digests are, word by word, because ranks that compare theirs need not run one build of the library; and how they are compared. */
#include "example.h"

#include "../engine/xxh64.h"

/*==============================================================================
 * MARK: - What they are
 *============================================================================*/

/* Every pattern of equal neighbours, so that each entry is once the first and once the last of a stripe of the hash. */
static void boundaries_are_hashed_without_empty_sequences(void **state) {
    (void)state;
    enum { MOST_SEQUENCES = 9 };
    for (int64_t sequences = 0; sequences <= MOST_SEQUENCES; sequences++) {
        for (int grown = 0; grown < 1 << sequences; grown++) {
            int64_t boundaries[MOST_SEQUENCES + 1] = {0}, distinct[MOST_SEQUENCES + 1] = {0}, words = 1;
            for (int64_t i = 0; i < sequences; i++) {
                boundaries[i + 1] = boundaries[i] + (grown >> i & 1 ? i + 1 : 0);
                if (boundaries[i + 1] != boundaries[i])
                    distinct[words++] = boundaries[i + 1];
            }
            cpr_route *route =
                route_of(boundaries, sequences + 1, (cpr_geometry){1, 0}, CPR_ZIGZAG, CPR_CONTIGUOUS);
            assert_true(route->boundaries_digest == cpr_xxh64_of(distinct, words, 0));
            cpr_route_free(route);
        }
    }
}

static void a_digest_is_of_five_facts(void **state) {
    (void)state;
    static const int64_t boundaries[] = {0, 12, 24};
    for (int64_t rank = 0; rank < 3; rank++) {
        cpr_route *route =
            route_of(boundaries, 3, (cpr_geometry){3, rank}, CPR_FLAT_ZIGZAG, CPR_HEADS_THEN_TAILS);
        const int64_t facts[] = {CPR_FLAT_ZIGZAG, CPR_HEADS_THEN_TAILS, 3, 24,
                                 (int64_t)cpr_xxh64_of(boundaries, 3, 0)};
        assert_true(cpr_route_digest(route) == cpr_xxh64_of(facts, 5, 0));
        cpr_route_free(route);
    }
}

/* The hash of these facts is 0, which means that there is no route. */
static void a_route_never_has_the_digest_of_none(void **state) {
    (void)state;
    const cpr_route route = {.source = CPR_ZIGZAG,
                             .target = CPR_CONTIGUOUS,
                             .geometry = {2, 0},
                             .total_tokens = 16,
                             .boundaries_digest = UINT64_C(0x1c91e162882f81ea)};
    const int64_t facts[] = {CPR_ZIGZAG, CPR_CONTIGUOUS, 2, 16, (int64_t)route.boundaries_digest};
    assert_true(cpr_xxh64_of(facts, 5, 0) == 0);
    assert_true(cpr_route_digest(&route) == 1);
    assert_true(cpr_route_digest(NULL) == 0);
}

/* Whatever TP adds is hashed with the digest before it as the seed; what it does not add is not. */
static void groups_are_hashed_where_they_are_not_plain(void **state) {
    (void)state;
    static const int64_t boundaries[] = {0, 4, 16}, in_order[] = {0, 1, 2, 3}, other_end[] = {0, 1, 3, 2};
    static const struct {
        int64_t tp_size;
        const int64_t *order;
        bool size_counts, order_counts;
    } groups[] = {
        {0, NULL, false, false},     {1, NULL, false, false},    {1, in_order, false, false},
        {2, NULL, true, false},      {2, in_order, true, false}, {2, other_end, true, true},
        {1, other_end, false, true},
    };
    for (int64_t i = 0; i < LENGTH_OF(groups); i++) {
        const int64_t tp_size = groups[i].tp_size > 1 ? groups[i].tp_size : 1;
        const cpr_route_request request =
            request_of(boundaries, 3, (cpr_geometry){4 / tp_size, 0}, CPR_CONTIGUOUS, CPR_CONTIGUOUS);
        const cpr_tensor_ranks tp = {groups[i].tp_size, 0, groups[i].order};
        uint64_t wanted = cpr_xxh64_of(boundaries, 3, 0);
        wanted = groups[i].size_counts ? cpr_xxh64_of(&tp_size, 1, wanted) : wanted;
        wanted = groups[i].order_counts ? cpr_xxh64_of(groups[i].order, 4, wanted) : wanted;
        cpr_route *route = NULL;
        assert_int_equal(cpr_route_build_fused(&request, &tp, NULL, &route, NULL), CPR_OK);
        assert_true(route->boundaries_digest == wanted);
        cpr_route_free(route);
    }
}

static void plans_that_pad_hash_the_ranks_too(void **state) {
    (void)state;
    static const int32_t narrow[] = {0, 3, 8};
    static const int64_t boundaries[] = {0, 3, 8};
    const cpr_cu_seqlens cu = cpr_cu_seqlens_int32(narrow, 3);
    const int64_t ranks = 2;
    cpr_padded_plan *plan = NULL;
    assert_int_equal(cpr_padded_plan_build(&cu, 8, (cpr_geometry){ranks, 1}, NULL, &plan, NULL), CPR_OK);
    assert_true(plan->digest == cpr_xxh64_of(&ranks, 1, cpr_xxh64_of(boundaries, 3, 0)));
    cpr_padded_plan_free(plan);
}

/*==============================================================================
 * MARK: - Comparing them
 *============================================================================*/

static void expect_checked(const uint64_t *digests, int64_t count, cpr_error wanted) {
    cpr_error error = {CPR_INTERNAL, 7, 7, 7};
    assert_int_equal(cpr_digests_check(digests, count, &error), wanted.status);
    expect_error(&error, wanted.status, wanted.index, wanted.got, wanted.wanted);
    assert_int_equal(cpr_digests_check(digests, count, NULL), wanted.status);
}

static void ranks_of_two_batches_are_found(void **state) {
    (void)state;
    static const int64_t one[] = {0, 4, 16}, other[] = {0, 12, 16}, padded[] = {0, 4, 4, 16, 16};
    cpr_route *a = route_of(one, 3, (cpr_geometry){2, 0}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    cpr_route *b = route_of(padded, 5, (cpr_geometry){2, 1}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    cpr_route *c = route_of(other, 3, (cpr_geometry){2, 1}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    const uint64_t of_a = cpr_route_digest(a), of_b = cpr_route_digest(b), of_c = cpr_route_digest(c);
    const cpr_error fine = {CPR_OK, -1, 0, 0};
    expect_checked((const uint64_t[]){of_a, of_b}, 2, fine);
    expect_checked((const uint64_t[]){of_a}, 1, fine);
    expect_checked((const uint64_t[]){of_a, of_c}, 2,
                   (cpr_error){CPR_DIVERGENT_METADATA, 1, (int64_t)of_c, (int64_t)of_a});
    expect_checked((const uint64_t[]){of_a, of_b, 0}, 3,
                   (cpr_error){CPR_DIVERGENT_METADATA, 2, 0, (int64_t)of_a});
    cpr_route_free(a);
    cpr_route_free(b);
    cpr_route_free(c);
}

static void ranks_without_a_route_do_not_agree(void **state) {
    (void)state;
    static const uint64_t none[2] = {0};
    for (int64_t count = 1; count <= 2; count++)
        expect_checked(none, count, (cpr_error){CPR_DIVERGENT_METADATA, 0, 0, 0});
    for (int64_t count = 0; count >= -1; count--)
        expect_checked(none, count, (cpr_error){CPR_BAD_CP_SIZE, -1, count, 1});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boundaries_are_hashed_without_empty_sequences),
        cmocka_unit_test(a_digest_is_of_five_facts),
        cmocka_unit_test(a_route_never_has_the_digest_of_none),
        cmocka_unit_test(groups_are_hashed_where_they_are_not_plain),
        cmocka_unit_test(plans_that_pad_hash_the_ranks_too),
        cmocka_unit_test(ranks_of_two_batches_are_found),
        cmocka_unit_test(ranks_without_a_route_do_not_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
