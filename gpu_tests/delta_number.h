/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of the layer on a device: what numbers are computed with, and how rows hold them. */
#ifndef CPROUTE_GPU_TESTS_DELTA_NUMBER_H
#define CPROUTE_GPU_TESTS_DELTA_NUMBER_H

#include "delta_team.h"

#include <cstring>

/* Integers modulo 2^31 - 1, as in_field of consumer/scalar.h has them. */
struct field_number {
    uint32_t value;
};

DELTA_ANYWHERE inline field_number field_of(uint64_t value) {
    return {static_cast<uint32_t>(value % 0x7fffffff)};
}
DELTA_ANYWHERE inline field_number operator+(field_number a, field_number b) {
    return field_of(static_cast<uint64_t>(a.value) + b.value);
}
DELTA_ANYWHERE inline field_number operator-(field_number a, field_number b) {
    return field_of(static_cast<uint64_t>(a.value) + 0x7fffffff - b.value);
}
DELTA_ANYWHERE inline field_number operator*(field_number a, field_number b) {
    return field_of(static_cast<uint64_t>(a.value) * b.value);
}

struct kind_fp32 {
    using number = float;
    using stored = float;
    static DELTA_ANYWHERE number zero() {
        return 0;
    }
    static DELTA_ANYWHERE number one() {
        return 1;
    }
    static DELTA_ANYWHERE number load(stored s) {
        return s;
    }
    static DELTA_ANYWHERE stored store(number n) {
        return n;
    }
};

/* Sums are float; what is stored is rounded to the nearest, ties to even. */
struct kind_bf16 {
    using number = float;
    using stored = uint16_t;
    static DELTA_ANYWHERE number zero() {
        return 0;
    }
    static DELTA_ANYWHERE number one() {
        return 1;
    }
    static DELTA_ANYWHERE number load(stored s) {
        const uint32_t bits = static_cast<uint32_t>(s) << 16;
        float wide;
        memcpy(&wide, &bits, sizeof wide);
        return wide;
    }
    static DELTA_ANYWHERE stored store(number n) {
        uint32_t bits;
        memcpy(&bits, &n, sizeof bits);
        if (n != n) /* not rounded away */
            return 0x7fc0;
        return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
};

struct kind_field {
    using number = field_number;
    using stored = field_number;
    static DELTA_ANYWHERE number zero() {
        return {0};
    }
    static DELTA_ANYWHERE number one() {
        return {1};
    }
    static DELTA_ANYWHERE number load(stored s) {
        return s;
    }
    static DELTA_ANYWHERE stored store(number n) {
        return n;
    }
};

#endif
