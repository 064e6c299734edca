/* SPDX-License-Identifier: Apache-2.0 */
#include "choice.h"

choices choices_from_bytes(const uint8_t *bytes, size_t length, choice_log *log) {
    return (choices){.source = CHOICES_BYTES, .bytes = bytes, .length = length, .log = log};
}

choices choices_from_seed(uint64_t seed, choice_log *log) {
    return (choices){.source = CHOICES_RANDOM, .random_state = seed, .log = log};
}

choices choices_from_odometer(odometer *o, choice_log *log) {
    return (choices){.source = CHOICES_ODOMETER, .odometer = o, .log = log};
}

unsigned choice_width(uint64_t maximum) {
    if (maximum <= UINT8_MAX)
        return 1;
    if (maximum <= UINT16_MAX)
        return 2;
    return maximum <= UINT32_MAX ? 4 : 8;
}

uint64_t random_next(uint64_t *state) {
    uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

static uint64_t within(uint64_t value, uint64_t maximum) {
    return value <= maximum ? value : value % (maximum + 1);
}

static uint64_t next_of_bytes(choices *from, unsigned width) {
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++) {
        const bool past_the_end = from->position >= from->length;
        value = value << 8 | (past_the_end ? 0 : from->bytes[from->position++]);
    }
    return value;
}

static uint64_t next_of_odometer(odometer *o, uint64_t maximum) {
    if (o->position == ODOMETER_DIGITS)
        return 0;
    if (o->position == o->count) {
        o->digits[o->count].value = 0;
        o->digits[o->count].maximum = maximum;
        o->count++;
    }
    return o->digits[o->position++].value;
}

static void log_append(choice_log *log, uint64_t value, unsigned width) {
    if (log->full || width > sizeof log->bytes - log->length) {
        log->full = true;
        return;
    }
    for (unsigned i = width; i-- > 0;)
        log->bytes[log->length++] = (uint8_t)(value >> (8 * i));
}

uint64_t choose(choices *from, uint64_t maximum) {
    const unsigned width = choice_width(maximum);
    uint64_t value = 0;
    switch (from->source) {
    case CHOICES_BYTES:
        value = within(next_of_bytes(from, width), maximum);
        break;
    case CHOICES_RANDOM:
        value = within(random_next(&from->random_state), maximum);
        break;
    case CHOICES_ODOMETER:
        value = next_of_odometer(from->odometer, maximum);
        break;
    }
    if (from->log)
        log_append(from->log, value, width);
    return value;
}

void choice_record_begin(choices *from) {
    choice_log *log = from->log;
    if (log && log->record_count < CHOICE_LOG_RECORDS)
        log->records[log->record_count].offset = (uint32_t)log->length;
}

void choice_record_end(choices *from) {
    choice_log *log = from->log;
    if (!log || log->full || log->record_count == CHOICE_LOG_RECORDS)
        return;
    log->records[log->record_count].length = (uint32_t)log->length - log->records[log->record_count].offset;
    log->record_count++;
}

void odometer_start(odometer *o) {
    o->count = 0;
    o->position = 0;
}

bool odometer_next(odometer *o) {
    o->position = 0;
    while (o->count > 0) {
        if (o->digits[o->count - 1].value < o->digits[o->count - 1].maximum) {
            o->digits[o->count - 1].value++;
            return true;
        }
        o->count--;
    }
    return false;
}
