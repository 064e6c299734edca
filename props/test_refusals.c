/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are refused: every rule, its details, and which of two rules comes first, for every builder. */
#include "example.h"

typedef struct refusal {
    const char *what;
    int64_t boundaries[6];
    int64_t count;
    cpr_geometry geometry;
    cpr_error error;
    cpr_layout source; /* zigzag unless said otherwise */
    bool to_zigzag;    /* else to contiguous */
    cpr_dtype dtype;   /* CPR_INT32 stands for both integer types */
    cpr_device device;
    bool no_data;
    bool rows_known;
    int64_t rows;
    int64_t tp_size;
} refusal;

#define PACK(...)                                                                                            \
    .boundaries = {__VA_ARGS__}, .count = (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static const refusal REFUSALS[] = {
    {"no rank", PACK(0, 4, 8), .geometry = {0, 0}, .error = {CPR_BAD_CP_SIZE, -1, 0, 1}},
    {"fewer ranks than none", PACK(0, 4, 8), .geometry = {INT64_MIN, 0},
     .error = {CPR_BAD_CP_SIZE, -1, INT64_MIN, 1}},
    {"too many ranks", PACK(0, 4, 8), .geometry = {CPR_CP_SIZE_MAX + 1, 0},
     .error = {CPR_BAD_CP_SIZE, -1, CPR_CP_SIZE_MAX + 1, CPR_CP_SIZE_MAX}},
    {"as many ranks as a number holds", PACK(0, 4, 8), .geometry = {INT64_MAX, 0},
     .error = {CPR_BAD_CP_SIZE, -1, INT64_MAX, CPR_CP_SIZE_MAX}},
    {"cp_size before cp_rank", PACK(0, 4, 8), .geometry = {-1, -1}, .error = {CPR_BAD_CP_SIZE, -1, -1, 1}},

    {"rank -1, which a public builder takes", PACK(0, 4, 8), .geometry = {2, -1},
     .error = {CPR_BAD_RANK, -1, -1, 2}},
    {"the first rank that is none", PACK(0, 4, 8), .geometry = {2, 2}, .error = {CPR_BAD_RANK, -1, 2, 2}},
    {"cp_rank before layouts", PACK(0, 4, 8), .geometry = {2, 9}, .error = {CPR_BAD_RANK, -1, 9, 2},
     .source = CPR_LAYOUT_COUNT},

    {"an unknown source", PACK(0, 4, 8), .geometry = {2, 0},
     .error = {CPR_BAD_LAYOUT, 0, CPR_LAYOUT_COUNT, CPR_LAYOUT_COUNT}, .source = CPR_LAYOUT_COUNT},
    {"a negative source", PACK(0, 4, 8), .geometry = {2, 0},
     .error = {CPR_BAD_LAYOUT, 0, -1, CPR_LAYOUT_COUNT}, .source = (cpr_layout)-1},
    {"layouts before the dtype", PACK(0, 4, 8), .geometry = {2, 0},
     .error = {CPR_BAD_LAYOUT, 0, 77, CPR_LAYOUT_COUNT}, .source = (cpr_layout)77, .dtype = CPR_FLOAT32},

    {"floats", PACK(0, 4, 8), .geometry = {2, 0}, .error = {CPR_DTYPE, -1, 4, CPR_INT64},
     .dtype = CPR_FLOAT32},
    {"a dtype without a name", PACK(0, 4, 8), .geometry = {2, 0}, .error = {CPR_DTYPE, -1, -3, CPR_INT64},
     .dtype = (cpr_dtype)-3},
    {"the dtype before the device", PACK(0, 4, 8), .geometry = {2, 0}, .error = {CPR_DTYPE, -1, 6, CPR_INT64},
     .dtype = CPR_OTHER_DTYPE, .device = CPR_CUDA},

    {"a GPU's memory", PACK(0, 4, 8), .geometry = {2, 0}, .error = {CPR_DEVICE, -1, 1, CPR_CPU},
     .device = CPR_CUDA},
    {"somebody's memory", PACK(0, 4, 8), .geometry = {1, 0}, .error = {CPR_DEVICE, -1, 2, CPR_CPU},
     .device = CPR_OTHER_DEVICE},
    {"no memory at all", PACK(0, 4, 8), .geometry = {2, 0}, .error = {CPR_DEVICE, -1, -1, CPR_CPU},
     .no_data = true},
    {"the device before the count", .count = 0, .geometry = {2, 0}, .error = {CPR_DEVICE, -1, 1, CPR_CPU},
     .device = CPR_CUDA},

    {"no entry", .count = 0, .geometry = {2, 0}, .error = {CPR_EMPTY_CU_SEQLENS, -1, 0, 1}},
    {"no entry and no data", .count = 0, .geometry = {2, 0}, .error = {CPR_EMPTY_CU_SEQLENS, -1, 0, 1},
     .no_data = true},
    {"fewer entries than none", .count = -7, .geometry = {2, 0}, .error = {CPR_EMPTY_CU_SEQLENS, -1, -7, 1}},

    {"a rebased slice", PACK(4, 12), .geometry = {2, 0}, .error = {CPR_NONZERO_START, 0, 4, 0}},
    {"a negative start", PACK(-4, 8), .geometry = {1, 0}, .error = {CPR_NONZERO_START, 0, -4, 0}},
    {"the start before the order", PACK(4, 3), .geometry = {2, 0}, .error = {CPR_NONZERO_START, 0, 4, 0}},

    {"padding by -1", PACK(0, 4, 8, -1, -1), .geometry = {2, 0}, .error = {CPR_DECREASING, 3, -1, 8}},
    {"the first of two steps down", PACK(0, 8, 4, 2), .geometry = {1, 0}, .error = {CPR_DECREASING, 2, 4, 8}},
    {"the order before the rows", PACK(0, 8, 4), .geometry = {1, 0}, .error = {CPR_DECREASING, 2, 4, 8},
     .rows_known = true, .rows = 5},

    {"rows beyond the last boundary", PACK(0, 4), .geometry = {2, 0}, .error = {CPR_TOTAL_MISMATCH, -1, 8, 4},
     .rows_known = true, .rows = 8},
    {"a negative row count", PACK(0, 4), .geometry = {2, 0}, .error = {CPR_TOTAL_MISMATCH, -1, -4, 4},
     .rows_known = true, .rows = -4},
    {"rows before divisibility", PACK(0, 3), .geometry = {2, 0}, .error = {CPR_TOTAL_MISMATCH, -1, 0, 3},
     .rows_known = true, .rows = 0},

    {"a ragged sequence, empty slots counted", PACK(0, 0, 4, 4, 14), .geometry = {2, 0},
     .error = {CPR_NOT_DIVISIBLE_2CP, 3, 10, 4}},
    {"the first of two ragged sequences", PACK(0, 6, 12), .geometry = {2, 1},
     .error = {CPR_NOT_DIVISIBLE_2CP, 0, 6, 4}},
    {"a ragged sequence of a target", PACK(0, 4, 6, 8), .geometry = {2, 1},
     .error = {CPR_NOT_DIVISIBLE_2CP, 1, 2, 4}, .source = CPR_CONTIGUOUS, .to_zigzag = true},
    {"sequences, per sequence", PACK(0, 5), .geometry = {2, 1}, .error = {CPR_NOT_DIVISIBLE_2CP, 0, 5, 4},
     .source = CPR_PER_SEQUENCE_CONTIGUOUS},
    {"sequences, heads then tails", PACK(0, 2), .geometry = {2, 1}, .error = {CPR_NOT_DIVISIBLE_2CP, 0, 2, 4},
     .source = CPR_HEADS_THEN_TAILS},
    {"sequences before the stream", PACK(0, 4, 9), .geometry = {2, 1},
     .error = {CPR_NOT_DIVISIBLE_2CP, 1, 5, 4}, .source = CPR_FLAT_ZIGZAG, .to_zigzag = true},
    {"a ragged stream", PACK(0, 1, 6), .geometry = {2, 1}, .error = {CPR_NOT_DIVISIBLE_2CP, -1, 6, 4},
     .source = CPR_FLAT_ZIGZAG},
    {"chunks before ranks", PACK(0, 5), .geometry = {2, 1}, .error = {CPR_NOT_DIVISIBLE_2CP, -1, 5, 4},
     .source = CPR_FLAT_ZIGZAG},
    {"a stream that ranks cannot share", PACK(0, 5, 7), .geometry = {2, 1},
     .error = {CPR_NOT_DIVISIBLE_CP, -1, 7, 2}, .source = CPR_CONTIGUOUS},
    {"divisibility before tensor parallelism", PACK(0, 5), .geometry = {2, 1},
     .error = {CPR_NOT_DIVISIBLE_CP, -1, 5, 2}, .source = CPR_CONTIGUOUS, .tp_size = -1},

    {"rows that tensor parallelism cannot share", PACK(0, 4, 12), .geometry = {2, 1},
     .error = {CPR_NOT_DIVISIBLE_CP_TP, -1, 6, 4}, .tp_size = 4},
    {"the same of a lone rank", PACK(0, 5), .geometry = {1, 0}, .error = {CPR_NOT_DIVISIBLE_CP_TP, -1, 5, 2},
     .tp_size = 2},
    {"a negative tp_size", PACK(0, 4), .geometry = {2, 0}, .error = {CPR_NOT_DIVISIBLE_CP_TP, -1, 2, -1},
     .tp_size = -1},
    {"a negative tp_size and no token", PACK(0), .geometry = {2, 0},
     .error = {CPR_NOT_DIVISIBLE_CP_TP, -1, 0, INT64_MIN}, .tp_size = INT64_MIN},

    {"lengths near the end of the numbers", PACK(0, 4, INT64_MAX),
     .geometry = {CPR_CP_SIZE_MAX, CPR_CP_SIZE_MAX - 1},
     .error = {CPR_NOT_DIVISIBLE_2CP, 0, 4, 2 * CPR_CP_SIZE_MAX}},
    {"the smallest number", PACK(0, INT64_MIN), .geometry = {2, 0},
     .error = {CPR_DECREASING, 1, INT64_MIN, 0}},
};

static cpr_route_request request_with(const refusal *r, cpr_dtype dtype, const void *data) {
    return (cpr_route_request){
        .cu_seqlens = {.data = r->no_data ? NULL : data,
                       .count = r->count,
                       .stride = 1,
                       .dtype = dtype,
                       .device = r->device},
        .rows = r->rows_known ? r->rows : CPR_ROWS_UNCHECKED,
        .geometry = r->geometry,
        .source = r->source,
        .target = r->to_zigzag ? CPR_ZIGZAG : CPR_CONTIGUOUS,
        .tp_size = r->tp_size,
    };
}

static bool same_error(const cpr_error *a, const cpr_error *b) {
    return a->status == b->status && a->index == b->index && a->got == b->got && a->wanted == b->wanted;
}

static void expect_refused(const char *what, const cpr_route_request *request, const cpr_error *wanted) {
    for (int b = 0; b < BUILDER_COUNT; b++) {
        cpr_route untouched;
        cpr_route *route = &untouched;
        cpr_error error = {CPR_OK, 7, 7, 7};
        ledger book;
        const cpr_allocator allocator = ledger_allocator(&book);
        const cpr_status status = BUILDERS[b](request, &allocator, &route, &error);
        if (status != wanted->status || !same_error(&error, wanted))
            print_error("%s, builder %d:\n", what, b);
        assert_int_equal(status, wanted->status);
        expect_error(&error, wanted->status, wanted->index, wanted->got, wanted->wanted);
        assert_int_equal(BUILDERS[b](request, NULL, &route, NULL), wanted->status);
        assert_ptr_equal(route, &untouched);
        assert_int_equal(book.allocations, 0);
    }
}

static bool fits_int32(const refusal *r) {
    for (int64_t i = 0; i < r->count; i++) {
        if (r->boundaries[i] < INT32_MIN || r->boundaries[i] > INT32_MAX)
            return false;
    }
    return true;
}

static void every_rule_refuses_with_its_details(void **state) {
    (void)state;
    for (int64_t i = 0; i < LENGTH_OF(REFUSALS); i++) {
        const refusal *r = &REFUSALS[i];
        const cpr_route_request wide =
            request_with(r, r->dtype == CPR_INT32 ? CPR_INT64 : r->dtype, r->boundaries);
        expect_refused(r->what, &wide, &r->error);
        if (r->dtype == CPR_INT32 && fits_int32(r)) {
            int32_t narrow_boundaries[6];
            for (int64_t k = 0; k < 6; k++)
                narrow_boundaries[k] = (int32_t)r->boundaries[k];
            const cpr_route_request narrow = request_with(r, CPR_INT32, narrow_boundaries);
            expect_refused(r->what, &narrow, &r->error);
        }
    }
}

static void an_unknown_target_is_named(void **state) {
    (void)state;
    static const int64_t boundaries[] = {0, 4, 8};
    cpr_route_request request = request_of(boundaries, 3, (cpr_geometry){2, 0}, CPR_ZIGZAG, CPR_LAYOUT_COUNT);
    expect_refused("an unknown target", &request,
                   &(cpr_error){CPR_BAD_LAYOUT, 1, CPR_LAYOUT_COUNT, CPR_LAYOUT_COUNT});
    request.target = (cpr_layout)-2;
    expect_refused("an unknown target", &request, &(cpr_error){CPR_BAD_LAYOUT, 1, -2, CPR_LAYOUT_COUNT});
    request.source = (cpr_layout)-3;
    expect_refused("an unknown target", &request, &(cpr_error){CPR_BAD_LAYOUT, 0, -3, CPR_LAYOUT_COUNT});
}

static void tensor_parallelism_that_fits_is_no_rule(void **state) {
    (void)state;
    static const int64_t boundaries[] = {0, 4, 12};
    static const int64_t sizes[] = {0, 1, 2, 3, 6};
    cpr_route_request request = request_of(boundaries, 3, (cpr_geometry){2, 1}, CPR_ZIGZAG, CPR_CONTIGUOUS);
    for (int64_t i = 0; i < LENGTH_OF(sizes); i++) {
        request.tp_size = sizes[i];
        for (int b = 0; b < BUILDER_COUNT; b++) {
            cpr_route *route = NULL;
            assert_int_equal(BUILDERS[b](&request, NULL, &route, NULL), CPR_OK);
            cpr_route_free(route);
        }
    }
}

static void expect_no_memory_at_each_allocation(const cpr_route_request *request, build_fn *build) {
    ledger book;
    const cpr_allocator allocator = ledger_allocator(&book);
    cpr_route *route = NULL;
    assert_int_equal(build(request, &allocator, &route, NULL), CPR_OK);
    cpr_route_free(route);
    assert_int_equal(book.held, 0);
    const int64_t allocations = book.allocations;
    assert_true(allocations >= 3);
    for (int64_t k = 0; k < allocations; k++) {
        cpr_route untouched;
        cpr_error error = {CPR_OK, 7, 7, 7};
        route = &untouched;
        book = (ledger){.fail_at = k};
        assert_int_equal(build(request, &allocator, &route, &error), CPR_NO_MEMORY);
        expect_error(&error, CPR_NO_MEMORY, -1, 0, 0);
        assert_ptr_equal(route, &untouched);
        assert_int_equal(book.held, 0);
    }
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    enum { SEQUENCES = 200 }; /* enough for runs that need more memory than a small route does */
    int64_t boundaries[SEQUENCES + 1];
    for (int64_t i = 0; i <= SEQUENCES; i++)
        boundaries[i] = 4 * i;
    for (int target = CPR_PER_SEQUENCE_CONTIGUOUS; target <= CPR_HEADS_THEN_TAILS; target++) {
        for (int b = 0; b < BUILDER_COUNT; b++) {
            for (int64_t entries = 3; entries <= SEQUENCES + 1; entries += SEQUENCES - 2) {
                const cpr_route_request request =
                    request_of(boundaries, entries, (cpr_geometry){2, 0}, CPR_ZIGZAG, (cpr_layout)target);
                expect_no_memory_at_each_allocation(&request, BUILDERS[b]);
            }
        }
    }
}

static void layouts_are_refused_as_routes_to_themselves(void **state) {
    (void)state;
    static const int64_t boundaries[] = {0, 4, 10};
    static const struct {
        int64_t rows;
        cpr_geometry geometry;
        cpr_layout layout;
        cpr_error error;
    } examples[] = {
        {CPR_ROWS_UNCHECKED, {0, 0}, CPR_ZIGZAG, {CPR_BAD_CP_SIZE, -1, 0, 1}},
        {CPR_ROWS_UNCHECKED, {2, 2}, CPR_ZIGZAG, {CPR_BAD_RANK, -1, 2, 2}},
        {CPR_ROWS_UNCHECKED, {2, 0}, CPR_LAYOUT_COUNT, {CPR_BAD_LAYOUT, 0, 5, 5}},
        {9, {2, 0}, CPR_ZIGZAG, {CPR_TOTAL_MISMATCH, -1, 9, 10}},
        {10, {2, 0}, CPR_ZIGZAG, {CPR_NOT_DIVISIBLE_2CP, 1, 6, 4}},
        {10, {2, 0}, CPR_FLAT_ZIGZAG, {CPR_NOT_DIVISIBLE_2CP, -1, 10, 4}},
        {10, {3, 0}, CPR_CONTIGUOUS, {CPR_NOT_DIVISIBLE_CP, -1, 10, 3}},
    };
    const cpr_cu_seqlens cu = cpr_cu_seqlens_int64(boundaries, 3);
    for (int64_t i = 0; i < LENGTH_OF(examples); i++) {
        cpr_intervals untouched;
        cpr_intervals *intervals = &untouched;
        cpr_error error = {CPR_OK, 7, 7, 7};
        assert_int_equal(cpr_layout_intervals(&cu, examples[i].rows, examples[i].geometry, examples[i].layout,
                                              NULL, &intervals, &error),
                         examples[i].error.status);
        expect_error(&error, examples[i].error.status, examples[i].error.index, examples[i].error.got,
                     examples[i].error.wanted);
        assert_ptr_equal(intervals, &untouched);
    }
}

static void intervals_may_find_no_memory(void **state) {
    (void)state;
    static const int64_t boundaries[] = {0, 4, 12};
    const cpr_cu_seqlens cu = cpr_cu_seqlens_int64(boundaries, 3);
    for (int64_t k = 0; k < 2; k++) {
        ledger book;
        const cpr_allocator allocator = ledger_allocator(&book);
        cpr_intervals untouched;
        cpr_intervals *intervals = &untouched;
        cpr_error error = {CPR_OK, 7, 7, 7};
        book.fail_at = k;
        assert_int_equal(
            cpr_layout_intervals(&cu, 12, (cpr_geometry){2, 1}, CPR_ZIGZAG, &allocator, &intervals, &error),
            CPR_NO_MEMORY);
        expect_error(&error, CPR_NO_MEMORY, -1, 0, 0);
        assert_ptr_equal(intervals, &untouched);
        assert_int_equal(book.held, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_refuses_with_its_details),
        cmocka_unit_test(an_unknown_target_is_named),
        cmocka_unit_test(tensor_parallelism_that_fits_is_no_rule),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(layouts_are_refused_as_routes_to_themselves),
        cmocka_unit_test(intervals_may_find_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
