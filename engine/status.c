/* SPDX-License-Identifier: Apache-2.0 */
/* The words for statuses, and the version. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cproute/cproute.h"

int cpr_version_number(void) {
    return CPR_VERSION_NUMBER;
}

const char *cpr_version_string(void) {
    return CPR_VERSION_STRING;
}

typedef struct status_words {
    cpr_status status;
    const char *name;
    const char *message;
    const char *index, *got, *wanted; /* what the details are; NULL where they say nothing */
} status_words;

static const status_words WORDS[] = {
    {CPR_OK, "ok", "no error", NULL, NULL, NULL},
    {CPR_BAD_CP_SIZE, "bad_cp_size", "the number of ranks is out of range", NULL, "cp_size", "limit"},
    {CPR_BAD_RANK, "bad_rank", "the rank is not one of the group", NULL, "cp_rank", "cp_size"},
    {CPR_BAD_LAYOUT, "bad_layout", "the layout is unknown", "argument", "value", "layouts"},
    {CPR_DTYPE, "dtype", "the type of the numbers is neither int32 nor int64", NULL, "dtype", "expected"},
    {CPR_DEVICE, "device", "the boundaries cannot be read on this device", NULL, "device", "expected"},
    {CPR_EMPTY_CU_SEQLENS, "empty_cu_seqlens", "cu_seqlens has no entry", NULL, "entries", "at least"},
    {CPR_NONZERO_START, "nonzero_start", "cu_seqlens does not start at 0", "entry", "value", "expected"},
    {CPR_DECREASING, "decreasing", "cu_seqlens decreases", "entry", "value", "entry before it"},
    {CPR_TOTAL_MISMATCH, "total_mismatch", "the row count disagrees with the boundaries", "number", "rows",
     "expected"},
    {CPR_NOT_DIVISIBLE_2CP, "not_divisible_2cp", "a length is not divisible by twice the number of ranks",
     "sequence", "length", "2 * cp_size"},
    {CPR_NOT_DIVISIBLE_CP, "not_divisible_cp", "the tokens are not divisible by the number of ranks", NULL,
     "tokens", "cp_size"},
    {CPR_NOT_DIVISIBLE_CP_TP, "not_divisible_cp_tp", "the rows of a rank are not divisible by tp_size", NULL,
     "rows", "tp_size"},
    {CPR_OVERFLOW, "overflow", "a number does not fit its type or limit", NULL, "value", "largest that fits"},
    {CPR_NO_MEMORY, "no_memory", "memory ran out", NULL, NULL, NULL},
    {CPR_SPLIT_MISMATCH, "split_mismatch", "split sizes disagree", "entry", "got", "expected"},
    {CPR_DIVERGENT_METADATA, "divergent_metadata", "routes, tensors or boundaries are of different requests",
     "at", "value", "expected"},
    {CPR_LAYOUT_MISMATCH, "layout_mismatch", "the layout is another than it must be", "rank", "layout",
     "expected"},
    {CPR_CAPTURE_LAYOUT_CHANGE, "capture_layout_change", "a captured graph was made with another route", NULL,
     NULL, NULL},
    {CPR_BAD_ROW, "bad_row", "a row is out of range or there twice", "entry", "row", "rows"},
    {CPR_CUDA_ERROR, "cuda", "the CUDA runtime refused", NULL, "cudaError_t", NULL},
    {CPR_NCCL_ERROR, "nccl", "NCCL refused or lost another rank", NULL, "ncclResult_t", NULL},
    {CPR_TIMEOUT, "timeout", "other ranks did not answer", NULL, "milliseconds", "limit"},
    {CPR_PEER_FAILED, "peer_failed", "another rank could not take part", "rank", "status", NULL},
    {CPR_UNREACHABLE, "unreachable", "not every rank can write to the memory of the others", NULL, "ranks",
     "cp_size"},
    {CPR_BAD_DIRECTION, "bad_direction", "the direction is neither forward nor backward", NULL, "direction",
     "directions"},
    {CPR_INTERNAL, "internal", "the library contradicts itself, please report it", "at", "got", "expected"},
};
enum { WORDS_COUNT = sizeof WORDS / sizeof WORDS[0] };

static const status_words UNKNOWN = {CPR_INTERNAL, "unknown", "unknown status", "index", "got", "wanted"};

/* Of a route in an exchange, an entry of a tensor, or a rank in a permutation. */
static const status_words NOT_OF_THIS_RANK = {CPR_BAD_RANK, "bad_rank", "it is that of another rank or group",
                                              "number",     "rank",     "expected"};
static const status_words NOT_OF_THIS_GROUP = {CPR_BAD_CP_SIZE, "bad_cp_size", "it is that of another group",
                                               "number",        "cp_size",     "expected"};

static const status_words *words_of(cpr_status status) {
    for (int i = 0; i < WORDS_COUNT; i++) {
        if (WORDS[i].status == status) {
            return &WORDS[i];
        }
    }
    return &UNKNOWN;
}

const char *cpr_status_name(cpr_status status) {
    return words_of(status)->name;
}

bool cpr_status_from_name(const char *name, cpr_status *status) {
    for (int i = 0; i < WORDS_COUNT; i++) {
        if (strcmp(WORDS[i].name, name) == 0) {
            *status = WORDS[i].status;
            return true;
        }
    }
    return false;
}

const char *cpr_status_message(cpr_status status) {
    return words_of(status)->message;
}

typedef struct detail {
    char text[64];
} detail;

static detail detail_of(const char *separator, const char *label, int64_t value) {
    detail d = {""};
    if (label != NULL) {
        snprintf(d.text, sizeof d.text, "%s%s %" PRId64, separator, label, value);
    }
    return d;
}

static const status_words *words_for(const cpr_error *error) {
    const bool one_of_many = error->index != -1;
    if (one_of_many && error->status == CPR_BAD_RANK) {
        return &NOT_OF_THIS_RANK;
    }
    if (one_of_many && error->status == CPR_BAD_CP_SIZE) {
        return &NOT_OF_THIS_GROUP;
    }
    return words_of(error->status);
}

int cpr_error_format(const cpr_error *error, char *text, size_t size) {
    const status_words *words = words_for(error);
    const char *index_label = error->index == -1 ? NULL : words->index;
    const detail index = detail_of(": ", index_label, error->index);
    const detail got = detail_of(index_label == NULL ? ": " : ", ", words->got, error->got);
    const detail wanted = detail_of(", ", words->wanted, error->wanted);
    return snprintf(text, size, "%s%s%s%s", words->message, index.text, got.text, wanted.text);
}
