/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of conversions without a route, under many orders of its threads: every row arrives, what is told is what was found, and
 * no block waits in vain unnoticed. */
#include "there_and_back.h"

#include "kernel_double.h"

enum { RANKS = 3, BLOCKS = 2, RUNS = 2, ORDERS = 12, SHORT_MS = 50, NEVER_MS = 1000000000 };

static const int64_t WRONG[] = {0, 24, 12, 96, TOKENS};

/* All ranks of a group. */
typedef struct team {
    void *boards[RANKS], *targets[RANKS];
    there_and_back rows[RANKS];
    int64_t offsets[RANKS][LENGTH_OF(BOUNDARIES)];
    cpr_direct_report reports[RANKS];
    cpr_direct_watch watches[RANKS];
    cpr_direct_member members[RANKS];
    int wrong_rank, wrong_run; /* whose offsets are, and when; -1: nobody's */
    int right;                 /* runs of ranks after which all rows were there */
} team;

static void before_a_run(void *context, int rank, int run) {
    team *t = context;
    memcpy(t->offsets[rank], rank == t->wrong_rank && run == t->wrong_run ? WRONG : BOUNDARIES,
           sizeof BOUNDARIES);
    memset(t->rows[rank].away, 0xff, t->rows[rank].bytes);
}

static void after_a_run(void *context, int rank, int run) {
    team *t = context;
    (void)run;
    t->right += memcmp(t->rows[rank].away, t->rows[rank].wanted, t->rows[rank].bytes) == 0;
}

static team *make_team(int64_t timeout_ms) {
    team *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->wrong_rank = t->wrong_run = -1;
    for (int r = 0; r < RANKS; r++) {
        t->rows[r] = there_and_back_make((cpr_geometry){RANKS, r}, CPR_ZIGZAG, CPR_CONTIGUOUS);
        t->boards[r] = calloc(cpr_direct_board_bytes(RANKS), 1);
        t->targets[r] = t->rows[r].away;
        t->reports[r].error = cpr_nothing_found();
        t->watches[r].waited_ms = -1;
        t->members[r] = (cpr_direct_member){
            .offsets = {t->offsets[r], LENGTH_OF(BOUNDARIES), 1, true},
            .facts = {CPR_ZIGZAG, CPR_CONTIGUOUS, RANKS, TOKENS, 1},
            .rank = r,
            .refusal = cpr_nothing_found(),
            .row_bytes = ROW_BYTES,
            .source = t->rows[r].start,
            .targets = t->targets,
            .boards = t->boards,
            .report = &t->reports[r],
            .watch = &t->watches[r],
            .timeout_ms = timeout_ms,
        };
    }
    return t;
}

static void free_team(team *t) {
    for (int r = 0; r < RANKS; r++) {
        there_and_back_free(&t->rows[r]);
        free(t->boards[r]);
    }
    free(t);
}

static kernel_play play_of(team *t, unsigned seed) {
    return (kernel_play){.ranks = RANKS,
                         .blocks = BLOCKS,
                         .runs = RUNS,
                         .members = t->members,
                         .offset_entries = LENGTH_OF(BOUNDARIES),
                         .before = before_a_run,
                         .after = after_a_run,
                         .context = t,
                         .seed = seed,
                         .still_rank = -1,
                         .still_block = -1};
}

static void rows_arrive(void **state) {
    (void)state;
    for (unsigned seed = 0; seed < ORDERS; seed++) {
        team *t = make_team(NEVER_MS);
        const kernel_play play = play_of(t, seed);
        kernel_perform(&play);
        assert_int_equal(t->right, RANKS * RUNS);
        for (int r = 0; r < RANKS; r++) {
            assert_int_equal(t->reports[r].raised, 0);
            assert_int_equal(t->watches[r].waited_ms, -1);
        }
        free_team(t);
    }
}

/* Of the first run, while others are already in the second, whose offsets are right; or of the second. */
static void what_is_told_is_what_was_found(void **state) {
    (void)state;
    for (unsigned seed = 0; seed < 2 * ORDERS; seed++) {
        team *t = make_team(NEVER_MS);
        t->wrong_rank = (int)(seed % RANKS);
        t->wrong_run = seed % 4 == 3;
        const kernel_play play = play_of(t, seed);
        kernel_perform(&play);
        for (int r = 0; r < RANKS; r++) {
            const cpr_error error = t->reports[r].error;
            assert_int_equal(t->reports[r].raised, 1);
            if (r == t->wrong_rank)
                expect_error(&error, CPR_DECREASING, 2, 12, 24);
            else
                expect_error(&error, CPR_PEER_FAILED, t->wrong_rank, CPR_DECREASING, 0);
            for (size_t i = 0; t->wrong_run == RUNS - 1 && i < t->rows[r].bytes; i++)
                assert_int_equal(t->rows[r].away[i], 0xff);
        }
        assert_int_equal(t->right, RANKS * (RUNS - 1));
        free_team(t);
    }
}

/* Whichever block of another rank it is, and also in the run after it, which is not begun. */
static void no_block_waits_in_vain_unnoticed(void **state) {
    (void)state;
    for (int block = 0; block < BLOCKS; block++) {
        team *t = make_team(SHORT_MS);
        kernel_play play = play_of(t, 1);
        play.still_rank = 1;
        play.still_block = block;
        kernel_perform(&play);
        for (int r = 0; r < RANKS; r++) {
            assert_true(r == 1 || t->watches[r].waited_ms >= SHORT_MS);
            assert_int_equal(t->reports[r].raised, 0);
            for (size_t i = 0; r != 1 && i < t->rows[r].bytes; i++)
                assert_int_equal(t->rows[r].away[i], 0xff);
        }
        free_team(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_arrive),
        cmocka_unit_test(what_is_told_is_what_was_found),
        cmocka_unit_test(no_block_waits_in_vain_unnoticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
