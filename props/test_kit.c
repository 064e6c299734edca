/* SPDX-License-Identifier: Apache-2.0 */
/* The kit itself: choices, the byte format, corruptions, the encoder, boundaries in memory, pictures, the runner. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/case_plan.h"
#include "kit/runner.h"
#include "kit/show.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { RANDOM_CASES = 20000, COLUMNS = 80, TEXT_SIZE = 1 << 16 };

static route_case *new_case(void) {
    route_case *c = malloc(sizeof *c);
    assert_non_null(c);
    return c;
}

static void draw_from_bytes(const uint8_t *bytes, size_t length, route_case *c) {
    choices from = choices_from_bytes(bytes, length, NULL);
    route_case_draw(&from, &CASE_BOUNDS_DRAWN, c);
}

static void draw_from_seed(uint64_t seed, choice_log *log, route_case *c) {
    choices from = choices_from_seed(seed, log);
    if (log) {
        log->length = log->record_count = 0;
        log->full = false;
    }
    route_case_draw(&from, &CASE_BOUNDS_DRAWN, c);
}

/* A file in memory that `text` is the contents of, once it is closed. */
static FILE *open_text(char **text) {
    *text = calloc(1, TEXT_SIZE);
    assert_non_null(*text);
    FILE *out = fmemopen(*text, TEXT_SIZE, "w");
    assert_non_null(out);
    return out;
}

static char *text_of(const route_case *c) {
    char *text;
    FILE *out = open_text(&text);
    write_case_text(out, c, "law", "note");
    fclose(out);
    return text;
}

/*==============================================================================
 * MARK: - Choices
 *============================================================================*/

static void choices_have_fixed_widths(void **state) {
    (void)state;
    static const struct {
        uint64_t maximum;
        unsigned width;
    } widths[] = {
        {0, 1},         {255, 1}, {256, 2}, {65535, 2}, {65536, 4}, {UINT32_MAX, 4}, {UINT64_C(1) << 32, 8},
        {UINT64_MAX, 8}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        assert_int_equal(choice_width(widths[i].maximum), widths[i].width);
}

static void choices_of_bytes_are_total(void **state) {
    (void)state;
    static const uint8_t bytes[] = {7, 1, 2, 0xff, 0xff, 0xff, 0xff, 9};
    choices from = choices_from_bytes(bytes, sizeof bytes, NULL);
    assert_int_equal(choose(&from, 4), 2);      /* 7 modulo 5 */
    assert_int_equal(choose(&from, 1000), 258); /* big-endian */
    assert_int_equal(choose(&from, UINT32_MAX), UINT32_MAX);
    assert_int_equal(choose(&from, UINT64_MAX), UINT64_C(9) << 56); /* zeros past the end */
    assert_int_equal(choose(&from, 255), 0);
}

static void logs_choose_the_same_again(void **state) {
    (void)state;
    choice_log log, again;
    route_case *a = new_case(), *b = new_case();
    for (uint64_t seed = 0; seed < RANDOM_CASES; seed++) {
        draw_from_seed(seed, &log, a);
        assert_false(log.full);
        again.length = again.record_count = 0;
        again.full = false;
        choices from = choices_from_bytes(log.bytes, log.length, &again);
        route_case_draw(&from, &CASE_BOUNDS_DRAWN, b);
        assert_true(route_case_equal(a, b));
        assert_int_equal(log.length, again.length);
        assert_memory_equal(log.bytes, again.bytes, log.length);
        assert_int_equal(log.record_count, again.record_count);
    }
    free(a);
    free(b);
}

static void full_logs_say_so(void **state) {
    (void)state;
    choice_log log = {.length = CHOICE_LOG_BYTES - 1};
    choices from = choices_from_seed(1, &log);
    choice_record_begin(&from);
    choose(&from, UINT16_MAX);
    choice_record_end(&from);
    assert_true(log.full);
    assert_int_equal(log.length, CHOICE_LOG_BYTES - 1);
    assert_int_equal(log.record_count, 0);
    choose(&from, 1);
    assert_int_equal(log.length, CHOICE_LOG_BYTES - 1);
}

static void records_beyond_the_log_are_left_out(void **state) {
    (void)state;
    choice_log log = {.length = 0};
    choices from = choices_from_seed(1, &log);
    for (int i = 0; i < CHOICE_LOG_RECORDS + 1; i++) {
        choice_record_begin(&from);
        choose(&from, 1);
        choice_record_end(&from);
    }
    assert_int_equal(log.record_count, CHOICE_LOG_RECORDS);
}

static void odometer_counts_through_everything(void **state) {
    (void)state;
    odometer o;
    unsigned runs = 0, seen[4][3] = {{0}};
    odometer_start(&o);
    do {
        choices from = choices_from_odometer(&o, NULL);
        uint64_t first = choose(&from, 3);
        uint64_t second = first == 2 ? 0 : choose(&from, 2);
        seen[first][second]++;
        runs++;
    } while (odometer_next(&o));
    assert_int_equal(runs, 3 * 3 + 1);
    assert_int_equal(seen[2][0], 1);
    assert_int_equal(seen[3][2], 1);
}

static void odometer_has_an_end(void **state) {
    (void)state;
    odometer o;
    odometer_start(&o);
    choices from = choices_from_odometer(&o, NULL);
    for (int i = 0; i < ODOMETER_DIGITS; i++)
        choose(&from, 0);
    assert_int_equal(choose(&from, 9), 0);
    assert_int_equal(o.count, ODOMETER_DIGITS);
    assert_false(odometer_next(&o));
}

/*==============================================================================
 * MARK: - The byte format
 *============================================================================*/

typedef struct golden {
    const char *bytes;
    size_t length;
    const char *text;
} golden;

#define GOLDEN(bytes, text)                                                                                  \
    { bytes, sizeof bytes - 1, text }

static void bytes_mean_what_they_meant(void **state) {
    (void)state;
    static const golden goldens[] = {
        GOLDEN("", "{\"cu_seqlens\":[0],\"cp_size\":1,\"rank\":0,\"expect\":\"ok\"}"),
        /* P = 2: 4 and 12 tokens */
        GOLDEN("\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\1\0\1\3\0",
               "{\"cu_seqlens\":[0,4,16],\"cp_size\":2,\"rank\":0,\"expect\":\"ok\"}"),
        /* all dressing */
        GOLDEN("\2\1\1\0\1\3\1\3\1\2\0\0\0\0\0\0\1\1\4\1\0\1",
               "{\"cu_seqlens\":[0,10,12],\"cp_size\":3,\"rank\":1,\"ops\":[{\"op\":\"layouts\",\"src\":"
               "\"contiguous\","
               "\"dst\":\"contiguous\"},{\"op\":\"rows\",\"n\":12},{\"op\":\"dtype\",\"v\":\"int64\"},{"
               "\"op\":\"stride\","
               "\"n\":-1},{\"op\":\"salt\",\"n\":258}],\"expect\":\"ok\"}"),
        /* TransformerEngine 1930: a length of 7 */
        GOLDEN("\1\0\0\0\0\0\0\0\0\0\76\0\2\0\0\0\1\1\0",
               "{\"cu_seqlens\":[0,7],\"cp_size\":2,\"rank\":0,\"expect\":\"error:not_divisible_2cp\","
               "\"expected\":"
               "{\"error\":{\"index\":0,\"got\":7,\"want\":4}}}"),
        /* rows and cp_size are wrong: cp_size is told */
        GOLDEN("\1\0\0\0\0\0\0\0\0\0\75\0\5\65\0\2\1\1\0",
               "{\"cu_seqlens\":[0,4],\"cp_size\":-9223372036854775808,\"rank\":0,\"ops\":[{\"op\":\"rows\","
               "\"n\":"
               "9223372036854775807}],\"expect\":\"error:bad_cp_size\",\"expected\":{\"error\":{\"index\":-1,"
               "\"got\":"
               "-9223372036854775808,\"want\":1}}}"),
    };
    route_case *c = new_case();
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        draw_from_bytes((const uint8_t *)goldens[i].bytes, goldens[i].length, c);
        char *text = text_of(c);
        char *begin = strstr(text, "\"cu_seqlens\""), *end = strstr(text, ",\"note\"");
        assert_non_null(begin);
        assert_non_null(end);
        begin[-1] = '{';
        end[0] = '}';
        end[1] = '\0';
        assert_string_equal(begin - 1, goldens[i].text);
        free(text);
    }
    free(c);
}

/* If this fails, old bytes mean other cases: bump CASE_FORMAT_VERSION, make the byte corpora anew, and put the digest
 * that is printed here. */
static void format_version_is_pinned(void **state) {
    (void)state;
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    route_case *c = new_case();
    for (uint64_t seed = 0; seed < RANDOM_CASES; seed++) {
        draw_from_seed(seed, NULL, c);
        char *text = text_of(c);
        for (const char *at = text; *at; at++)
            digest = (digest ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
        free(text);
    }
    free(c);
    printf("# format %d: digest 0x%016" PRIx64 "\n", CASE_FORMAT_VERSION, digest);
    assert_int_equal(CASE_FORMAT_VERSION, 2);
    assert_int_equal(digest, UINT64_C(0x3140eb7ee17c2272));
}

static void drawn_cases_stay_within_bounds(void **state) {
    (void)state;
    route_case *c = new_case();
    unsigned legal = 0, with_64 = 0;
    int64_t tokens = 0, most_tokens = 0;
    for (uint64_t seed = 0; seed < RANDOM_CASES; seed++) {
        draw_from_seed(seed, NULL, c);
        assert_true(c->entries <= CASE_MAX_SEQUENCES + 1);
        assert_true(c->expected_known);
        if (c->expected.status != CPR_OK)
            continue;
        legal++;
        with_64 += c->entries == CASE_MAX_SEQUENCES + 1;
        tokens += route_case_tokens(c);
        most_tokens = route_case_tokens(c) > most_tokens ? route_case_tokens(c) : most_tokens;
    }
    free(c);
    printf("# drawn: %u of %d legal, %" PRId64 " tokens on average, %" PRId64 " at most\n", legal,
           RANDOM_CASES, tokens / legal, most_tokens);
    assert_true(legal > RANDOM_CASES / 2 && legal < RANDOM_CASES);
    assert_true(with_64 > 0);
    assert_true(most_tokens <= CASE_MAX_TOKENS);
}

static void long_packs_end_in_empty_slots(void **state) {
    (void)state;
    enum { RECORD = 3, HEADER = 16 };
    uint8_t bytes[HEADER + RECORD * CASE_MAX_SEQUENCES] = {11};
    route_case *c = new_case();
    memset(bytes + HEADER, 3, sizeof bytes - HEADER);
    for (unsigned source = 0; source < CPR_LAYOUT_COUNT; source++) {
        bytes[2] = (uint8_t)source;
        draw_from_bytes(bytes, sizeof bytes, c);
        assert_int_equal(c->entries, CASE_MAX_SEQUENCES + 1);
        assert_in_range(route_case_tokens(c), CASE_MAX_TOKENS - 7 * 2 * 12, CASE_MAX_TOKENS);
        assert_int_equal(route_case_expected(c).status, CPR_OK);
    }
    free(c);
}

/*==============================================================================
 * MARK: - Corruptions
 *============================================================================*/

static const cpr_status status_of_kind[CORRUPTION_KINDS] = {[CORRUPT_NOTHING] = CPR_OK,
                                                            [CORRUPT_CP_SIZE] = CPR_BAD_CP_SIZE,
                                                            [CORRUPT_RANK] = CPR_BAD_RANK,
                                                            [CORRUPT_LAYOUT] = CPR_BAD_LAYOUT,
                                                            [CORRUPT_DTYPE] = CPR_DTYPE,
                                                            [CORRUPT_DEVICE] = CPR_DEVICE,
                                                            [CORRUPT_EMPTY] = CPR_EMPTY_CU_SEQLENS,
                                                            [CORRUPT_START] = CPR_NONZERO_START,
                                                            [CORRUPT_DECREASING] = CPR_DECREASING,
                                                            [CORRUPT_ROWS] = CPR_TOTAL_MISMATCH,
                                                            [CORRUPT_LENGTH] = CPR_NOT_DIVISIBLE_2CP,
                                                            [CORRUPT_TP] = CPR_NOT_DIVISIBLE_CP_TP};

/* Is there anything that such a corruption can make wrong? */
static bool takes_effect(const corruption *how, const case_plan *plan) {
    switch (how->kind) {
    case CORRUPT_DECREASING:
        return plan->sequences > 0;
    case CORRUPT_LENGTH:
        return plan->sequences > 0 && plan->cp_size_less_one > 0;
    default:
        return true;
    }
}

static void read_plan(uint64_t seed, case_plan *plan) {
    choices from = choices_from_seed(seed, NULL);
    plan_coder coder = {.choices = &from};
    memset(plan, 0, sizeof *plan);
    plan_code(&coder, &CASE_BOUNDS_DRAWN, plan);
}

/* Totals that no rank count divides are not_divisible_cp where nothing is cut in chunks; some tp_size divide. */
static bool is_error_of(const cpr_error *e, uint64_t kind) {
    return e->status == status_of_kind[kind] ||
           (kind == CORRUPT_LENGTH && e->status == CPR_NOT_DIVISIBLE_CP) ||
           (kind == CORRUPT_TP && e->status == CPR_OK);
}

static void corruptions_are_what_they_say(void **state) {
    (void)state;
    unsigned seen[CORRUPTION_KINDS] = {0};
    case_plan plan;
    route_case *c = new_case();
    for (uint64_t seed = 0; seed < 10 * RANDOM_CASES; seed++) {
        read_plan(seed, &plan);
        const corruption *first = &plan.corruptions[0], *second = &plan.corruptions[1];
        if (!takes_effect(first, &plan) || second->kind != CORRUPT_NOTHING)
            continue;
        plan_carry_out(&plan, c);
        assert_true(is_error_of(&c->expected, first->kind));
        seen[first->kind] += c->expected.status != CPR_OK;
    }
    for (int kind = CORRUPT_NOTHING + 1; kind < CORRUPTION_KINDS; kind++)
        assert_true(seen[kind] > 0);
    free(c);
}

static void of_two_corruptions_the_earlier_rule_is_told(void **state) {
    (void)state;
    case_plan plan;
    route_case *c = new_case();
    unsigned pairs = 0;
    for (uint64_t seed = 0; seed < 20 * RANDOM_CASES; seed++) {
        read_plan(seed, &plan);
        const corruption *first = &plan.corruptions[0], *second = &plan.corruptions[1];
        const bool in_order = first->kind <= second->kind;
        const corruption *told = in_order ? first : second;
        if (second->kind == CORRUPT_NOTHING || told->kind >= CORRUPT_ROWS || !takes_effect(told, &plan))
            continue;
        plan_carry_out(&plan, c);
        assert_int_equal(c->expected.status, status_of_kind[told->kind]);
        pairs++;
    }
    assert_true(pairs > 1000);
    free(c);
}

static void legal_cases_are_legal(void **state) {
    (void)state;
    route_case *c = new_case();
    for (uint64_t seed = 0; seed < RANDOM_CASES; seed++) {
        draw_from_seed(seed, NULL, c);
        const cpr_error e = route_case_expected(c);
        assert_int_equal(e.status, c->expected.status);
        assert_int_equal(e.index, c->expected.index);
        assert_int_equal(e.got, c->expected.got);
        assert_int_equal(e.wanted, c->expected.wanted);
    }
    free(c);
}

/*==============================================================================
 * MARK: - The encoder
 *============================================================================*/

static void assert_encoder_inverts(const route_case *c, route_case *again) {
    uint8_t bytes[CHOICE_LOG_BYTES], canonical[CHOICE_LOG_BYTES];
    size_t length = 0, canonical_length = 0;
    if (!route_case_encode(c, bytes, sizeof bytes, &length)) {
        char *text = text_of(c);
        fail_msg("cannot encode %s", text);
    }
    draw_from_bytes(bytes, length, again);
    assert_true(route_case_equal(c, again));
    assert_true(route_case_encode(again, canonical, sizeof canonical, &canonical_length));
    assert_int_equal(length, canonical_length);
    assert_memory_equal(bytes, canonical, length);
}

static void drawn_cases_are_encoded(void **state) {
    (void)state;
    route_case *c = new_case(), *again = new_case();
    for (uint64_t seed = 0; seed < 5 * RANDOM_CASES; seed++) {
        draw_from_seed(seed, NULL, c);
        assert_encoder_inverts(c, again);
    }
    free(c);
    free(again);
}

/* Random choices are small in places where bytes are not. */
static void any_bytes_are_encoded(void **state) {
    (void)state;
    uint64_t random = 3;
    route_case *c = new_case(), *again = new_case();
    for (int i = 0; i < RANDOM_CASES; i++) {
        uint8_t bytes[300];
        const size_t length = random_next(&random) % sizeof bytes;
        for (size_t at = 0; at < length; at++)
            bytes[at] = (uint8_t)(random_next(&random) | (i % 2 ? 0 : 1));
        draw_from_bytes(bytes, length, c);
        assert_encoder_inverts(c, again);
    }
    free(c);
    free(again);
}

static void exhaustive_cases_are_encoded(const case_bounds *bounds, uint64_t wanted, uint64_t every) {
    odometer o;
    uint64_t cases = 0;
    route_case *c = new_case(), *again = new_case();
    odometer_start(&o);
    do {
        choices from = choices_from_odometer(&o, NULL);
        route_case_draw(&from, bounds, c);
        if (cases++ % every == 0)
            assert_encoder_inverts(c, again);
    } while (odometer_next(&o));
    assert_int_equal(cases, wanted);
    free(c);
    free(again);
}

static void small_cases_are_encoded(void **state) {
    (void)state;
    exhaustive_cases_are_encoded(&CASE_BOUNDS_EXHAUSTIVE, 127875, 1);
}

static void small_wrong_cases_are_encoded(void **state) {
    (void)state;
    exhaustive_cases_are_encoded(&CASE_BOUNDS_CORRUPTED, 763602, 7);
}

static void encode_text_case(const int64_t *entries, int64_t count, int64_t cp_size, cpr_status status,
                             bool encodable) {
    uint8_t bytes[CHOICE_LOG_BYTES];
    size_t length = 0;
    route_case *c = new_case();
    memset(c, 0, sizeof *c);
    if (count > 0)
        memcpy(c->cu, entries, (size_t)count * sizeof *entries);
    c->entries = count;
    c->stride = 1;
    c->rows = CPR_ROWS_UNCHECKED;
    c->geometry.cp_size = cp_size;
    c->target = CPR_CONTIGUOUS;
    c->expected.status = status;
    c->expected_known = status == CPR_OK;
    assert_int_equal(route_case_encode(c, bytes, sizeof bytes, &length), encodable);
    assert_int_equal(encodable ? route_case_encode(c, bytes, length - 1, &length) : false, false);
    free(c);
}

static void text_cases_are_encoded_where_possible(void **state) {
    (void)state;
    static const struct {
        int64_t entries[8];
        int64_t count, cp_size;
        cpr_status status;
        bool encodable;
    } cases[] = {
        {{0, 4, 16}, 3, 2, CPR_OK, true},
        {{0, 7}, 2, 2, CPR_NOT_DIVISIBLE_2CP, true},
        {{0, 6, 16}, 3, 2, CPR_NOT_DIVISIBLE_2CP, true},
        {{0, 2, 8}, 3, 2, CPR_NOT_DIVISIBLE_2CP, true},
        {{4, 12}, 2, 2, CPR_NONZERO_START, true},
        {{0, 4, 8, -1, -1}, 5, 2, CPR_DECREASING, true},
        {{0}, 0, 2, CPR_EMPTY_CU_SEQLENS, true},
        {{0, 4}, 2, 0, CPR_BAD_CP_SIZE, true},
        {{0, 4}, 2, -7, CPR_BAD_CP_SIZE, false},            /* a size that no corruption makes */
        {{0, 400}, 2, 2, CPR_OK, false},                    /* longer than what is drawn */
        {{0, 4, 8, -3, -9}, 5, 2, CPR_DECREASING, false},   /* two different decreases */
        {{0, 1, 2, 3}, 4, 2, CPR_NOT_DIVISIBLE_2CP, false}, /* three things wrong */
        {{0, 4}, 2, 2, CPR_NOT_DIVISIBLE_CP, false},        /* an error that it does not meet */
        {{0, INT64_MAX}, 2, 1, CPR_OK, false},
        {{0, INT64_MIN, INT64_MAX}, 3, 2, CPR_DECREASING, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        encode_text_case(cases[i].entries, cases[i].count, cases[i].cp_size, cases[i].status,
                         cases[i].encodable);
    static const int64_t many[CASE_MAX_SEQUENCES + 2];
    encode_text_case(many, CASE_MAX_SEQUENCES + 2, 1, CPR_OK, false);
}

/*==============================================================================
 * MARK: - Cases in memory
 *============================================================================*/

static int64_t read_entry(const cpr_cu_seqlens *cu, int64_t i) {
    if (cu->dtype == CPR_INT32)
        return ((const int32_t *)cu->data)[i * cu->stride];
    return ((const int64_t *)cu->data)[i * cu->stride];
}

static void boundaries_read_back(void **state) {
    (void)state;
    route_case *c = new_case();
    for (uint64_t seed = 0; seed < RANDOM_CASES; seed++) {
        draw_from_seed(seed, NULL, c);
        boundaries b = boundaries_make(c);
        const cpr_cu_seqlens *cu = &b.request.cu_seqlens;
        assert_int_equal(cu->count, c->entries);
        assert_int_equal(b.request.source, c->source);
        assert_int_equal(b.request.geometry.cp_rank, c->geometry.cp_rank);
        assert_int_equal(b.block == NULL, c->entries == 0);
        for (int64_t i = 0; i < c->entries; i++)
            assert_int_equal(read_entry(cu, i), c->cu[i]);
        boundaries_free(&b);
    }
    free(c);
}

static void gaps_are_no_boundaries(void **state) {
    (void)state;
    route_case *c = new_case();
    draw_from_seed(1, NULL, c);
    c->entries = 3;
    c->cu[0] = 0, c->cu[1] = 8, c->cu[2] = 16;
    for (c->stride = -3; c->stride <= 3; c->stride += 6) {
        for (int dtype = CPR_INT32; dtype <= CPR_INT64; dtype++) {
            c->dtype = (cpr_dtype)dtype;
            boundaries b = boundaries_make(c);
            cpr_cu_seqlens dense = b.request.cu_seqlens;
            dense.stride = c->stride / 3;
            for (int64_t i = 0; i < 7; i++)
                assert_int_equal(read_entry(&dense, i), i % 3 == 0 ? c->cu[i / 3] : (c->cu[i / 3] ^ 1));
            boundaries_free(&b);
        }
    }
    free(c);
}

static void wide_entries_are_handed_over_wide(void **state) {
    (void)state;
    route_case *c = new_case();
    draw_from_seed(1, NULL, c);
    c->dtype = CPR_INT32;
    c->stride = 1;
    c->entries = 2;
    c->cu[0] = 0, c->cu[1] = INT64_C(1) << 40;
    boundaries b = boundaries_make(c);
    assert_int_equal(b.request.cu_seqlens.dtype, CPR_INT64);
    assert_int_equal(read_entry(&b.request.cu_seqlens, 1), INT64_C(1) << 40);
    boundaries_free(&b);
    free(c);
}

static void copies_are_equal_until_changed(void **state) {
    (void)state;
    route_case *a = new_case(), *b = new_case();
    for (uint64_t seed = 0; seed < 1000; seed++) {
        draw_from_seed(seed, NULL, a);
        route_case_copy(b, a);
        assert_true(route_case_equal(a, b));
        b->salt++;
        assert_false(route_case_equal(a, b));
        route_case_copy(b, a);
        if (b->entries > 0)
            b->cu[b->entries - 1] ^= 1;
        else
            b->expected.got ^= 1;
        assert_false(route_case_equal(a, b));
    }
    free(a);
    free(b);
}

/*==============================================================================
 * MARK: - Pictures
 *============================================================================*/

static char *picture_of(const route_case *c, bool colour) {
    char *text;
    FILE *out = open_text(&text);
    show_case(out, c, colour);
    fclose(out);
    return text;
}

static void strip_colour(char *text) {
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (*from == '\x1b')
            from += strcspn(from, "m");
        else
            *to++ = *from;
    }
    *to = '\0';
}

static void pictures_fit_80_columns_and_colour_changes_nothing(void **state) {
    (void)state;
    route_case *c = new_case();
    for (uint64_t seed = 0; seed < 2000; seed++) {
        draw_from_seed(seed, NULL, c);
        char *plain = picture_of(c, false), *coloured = picture_of(c, true);
        strip_colour(coloured);
        assert_string_equal(plain, coloured);
        for (const char *line = plain; *line; line = strchr(line, '\n') + 1)
            assert_true(strcspn(line, "\n") <= COLUMNS);
        free(plain);
        free(coloured);
    }
    free(c);
}

static void picture_of_golden(void **state) {
    (void)state;
    route_case *c = new_case();
    draw_from_bytes((const uint8_t *)"\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\1\0\1\3\0", 22, c);
    char *picture = picture_of(c, false);
    assert_string_equal(picture, "  rank 0 of 2, zigzag -> contiguous, int32\n"
                                 "  cu_seqlens [0, 4, 16]\n"
                                 "  expected: ok\n"
                                 "zigzag\n"
                                 "  rank 0  a..abbb......bbb  0 3-6 13-15\n"
                                 "  rank 1  .aa....bbbbbb...  1-2 7-12\n"
                                 "contiguous\n"
                                 "  rank 0  aaaabbbb........  0-7\n"
                                 "  rank 1  ........bbbbbbbb  8-15\n");
    free(picture);
    free(c);
}

static void arrow_points_at_the_entry(void **state) {
    (void)state;
    route_case *c = new_case();
    draw_from_bytes((const uint8_t *)"\1\0\0\0\0\0\0\0\0\0\76\1\2\0\0\0\1\1\0\1\3\0\1\1\0", 25, c);
    char *picture = picture_of(c, false);
    assert_string_equal(picture, "  rank 0 of 2, zigzag -> contiguous, int32\n"
                                 "  cu_seqlens [0, 4, 19, 23]\n"
                                 "                    ^\n"
                                 "  expected: not_divisible_2cp (index 1, got 15, want 4)\n");
    free(picture);
    free(c);
}

static void large_cases_are_pictures_too(void **state) {
    (void)state;
    route_case *c = new_case();
    memset(c, 0, sizeof *c);
    c->entries = 1000;
    for (int64_t i = 1; i < c->entries; i++)
        c->cu[i] = i << 50;
    c->geometry.cp_size = INT64_C(1) << 30;
    c->stride = 1;
    c->target = CPR_FLAT_ZIGZAG;
    c->expected_known = true;
    char *picture = picture_of(c, false);
    assert_non_null(strstr(picture, "and 744 more]"));
    assert_non_null(strstr(picture, "flat_zigzag, a letter is"));
    free(picture);
    FILE *out = open_text(&picture);
    show_layout(out, c, CPR_ZIGZAG, -1, false, COLUMNS);
    fclose(out);
    assert_non_null(strstr(picture, "and 1073741760 ranks more"));
    free(picture);
    free(c);
}

/*==============================================================================
 * MARK: - Verdicts and the registry
 *============================================================================*/

static void first_failure_stays(void **state) {
    (void)state;
    verdict v = {.outcome = LAW_PASSED};
    assert_false(law_skip(&v, "not for this"));
    assert_int_equal(v.outcome, LAW_NOT_APPLICABLE);
    assert_false(law_fail(&v, "first", "%d", 1));
    assert_false(law_fail(&v, "second", "%d", 2));
    assert_false(law_skip(&v, "third"));
    assert_int_equal(v.outcome, LAW_FAILED);
    assert_string_equal(v.reason, "first");
    assert_string_equal(v.details, "1");
}

static void laws_have_names(void **state) {
    (void)state;
    for (size_t i = 0; i < law_count; i++)
        assert_ptr_equal(law_named(laws[i].id), &laws[i]);
    assert_null(law_named("no such law"));
}

static void bytes_are_judged(void **state) {
    (void)state;
    verdict v;
    law_judge_bytes(&laws[0], (const uint8_t *)"\1\0\0\0", 4, NULL, &v);
    assert_int_equal(v.outcome, LAW_PASSED);
}

/*==============================================================================
 * MARK: - The runner
 *============================================================================*/

static void judge_passes(const void *subject, verdict *v) {
    const route_case *c = subject;
    if (c->geometry.cp_size == 2)
        law_skip(v, "not for two");
}

static void judge_fails_from_three(const void *subject, verdict *v) {
    const route_case *c = subject;
    if (c->expected.status == CPR_OK && c->geometry.cp_size >= 3 && c->entries >= 3)
        law_fail(v, "from three", "%d ranks", (int)c->geometry.cp_size);
}

static void judge_aborts_from_three(const void *subject, verdict *v) {
    const route_case *c = subject;
    (void)v;
    if (c->expected.status == CPR_OK && c->geometry.cp_size >= 3 && c->entries >= 3)
        abort();
}

/* A crash hides behind the failure that is found first: shrinking runs into it. */
static void judge_aborts_below_four(const void *subject, verdict *v) {
    const route_case *c = subject;
    if (c->geometry.cp_size >= 4 && c->salt > 99)
        law_fail(v, "from four", "%d ranks", (int)c->geometry.cp_size);
    else if (c->geometry.cp_size == 3 && c->salt > 99)
        abort();
}

static void judge_gives_up(const void *subject, verdict *v) {
    (void)subject, (void)v;
    _Exit(3);
}

static law law_judging(void (*judge)(const void *subject, verdict *v)) {
    return (law){.id = "planted", .meaning = "for tests", .family = &route_family, .judge = judge};
}

static bool count_calls(void *context, const law *l, uint64_t cases, uint64_t applicable, double seconds) {
    (void)l, (void)seconds;
    assert_true(applicable <= cases);
    (*(int *)context)++;
    return true;
}

static bool interrupt(void *context, const law *l, uint64_t cases, uint64_t applicable, double seconds) {
    (void)context, (void)l, (void)cases, (void)applicable, (void)seconds;
    return false;
}

static void runs_count_cases(void **state) {
    (void)state;
    const law l = law_judging(judge_passes);
    for (int in_process = 0; in_process < 2; in_process++) {
        int calls = 0;
        const run_options options = {
            .seed = 5, .cases = 3000, .in_process = in_process, .progress = count_calls, .context = &calls};
        const run_report report = run_law(&l, &options);
        assert_false(report.failed);
        assert_int_equal(report.cases, 3000);
        assert_true(report.not_applicable > 0 && report.not_applicable < 3000);
        assert_true(calls >= 1);
    }
}

static void runs_end_in_time_or_when_told(void **state) {
    (void)state;
    const law l = law_judging(judge_passes);
    for (int in_process = 0; in_process < 2; in_process++) {
        const run_options short_run = {.seconds = 0.05, .in_process = in_process};
        assert_in_range((int)(run_law(&l, &short_run).seconds * 1000), 50, 1500);
        const run_options endless = {.in_process = in_process, .progress = interrupt};
        assert_true(run_law(&l, &endless).seconds < 5);
    }
}

static void assert_shrunk(const run_report *report, const char *reason, uint8_t cp_size_byte) {
    assert_true(report->failed);
    assert_string_equal(report->verdict.reason, reason);
    assert_true(report->length > 0);
    assert_int_equal(report->bytes[0], cp_size_byte);
}

static void failures_are_shrunk(void **state) {
    (void)state;
    const law l = law_judging(judge_fails_from_three);
    for (int in_process = 0; in_process < 2; in_process++) {
        const run_options options = {.seed = 1, .cases = 1000, .in_process = in_process};
        const run_report report = run_law(&l, &options);
        assert_shrunk(&report, "from three", 2);
        assert_int_equal(report.length, 16 + 3 + 3 + 1);
        assert_string_equal(report.verdict.details, "3 ranks");
    }
}

static void failures_of_exhaustive_runs_are_bytes_too(void **state) {
    (void)state;
    const law l = law_judging(judge_fails_from_three);
    const run_options options = {.exhaustive = &CASE_BOUNDS_CORRUPTED};
    const run_report report = run_law(&l, &options);
    assert_shrunk(&report, "from three", 2);
}

static void crashes_are_failures(void **state) {
    (void)state;
    const law l = law_judging(judge_aborts_from_three);
    const run_options options = {.seed = 1, .cases = 1000};
    const run_report report = run_law(&l, &options);
    assert_true(report.failed);
    assert_non_null(strstr(report.verdict.reason, "crash"));
    assert_int_equal(report.bytes[0], 2);
    assert_int_equal(report.length, 16 + 3 + 3 + 1);
}

static void crashes_while_shrinking_are_survived(void **state) {
    (void)state;
    const law l = law_judging(judge_aborts_below_four);
    run_options options = {.cases = 1};
    run_report report = {.failed = false};
    while (!report.failed || strcmp(report.verdict.reason, "from four") != 0) {
        options.seed++;
        report = run_law(&l, &options);
    }
    assert_shrunk(&report, "from four", 3);
}

static void giving_up_is_a_failure(void **state) {
    (void)state;
    const law l = law_judging(judge_gives_up);
    const run_options options = {.cases = 10};
    const run_report report = run_law(&l, &options);
    assert_true(report.failed);
    assert_int_equal(report.bytes[0], 0);
}

static void reports_are_shown(void **state) {
    (void)state;
    const law l = law_judging(judge_fails_from_three);
    const run_options options = {.seed = 1, .cases = 1000};
    const run_report report = run_law(&l, &options);
    char *text;
    FILE *out = open_text(&text);
    run_report_show(out, &l, &report, false);
    fclose(out);
    assert_non_null(strstr(text, "from three"));
    assert_non_null(strstr(text, "cu_seqlens [0, 0, 0]"));
    assert_non_null(strstr(text, "{\"id\":\"planted-"));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_have_fixed_widths),
        cmocka_unit_test(choices_of_bytes_are_total),
        cmocka_unit_test(logs_choose_the_same_again),
        cmocka_unit_test(full_logs_say_so),
        cmocka_unit_test(records_beyond_the_log_are_left_out),
        cmocka_unit_test(odometer_counts_through_everything),
        cmocka_unit_test(odometer_has_an_end),
        cmocka_unit_test(bytes_mean_what_they_meant),
        cmocka_unit_test(format_version_is_pinned),
        cmocka_unit_test(drawn_cases_stay_within_bounds),
        cmocka_unit_test(long_packs_end_in_empty_slots),
        cmocka_unit_test(corruptions_are_what_they_say),
        cmocka_unit_test(of_two_corruptions_the_earlier_rule_is_told),
        cmocka_unit_test(legal_cases_are_legal),
        cmocka_unit_test(drawn_cases_are_encoded),
        cmocka_unit_test(any_bytes_are_encoded),
        cmocka_unit_test(small_cases_are_encoded),
        cmocka_unit_test(small_wrong_cases_are_encoded),
        cmocka_unit_test(text_cases_are_encoded_where_possible),
        cmocka_unit_test(boundaries_read_back),
        cmocka_unit_test(gaps_are_no_boundaries),
        cmocka_unit_test(wide_entries_are_handed_over_wide),
        cmocka_unit_test(copies_are_equal_until_changed),
        cmocka_unit_test(pictures_fit_80_columns_and_colour_changes_nothing),
        cmocka_unit_test(picture_of_golden),
        cmocka_unit_test(arrow_points_at_the_entry),
        cmocka_unit_test(large_cases_are_pictures_too),
        cmocka_unit_test(first_failure_stays),
        cmocka_unit_test(laws_have_names),
        cmocka_unit_test(bytes_are_judged),
        cmocka_unit_test(runs_count_cases),
        cmocka_unit_test(runs_end_in_time_or_when_told),
        cmocka_unit_test(failures_are_shrunk),
        cmocka_unit_test(failures_of_exhaustive_runs_are_bytes_too),
        cmocka_unit_test(crashes_are_failures),
        cmocka_unit_test(crashes_while_shrinking_are_survived),
        cmocka_unit_test(giving_up_is_a_failure),
        cmocka_unit_test(reports_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
