/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine asks an allocator for: sizes that do not wrap, and as many bits as there are numbers. */
#include "example.h"

#include "../engine/allocator.h"
#include "../engine/bits.h"

/* Writes down what it is asked for, and has nothing. */
typedef struct request_book {
    int64_t requests;
    size_t size;
} request_book;

static void *note_request(void *context, size_t size) {
    request_book *book = context;
    book->requests++;
    book->size = size;
    return NULL;
}

static void give_back_nothing(void *context, void *memory, size_t size) {
    (void)context;
    (void)memory;
    (void)size;
    fail();
}

static void expect_asked(int64_t count, size_t item_size, bool fits) {
    request_book book = {0};
    const cpr_allocator allocator = {note_request, give_back_nothing, &book};
    assert_null(cpr_allocate(&allocator, count, item_size));
    assert_int_equal(book.requests, fits);
    assert_true(book.size == (fits ? (size_t)count * item_size : 0));
}

static void sizes_that_wrap_are_not_asked_for(void **state) {
    (void)state;
    static const size_t item_sizes[] = {3, 8, 40};
    for (int64_t i = 0; i < LENGTH_OF(item_sizes); i++) {
        const int64_t most = (int64_t)(SIZE_MAX / item_sizes[i]);
        expect_asked(1, item_sizes[i], true);
        expect_asked(most, item_sizes[i], true);
        expect_asked(most + 1, item_sizes[i], false);
        expect_asked(INT64_MAX, item_sizes[i], false);
    }
}

static void no_memory_is_not_given_back(void **state) {
    (void)state;
    const cpr_allocator allocator = {note_request, give_back_nothing, NULL};
    cpr_release(&allocator, NULL, 1, 8);
}

static void bits_take_a_word_for_64_numbers(void **state) {
    (void)state;
    static const struct {
        int64_t count;
        size_t words;
    } examples[] = {{1, 1}, {63, 1}, {64, 1}, {65, 2}, {126, 2}, {128, 2}, {129, 3}, {4096, 64}};
    for (int64_t i = 0; i < LENGTH_OF(examples); i++) {
        ledger book;
        const cpr_allocator allocator = ledger_allocator(&book);
        cpr_bits bits;
        assert_true(cpr_bits_begin(&bits, examples[i].count, &allocator));
        assert_int_equal(book.held, examples[i].words * sizeof(uint64_t));
        cpr_bits_end(&bits);
        assert_int_equal(book.held, 0);
        book.fail_at = book.allocations;
        assert_false(cpr_bits_begin(&bits, examples[i].count, &allocator));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_wrap_are_not_asked_for),
        cmocka_unit_test(no_memory_is_not_given_back),
        cmocka_unit_test(bits_take_a_word_for_64_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
