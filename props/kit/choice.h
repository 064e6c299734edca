/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choices: the stream of small decisions that a case is made from.
 *
 * One decoder turns choices into a case; where the choices come from is what differs between a random test,
 * a fuzzer, an exhaustive enumeration and a replay. A choice is total (past the end of the bytes it is 0, and every
 * byte string decodes), monotone (0 is the simplest, more is less simple) and of fixed width (1 byte for a maximum up to
 * 255, else 2, 4 or 8, big-endian, value modulo maximum + 1), so one shrinker over bytes serves all sources.
 */
#ifndef CPROUTE_PROPS_CHOICE_H
#define CPROUTE_PROPS_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHOICE_LOG_BYTES = 2048, CHOICE_LOG_RECORDS = 512, ODOMETER_DIGITS = 128 };

/* What was chosen, in the bytes that would choose it again, and where each repeated record lies, so that a
 * shrinker can drop whole records. A case whose log is `full` can be judged but not replayed from it. */
typedef struct choice_log {
    uint8_t bytes[CHOICE_LOG_BYTES];
    size_t length;
    struct {
        uint32_t offset, length;
    } records[CHOICE_LOG_RECORDS];
    size_t record_count;
    bool full;
} choice_log;

/* Counts through every combination of choices: each run of the decoder is one combination. */
typedef struct odometer {
    struct {
        uint64_t value, maximum;
    } digits[ODOMETER_DIGITS];
    size_t count, position;
} odometer;

typedef struct choices {
    enum { CHOICES_BYTES, CHOICES_RANDOM, CHOICES_ODOMETER } source;
    const uint8_t *bytes;
    size_t length, position;
    uint64_t random_state;
    odometer *odometer;
    choice_log *log; /* may be NULL */
} choices;

choices choices_from_bytes(const uint8_t *bytes, size_t length, choice_log *log);
choices choices_from_seed(uint64_t seed, choice_log *log);
choices choices_from_odometer(odometer *odometer, choice_log *log);

/* The next choice, 0 to maximum inclusive. */
uint64_t choose(choices *choices, uint64_t maximum);

/* Bytes that a choice with that maximum takes. */
unsigned choice_width(uint64_t maximum);

/* Mark the choices of one record of a repeated group (its "more" choice included). Records do not nest. */
void choice_record_begin(choices *choices);
void choice_record_end(choices *choices);

/* Before the first run of the decoder, and between runs: false when every combination was there. */
void odometer_start(odometer *odometer);
bool odometer_next(odometer *odometer);

/* splitmix64: the next number of a stream that any 64-bit seed starts. */
uint64_t random_next(uint64_t *state);

#endif
