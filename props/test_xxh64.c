/* SPDX-License-Identifier: Apache-2.0 */
/* The hash against answers of the xxHash library 0.8.1: XXH64 over the same words, lowest byte first. */
#include "example.h"

#include "../engine/xxh64.h"

enum { MOST_WORDS = 300 };

static const struct {
    int64_t words;
    uint64_t seed, digest;
} VECTORS[] = {
    {0, UINT64_C(0x0000000000000000), UINT64_C(0xef46db3751d8e999)},
    {1, UINT64_C(0x0000000000000000), UINT64_C(0xb4ad8a2a3728b057)},
    {3, UINT64_C(0x0000000000000000), UINT64_C(0x4f21ee930608f3c0)},
    {4, UINT64_C(0x0000000000000000), UINT64_C(0xcc8de5acbc49385e)},
    {5, UINT64_C(0x0000000000000000), UINT64_C(0x94b72a56aaf0d5bb)},
    {8, UINT64_C(0x0000000000000000), UINT64_C(0xb5ad704c74f6ff7c)},
    {31, UINT64_C(0x0000000000000000), UINT64_C(0xcf5c7bf6afe372f4)},
    {300, UINT64_C(0x0000000000000000), UINT64_C(0x6ba99b4706fa8992)},
    {0, UINT64_C(0x9e3779b185ebca87), UINT64_C(0x6ec6d05f61c7e7a7)},
    {1, UINT64_C(0x9e3779b185ebca87), UINT64_C(0x32f385a544c29a26)},
    {3, UINT64_C(0x9e3779b185ebca87), UINT64_C(0xa4ade713bc0d6bf4)},
    {4, UINT64_C(0x9e3779b185ebca87), UINT64_C(0x471b0376c5cfe86e)},
    {5, UINT64_C(0x9e3779b185ebca87), UINT64_C(0xf81b43d659921834)},
    {8, UINT64_C(0x9e3779b185ebca87), UINT64_C(0x83d4eeaaa5e7d6ac)},
    {31, UINT64_C(0x9e3779b185ebca87), UINT64_C(0x1df7aa521c90e366)},
    {300, UINT64_C(0x9e3779b185ebca87), UINT64_C(0x4c08cab3efc260b4)},
};

static void digests_are_those_of_the_library(void **state) {
    (void)state;
    int64_t words[MOST_WORDS];
    for (int64_t i = 0; i < MOST_WORDS; i++)
        words[i] = (int64_t)(UINT64_C(0x9E3779B97F4A7C15) * (uint64_t)(i + 1));
    for (int64_t i = 0; i < LENGTH_OF(VECTORS); i++)
        assert_true(cpr_xxh64_of(words, VECTORS[i].words, VECTORS[i].seed) == VECTORS[i].digest);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(digests_are_those_of_the_library)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
