/* SPDX-License-Identifier: Apache-2.0 */
#include "text_delta.h"
#include "mistake.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* More is for other laws: these list every token, on every rank, many times. */
enum { MOST_TOKENS = 1024, MOST_RANKS = 64, MOST_OF_A_SIZE = 64 };

bool text_delta_knows(const char *name) {
    return !strcmp(name, "delta") || !strcmp(name, "micro_batch");
}

static bool is_size(json_int_t size) {
    return size >= 1 && size <= MOST_OF_A_SIZE;
}

static bool read_shape(delta_case *c, json_t *op, const mistake_place *m) {
    const char *name;
    json_int_t heads, keys, values, taps;
    if (!take_fields(m, "ops: delta", op, "{s:s, s:I, s:I, s:I, s:I}", "op", &name, "heads", &heads, "keys",
                     &keys, "values", &values, "taps", &taps))
        return false;
    c->shape = (delta_shape){heads, keys, values, taps};
    return (is_size(heads) && is_size(keys) && is_size(values) && is_size(taps)) ||
           mistaken(m, "ops: delta: sizes of 1 to %d are wanted", MOST_OF_A_SIZE);
}

static bool read_boundaries(delta_pack *pack, json_t *cu, const mistake_place *m) {
    size_t i;
    json_t *entry;
    if (!json_is_array(cu) || json_array_size(cu) > DELTA_ENTRIES)
        return mistaken(m, "ops: micro_batch: cu is a list of at most %d numbers", DELTA_ENTRIES);
    json_array_foreach(cu, i, entry) {
        pack->cu[i] = json_integer_value(entry);
        if (!json_is_integer(entry) || pack->cu[i] < -MOST_TOKENS || pack->cu[i] > MOST_TOKENS)
            return mistaken(m, "ops: micro_batch: cu has whole numbers up to %d", MOST_TOKENS);
    }
    pack->entries = (int64_t)json_array_size(cu);
    return true;
}

static bool read_batch(delta_case *c, json_t *op, const mistake_place *m) {
    const char *name, *mode;
    json_int_t cp_size;
    json_t *cu;
    if (!take_fields(m, "ops: micro_batch", op, "{s:s, s:s, s:I, s:o}", "op", &name, "mode", &mode, "cp",
                     &cp_size, "cu", &cu))
        return false;
    if (c->batches == DELTA_BATCHES || cp_size > MOST_RANKS)
        return mistaken(m, "ops: micro_batch: at most %d of them, on at most %d ranks", DELTA_BATCHES,
                        MOST_RANKS);
    delta_pack *pack = &c->batch[c->batches++];
    pack->cp_size = cp_size;
    return (delta_mode_from_name(mode, &pack->mode) ||
            mistaken(m, "ops: micro_batch: there is no mode '%s'", mode)) &&
           read_boundaries(pack, cu, m);
}

bool text_delta_read(delta_case **c, json_t *op, char *mistake, size_t size) {
    const mistake_place m = {mistake, size};
    if (!*c && !(*c = calloc(1, sizeof **c)))
        return mistaken(&m, "out of memory");
    if (strcmp(json_string_value(json_object_get(op, "op")), "delta") != 0)
        return read_batch(*c, op, &m);
    return (*c)->shape.heads == 0 ? read_shape(*c, op, &m) : mistaken(&m, "ops: delta twice");
}
