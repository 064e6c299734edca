/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delta_train STEPS [SEED]: a tiny model with the layer in it learns, on four ranks in chunkwise mode, for docs/why.md.
 *
 * Each sequence follows a successor map of its own: after token x comes map[x], or now and then any token. Guessing the next
 * token takes what the sequence has shown before: its pairs must be stored, by key and value, and looked up; the convolution
 * brings the two halves of a pair together. Nothing of another sequence helps.
 *
 * Prints for every step the loss that training sees, and at last the loss of the trained weights on packs not seen, as one rank
 * computes it: what a server would find.
 */
#include "delta.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RANKS = 4,
    WORDS = 8,
    HEADS = 1,
    KEYS = 8,
    VALUES = 8,
    TAPS = 3,
    CHANNELS = HEADS * (2 * KEYS + VALUES),
    ROW = CHANNELS + 2 * HEADS,
    OUT = HEADS * VALUES,
    TOKENS = 256,
    MOST_SEQUENCES = TOKENS / (2 * RANKS),
    NOISE_OUT_OF_TEN = 1,
    PACKS_NOT_SEEN = 100
};

/* All that is learned, as one array of numbers. */
typedef struct weights {
    double word[WORDS][ROW]; /* what the layer gets for a word, before activations */
    double taps[CHANNELS][TAPS];
    double guess[WORDS][OUT];    /* logits from what the layer gives */
    double follow[WORDS][WORDS]; /* and from the word itself */
} weights;
enum { WEIGHTS = sizeof(weights) / sizeof(double) };

typedef struct pack {
    int64_t cu[MOST_SEQUENCES + 1], entries;
    int word[TOKENS];
} pack;

/*==============================================================================
 * MARK: - Data
 *============================================================================*/

static uint64_t random_next(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int64_t below(uint64_t *random, int64_t limit) {
    return (int64_t)(random_next(random) >> 33) % limit;
}

static void shuffle(uint64_t *random, int *items, int count) {
    for (int i = count - 1; i > 0; i--) {
        const int other = (int)below(random, i + 1), kept = items[i];
        items[i] = items[other];
        items[other] = kept;
    }
}

static void write_sequence(uint64_t *random, int *word, int64_t length) {
    int map[WORDS];
    for (int i = 0; i < WORDS; i++)
        map[i] = i;
    shuffle(random, map, WORDS);
    word[0] = (int)below(random, WORDS);
    for (int64_t t = 1; t < length; t++)
        word[t] = below(random, 10) < NOISE_OUT_OF_TEN ? (int)below(random, WORDS) : map[word[t - 1]];
}

/* Sequences of 2 to 8 times 2P tokens, the last one as long as is left. */
static void write_pack(uint64_t *random, pack *p) {
    p->entries = 1;
    p->cu[0] = 0;
    while (p->cu[p->entries - 1] < TOKENS) {
        const int64_t begin = p->cu[p->entries - 1], left = TOKENS - begin;
        int64_t length = (2 + below(random, 7)) * 2 * RANKS;
        length = length < left ? length : left;
        write_sequence(random, p->word + begin, length);
        p->cu[p->entries++] = begin + length;
    }
}

/* Zigzag, as data loaders cut it: chunk r and chunk 2P-1-r of every sequence. */
static void own_tokens(const pack *p, int rank, int64_t *tokens) {
    for (int64_t i = 0; i + 1 < p->entries; i++) {
        const int64_t begin = p->cu[i], chunk = (p->cu[i + 1] - begin) / (2 * RANKS);
        const int64_t mine[] = {rank, 2 * RANKS - 1 - rank};
        for (int half = 0; half < 2; half++)
            for (int64_t t = 0; t < chunk; t++)
                *tokens++ = begin + mine[half] * chunk + t;
    }
}

/*==============================================================================
 * MARK: - Around the layer
 *============================================================================*/

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

/* Columns of a row: queries and keys have a length of at most 1, gates lie between 0 and 1; decay begins near 1. */
static double activation(int column, double x) {
    if (column >= CHANNELS)
        return sigmoid(x + (column == CHANNELS ? 3 : 0));
    return column < 2 * KEYS ? tanh(x) / sqrt(KEYS) : tanh(x);
}

static double activation_slope(int column, double x) {
    if (column >= CHANNELS) {
        const double y = activation(column, x);
        return y * (1 - y);
    }
    const double y = tanh(x);
    return (1 - y * y) / (column < 2 * KEYS ? sqrt(KEYS) : 1);
}

static void rows_of_words(const weights *w, const pack *p, double rows[TOKENS][ROW]) {
    for (int t = 0; t < TOKENS; t++)
        for (int i = 0; i < ROW; i++)
            rows[t][i] = activation(i, w->word[p->word[t]][i]);
}

static void rows_back(const weights *w, const pack *p, double row_grads[TOKENS][ROW], weights *grads) {
    for (int t = 0; t < TOKENS; t++)
        for (int i = 0; i < ROW; i++)
            grads->word[p->word[t]][i] += row_grads[t][i] * activation_slope(i, w->word[p->word[t]][i]);
}

static void probabilities(const weights *w, int word, const double *output, double *to) {
    double most = -HUGE_VAL, sum = 0;
    for (int i = 0; i < WORDS; i++) {
        to[i] = w->follow[word][i];
        for (int k = 0; k < OUT; k++)
            to[i] += w->guess[i][k] * output[k];
        most = fmax(most, to[i]);
    }
    for (int i = 0; i < WORDS; i++)
        sum += to[i] = exp(to[i] - most);
    for (int i = 0; i < WORDS; i++)
        to[i] /= sum;
}

static void guess_back(const weights *w, int word, const double *output, const double *logit_grads,
                       double *output_grad, weights *grads) {
    for (int i = 0; i < WORDS; i++) {
        grads->follow[word][i] += logit_grads[i];
        for (int k = 0; k < OUT; k++) {
            grads->guess[i][k] += logit_grads[i] * output[k];
            output_grad[k] += logit_grads[i] * w->guess[i][k];
        }
    }
}

/* Mean over all tokens that have a next one, in nats. */
static double loss_of(const weights *w, const pack *p, double outputs[TOKENS][OUT],
                      double output_grads[TOKENS][OUT], weights *grads) {
    const double share = 1.0 / (double)(TOKENS - (p->entries - 1));
    double loss = 0, guesses[WORDS];
    memset(output_grads, 0, sizeof(double[TOKENS][OUT]));
    for (int64_t s = 0; s + 1 < p->entries; s++)
        for (int64_t t = p->cu[s]; t + 1 < p->cu[s + 1]; t++) {
            probabilities(w, p->word[t], outputs[t], guesses);
            loss -= share * log(guesses[p->word[t + 1]]);
            guesses[p->word[t + 1]] -= 1;
            for (int i = 0; i < WORDS; i++)
                guesses[i] *= share;
            guess_back(w, p->word[t], outputs[t], guesses, output_grads[t], grads);
        }
    return loss;
}

/*==============================================================================
 * MARK: - Ranks
 *============================================================================*/

typedef struct sheets {
    double rows[TOKENS / RANKS][ROW], row_grads[TOKENS / RANKS][ROW];
    double outputs[TOKENS / RANKS][OUT], output_grads[TOKENS / RANKS][OUT];
    double tap_grads[CHANNELS][TAPS];
    int64_t token[TOKENS / RANKS];
} sheets;

typedef struct lists {
    double *rows[RANKS], *row_grads[RANKS], *outputs[RANKS], *output_grads[RANKS], *tap_grads[RANKS];
} lists;

static lists lists_of(sheets rank[RANKS]) {
    lists l;
    for (int r = 0; r < RANKS; r++) {
        l.rows[r] = rank[r].rows[0];
        l.row_grads[r] = rank[r].row_grads[0];
        l.outputs[r] = rank[r].outputs[0];
        l.output_grads[r] = rank[r].output_grads[0];
        l.tap_grads[r] = rank[r].tap_grads[0];
    }
    return l;
}

static delta_layer layer_of(const weights *w) {
    return (delta_layer){&in_double, {HEADS, KEYS, VALUES, TAPS}, w->taps[0]};
}

static void check(delta_status status, const delta_error *error) {
    if (status == DELTA_OK)
        return;
    printf("# refused: %s\n", delta_error_name(error));
    exit(1);
}

/* One pass of training over a pack, forward and backward. Returns the loss. */
static double learn_from(delta_group *group, const weights *w, const pack *p, weights *grads) {
    static sheets rank[RANKS];
    static double rows[TOKENS][ROW], outputs[TOKENS][OUT], output_grads[TOKENS][OUT], row_grads[TOKENS][ROW];
    const delta_layer layer = layer_of(w);
    const delta_batch batch = {DELTA_CHUNKWISE, RANKS, p->cu, p->entries};
    const lists l = lists_of(rank);
    delta_error error;
    rows_of_words(w, p, rows);
    for (int r = 0; r < RANKS; r++) {
        own_tokens(p, r, rank[r].token);
        for (int i = 0; i < TOKENS / RANKS; i++)
            memcpy(rank[r].rows[i], rows[rank[r].token[i]], sizeof rank[r].rows[i]);
    }
    check(delta_forward(group, &layer, &batch, (const scalar *const *)l.rows, l.outputs, &error), &error);
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < TOKENS / RANKS; i++)
            memcpy(outputs[rank[r].token[i]], rank[r].outputs[i], sizeof rank[r].outputs[i]);
    const double loss = loss_of(w, p, outputs, output_grads, grads);
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < TOKENS / RANKS; i++)
            memcpy(rank[r].output_grads[i], output_grads[rank[r].token[i]], sizeof rank[r].output_grads[i]);
    check(delta_backward(group, &layer, &batch, (const scalar *const *)l.rows,
                         (const scalar *const *)l.output_grads, l.row_grads, l.tap_grads, &error),
          &error);
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < TOKENS / RANKS; i++)
            memcpy(row_grads[rank[r].token[i]], rank[r].row_grads[i], sizeof rank[r].row_grads[i]);
    rows_back(w, p, row_grads, grads);
    memcpy(grads->taps, rank[0].tap_grads, sizeof grads->taps);
    return loss;
}

static double loss_on_one_rank(const weights *w, uint64_t *random) {
    static double rows[TOKENS][ROW], outputs[TOKENS][OUT], unused[TOKENS][OUT];
    static weights unused_too;
    const delta_layer layer = layer_of(w);
    int64_t first[TOKENS];
    double sum = 0;
    for (int i = 0; i < PACKS_NOT_SEEN; i++) {
        pack p;
        write_pack(random, &p);
        delta_first_tokens(p.cu, p.entries, first);
        rows_of_words(w, &p, rows);
        if (!delta_reference(&layer, first, TOKENS, rows[0], outputs[0]))
            exit(1);
        sum += loss_of(w, &p, outputs, unused, &unused_too);
    }
    return sum / (double)PACKS_NOT_SEEN;
}

/*==============================================================================
 * MARK: - Learning
 *============================================================================*/

static bool is_key(int channel) {
    return channel >= KEYS && channel < 2 * KEYS;
}

/* Keys begin with what was before, as pairs want it, so that no seed spends long on finding out. */
static void begin(weights *w, uint64_t *random) {
    double *number = &w->word[0][0];
    for (int i = 0; i < WEIGHTS; i++)
        number[i] = ((double)(random_next(random) >> 40) / 0x1p24 - 0.5) * 0.6;
    for (int channel = 0; channel < CHANNELS; channel++)
        for (int i = 0; i < TAPS; i++)
            w->taps[channel][i] = (i == (is_key(channel) ? 1 : 0) ? 0.7 : 0.15) + 0.1 * w->taps[channel][i];
}

/* Adam, as published. */
static void descend(weights *w, const weights *grads, weights *mean, weights *square, int step) {
    static const double rate = 0.02, keep_mean = 0.9, keep_square = 0.99, tiny = 1e-8;
    double *to = &w->word[0][0], *m = &mean->word[0][0], *s = &square->word[0][0];
    const double *g = &grads->word[0][0];
    for (int i = 0; i < WEIGHTS; i++) {
        m[i] = keep_mean * m[i] + (1 - keep_mean) * g[i];
        s[i] = keep_square * s[i] + (1 - keep_square) * g[i] * g[i];
        to[i] -=
            rate * m[i] / (1 - pow(keep_mean, step)) / (sqrt(s[i] / (1 - pow(keep_square, step))) + tiny);
    }
}

int main(int argc, char **argv) {
    static weights w, grads, mean, square;
    const int steps = argc == 2 || argc == 3 ? atoi(argv[1]) : 0;
    uint64_t random = argc == 3 ? strtoull(argv[2], NULL, 10) : 1, random_of_unseen = UINT64_MAX;
    delta_group *group;
    delta_error error;
    if (steps < 1) {
        fprintf(stderr, "usage: delta_train STEPS [SEED]\n");
        return 2;
    }
    check(delta_group_create(NULL, &group, &error), &error);
    begin(&w, &random);
    for (int step = 1; step <= steps; step++) {
        pack p;
        write_pack(&random, &p);
        memset(&grads, 0, sizeof grads);
        printf("%d %.6f\n", step, learn_from(group, &w, &p, &grads));
        descend(&w, &grads, &mean, &square, step);
    }
    printf("# served %.6f\n", loss_on_one_rank(&w, &random_of_unseen));
    delta_group_free(group);
    return 0;
}
