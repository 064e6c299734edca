/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled for a device, and for a processor: see delta_team.h. */
#include "delta_chunk.h"
#include "delta_number.h"

namespace {

constexpr int64_t THREADS = 128, ROWS_OF_A_BLOCK = 32;

int64_t blocks_of(int64_t items, int64_t size) {
    return (items + size - 1) / size;
}

/*==============================================================================
 * MARK: - A chunk
 *============================================================================*/

template <class Kind> struct view : delta_chunk {
    using number = typename Kind::number;
    using stored = typename Kind::stored;

    DELTA_ANYWHERE int64_t channels() const {
        return 2 * keys + values;
    }
    DELTA_ANYWHERE int64_t head_width() const {
        return channels() + 2;
    }
    DELTA_ANYWHERE int64_t width() const {
        return heads * head_width();
    }
    DELTA_ANYWHERE int64_t matrix() const {
        return values * keys;
    }
    DELTA_ANYWHERE int64_t parameter_count() const {
        return heads * channels() * taps;
    }
    /* Tokens of its sequence before a token. */
    DELTA_ANYWHERE int64_t before(int64_t token) const {
        return begin + token - first[token];
    }
    DELTA_ANYWHERE bool begins_sequence(int64_t token) const {
        return first[token] == begin + token;
    }
    DELTA_ANYWHERE number row(int64_t token, int64_t at) const {
        return Kind::load(static_cast<const stored *>(rows)[(halo + token) * width() + at]);
    }
    DELTA_ANYWHERE number *mixed_at(int64_t token, int64_t head) const {
        return static_cast<number *>(mixed) + token * width() + head * head_width();
    }
    DELTA_ANYWHERE number *mixed_grad_at(int64_t token, int64_t head) const {
        return static_cast<number *>(mixed_grads) + token * width() + head * head_width();
    }
    DELTA_ANYWHERE number output_grad(int64_t token, int64_t head, int64_t value) const {
        return Kind::load(static_cast<const stored *>(output_grads)[(token * heads + head) * values + value]);
    }
    /* Taps of a column of a row; NULL for one of a gate, which is not convolved. */
    DELTA_ANYWHERE const number *taps_of(int64_t at) const {
        const int64_t head = at / head_width(), channel = at % head_width();
        return channel < channels()
                   ? static_cast<const number *>(parameters) + (head * channels() + channel) * taps
                   : nullptr;
    }
    /* Where a row is in the states, or their gradients, of all heads. */
    DELTA_ANYWHERE number *row_of(void *of_all_heads, int64_t head, int64_t value) const {
        return static_cast<number *>(of_all_heads) + (head * values + value) * keys;
    }
    DELTA_ANYWHERE number *checkpoint(int64_t number_of_segment, int64_t head) const {
        return static_cast<number *>(checkpoints) + (number_of_segment * heads + head) * matrix();
    }
};

template <class Number> struct token_of_head {
    const Number *query, *key, *value;
    Number decay, strength;
};

template <class Kind>
DELTA_ANYWHERE token_of_head<typename Kind::number> mixed_token(const view<Kind> &c, int64_t token,
                                                                int64_t head) {
    const typename Kind::number *own = c.mixed_at(token, head);
    return {own, own + c.keys, own + 2 * c.keys, own[c.channels()], own[c.channels() + 1]};
}

template <class Number>
DELTA_ANYWHERE Number dot(Number sum, const Number *a, const Number *b, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        sum = sum + a[i] * b[i];
    return sum;
}

template <class Number> DELTA_ANYWHERE void copy(Number *to, const Number *from, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i];
}

template <class Number> DELTA_ANYWHERE void fill(Number *to, Number value, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        to[i] = value;
}

/* A row of a state that is kept as [keys][values], where the rows of neighbouring threads are neighbours. */
template <class Kind>
DELTA_ANYWHERE void put_row(const view<Kind> &c, const typename Kind::number *row, int64_t v,
                            typename Kind::number *state) {
    for (int64_t k = 0; k < c.keys; k++)
        state[k * c.values + v] = row[k];
}

template <class Kind>
DELTA_ANYWHERE void get_row(const view<Kind> &c, const typename Kind::number *state, int64_t v,
                            typename Kind::number *row) {
    for (int64_t k = 0; k < c.keys; k++)
        row[k] = state[k * c.values + v];
}

/* Takes a row of the state past a token, but for its output. Pointers that are restricted have loads run ahead of stores. */
template <class Number>
DELTA_ANYWHERE void step(Number decay, Number strength, Number value, const Number *__restrict__ key,
                         int64_t keys, Number zero, Number *__restrict__ row) {
    Number read = zero;
    for (int64_t i = 0; i < keys; i++) {
        const Number decayed = decay * row[i];
        row[i] = decayed;
        read = read + decayed * key[i];
    }
    const Number written = strength * (value - read);
    for (int64_t i = 0; i < keys; i++)
        row[i] = row[i] + written * key[i];
}

/* Takes a row of the gradient of the state to before a token. */
template <class Number>
DELTA_ANYWHERE void step_back(Number decay, Number strength, Number output_grad,
                              const Number *__restrict__ query, const Number *__restrict__ key, int64_t keys,
                              Number zero, Number *__restrict__ grad) {
    Number written_grad = zero;
    for (int64_t i = 0; i < keys; i++) {
        const Number read = grad[i] + output_grad * query[i];
        grad[i] = read;
        written_grad = written_grad + read * key[i];
    }
    const Number missing_grad = strength * written_grad;
    for (int64_t i = 0; i < keys; i++)
        grad[i] = (grad[i] - missing_grad * key[i]) * decay;
}

/*==============================================================================
 * MARK: - Convolution
 *============================================================================*/

/* A block a token. */
template <class Kind> struct mix_job {
    view<Kind> c;
    DELTA_JOB void operator()(delta_team &team, int64_t token, uint32_t *) const {
        const int64_t before = c.before(token);
        team.each(c.width(), [&](int64_t at) {
            const typename Kind::number *taps = c.taps_of(at);
            typename Kind::number sum = c.row(token, at);
            if (taps) {
                sum = taps[0] * sum;
                for (int64_t i = 1; i < c.taps && i <= before; i++)
                    sum = sum + taps[i] * c.row(token - i, at);
            }
            c.mixed_at(token, 0)[at] = sum;
        });
    }
};

/* A block a row, those of the halo first. The last token that read the row comes first. */
template <class Kind> struct unmix_job {
    view<Kind> c;
    DELTA_JOB void operator()(delta_team &team, int64_t row, uint32_t *) const {
        const int64_t token = row - c.halo;
        team.each(c.width(), [&](int64_t at) {
            const typename Kind::number *taps = c.taps_of(at);
            typename Kind::number sum = Kind::zero();
            if (!taps && token >= 0)
                sum = c.mixed_grad_at(token, 0)[at];
            for (int64_t i = taps ? c.taps - 1 : -1; i >= 0; i--) {
                const int64_t reader = token + i;
                if (reader >= 0 && reader < c.count && i <= c.before(reader))
                    sum = sum + taps[i] * c.mixed_grad_at(reader, 0)[at];
            }
            static_cast<typename Kind::number *>(c.row_grads)[row * c.width() + at] = sum;
        });
    }
};

/* A block a slice of the tokens. */
template <class Kind> struct parameters_job {
    view<Kind> c;
    DELTA_JOB void operator()(delta_team &team, int64_t slice, uint32_t *) const {
        using number = typename Kind::number;
        const int64_t length = (c.count + DELTA_SLICES - 1) / DELTA_SLICES;
        const int64_t begin = slice * length, end = begin + length < c.count ? begin + length : c.count;
        number *parts = static_cast<number *>(c.parameter_parts) + slice * c.parameter_count();
        team.each(c.parameter_count(), [&](int64_t i) {
            const int64_t tap = i % c.taps, channel = i / c.taps;
            const int64_t at = channel / c.channels() * c.head_width() + channel % c.channels();
            number sum = Kind::zero();
            for (int64_t token = end - 1; token >= begin; token--)
                if (tap <= c.before(token))
                    sum = sum + c.row(token - tap, at) * c.mixed_grad_at(token, 0)[at];
            parts[i] = sum;
        });
    }
};

/*==============================================================================
 * MARK: - Time, forwards
 *============================================================================*/

/* Rows of a state know nothing of one another. A block is some rows of one head, each with a place in shared memory; odd lengths keep
 * them out of each other's banks. */
struct row_blocks {
    int64_t rows_of_head;
    DELTA_ANYWHERE int64_t of_head() const {
        return (rows_of_head + ROWS_OF_A_BLOCK - 1) / ROWS_OF_A_BLOCK;
    }
    DELTA_ANYWHERE int64_t head(int64_t block) const {
        return block / of_head();
    }
    DELTA_ANYWHERE int64_t begin(int64_t block) const {
        return block % of_head() * ROWS_OF_A_BLOCK;
    }
    DELTA_ANYWHERE int64_t count(int64_t block) const {
        const int64_t left = rows_of_head - begin(block);
        return left < ROWS_OF_A_BLOCK ? left : ROWS_OF_A_BLOCK;
    }
};

DELTA_ANYWHERE int64_t padded(int64_t keys) {
    return keys + 1;
}

/* B from zero rows and the values, M from those of the identity and no values. */
template <class Kind> struct map_job {
    view<Kind> c;
    row_blocks rows;
    DELTA_JOB void operator()(delta_team &team, int64_t block, uint32_t *shared) const {
        using number = typename Kind::number;
        number *places = reinterpret_cast<number *>(shared);
        const int64_t head = rows.head(block);
        team.each(rows.count(block), [&](int64_t lane) {
            const int64_t at = rows.begin(block) + lane;
            number *row = places + lane * padded(c.keys);
            fill(row, Kind::zero(), c.keys);
            if (at >= c.values)
                row[at - c.values] = Kind::one();
            for (int64_t token = 0; token < c.count; token++) {
                const token_of_head<number> t = mixed_token(c, token, head);
                if (c.begins_sequence(token))
                    fill(row, Kind::zero(), c.keys);
                step(t.decay, t.strength, at < c.values ? t.value[at] : Kind::zero(), t.key, c.keys,
                     Kind::zero(), row);
            }
            copy(static_cast<number *>(c.map) + (head * rows.rows_of_head + at) * c.keys, row, c.keys);
        });
    }
};

template <class Kind> struct run_job {
    view<Kind> c;
    row_blocks rows;
    DELTA_JOB void operator()(delta_team &team, int64_t block, uint32_t *shared) const {
        using number = typename Kind::number;
        using stored = typename Kind::stored;
        number *places = reinterpret_cast<number *>(shared);
        const int64_t head = rows.head(block);
        team.each(rows.count(block), [&](int64_t lane) {
            const int64_t v = rows.begin(block) + lane;
            number *row = places + lane * padded(c.keys);
            copy(row, c.row_of(c.entry, head, v), c.keys);
            for (int64_t token = 0; token < c.count; token++) {
                const token_of_head<number> t = mixed_token(c, token, head);
                if (c.begins_sequence(token))
                    fill(row, Kind::zero(), c.keys);
                if (token % c.segment == 0)
                    put_row(c, row, v, c.checkpoint(token / c.segment, head));
                step(t.decay, t.strength, t.value[v], t.key, c.keys, Kind::zero(), row);
                static_cast<stored *>(c.outputs)[(token * c.heads + head) * c.values + v] =
                    Kind::store(dot(Kind::zero(), row, t.query, c.keys));
            }
        });
    }
};

/* state = state M + B, for each chunk before, the first one first */
template <class Kind> struct fold_job {
    view<Kind> c;
    row_blocks rows;
    DELTA_JOB void operator()(delta_team &team, int64_t block, uint32_t *shared) const {
        using number = typename Kind::number;
        const int64_t head = rows.head(block), map_rows = c.values + c.keys;
        number *places = reinterpret_cast<number *>(shared);
        team.each(rows.count(block), [&](int64_t lane) {
            const int64_t v = rows.begin(block) + lane;
            number *row = places + 2 * lane * padded(c.keys), *made = row + padded(c.keys);
            fill(row, Kind::zero(), c.keys);
            for (int64_t rank = 0; rank < c.rank; rank++) {
                const number *map =
                    static_cast<const number *>(c.maps) + (rank * c.heads + head) * map_rows * c.keys;
                const number *matrix = map + c.values * c.keys;
                copy(made, map + v * c.keys, c.keys);
                for (int64_t i = 0; i < c.keys; i++)
                    for (int64_t j = 0; j < c.keys; j++)
                        made[j] = made[j] + row[i] * matrix[i * c.keys + j];
                copy(row, made, c.keys);
            }
            copy(c.row_of(c.entry, head, v), row, c.keys);
        });
    }
};

/*==============================================================================
 * MARK: - Time, backwards
 *============================================================================*/

/* grad = grad M^T + C, for each chunk behind, the last one first */
template <class Kind> struct fold_back_job {
    view<Kind> c;
    row_blocks rows;
    DELTA_JOB void operator()(delta_team &team, int64_t block, uint32_t *shared) const {
        using number = typename Kind::number;
        const int64_t head = rows.head(block), map_rows = c.values + c.keys;
        number *places = reinterpret_cast<number *>(shared);
        team.each(rows.count(block), [&](int64_t lane) {
            const int64_t v = rows.begin(block) + lane;
            number *grad = places + 2 * lane * padded(c.keys), *made = grad + padded(c.keys);
            fill(grad, Kind::zero(), c.keys);
            for (int64_t rank = c.ranks - 1; rank > c.rank; rank--) {
                const number *matrix = static_cast<const number *>(c.maps) +
                                       ((rank * c.heads + head) * map_rows + c.values) * c.keys;
                copy(made,
                     static_cast<const number *>(c.entry_grads) +
                         ((rank * c.heads + head) * c.values + v) * c.keys,
                     c.keys);
                for (int64_t i = 0; i < c.keys; i++)
                    made[i] = dot(made[i], grad, matrix + i * c.keys, c.keys);
                copy(grad, made, c.keys);
            }
            copy(c.row_of(c.exit_grad, head, v), grad, c.keys);
        });
    }
};

/* The gradient of the state needs no state. */
template <class Kind> struct grad_job {
    view<Kind> c;
    row_blocks rows;
    DELTA_JOB void operator()(delta_team &team, int64_t block, uint32_t *shared) const {
        using number = typename Kind::number;
        number *places = reinterpret_cast<number *>(shared);
        const int64_t head = rows.head(block);
        team.each(rows.count(block), [&](int64_t lane) {
            const int64_t v = rows.begin(block) + lane;
            number *grad = places + lane * padded(c.keys);
            fill(grad, Kind::zero(), c.keys);
            for (int64_t token = c.count - 1; token >= 0; token--) {
                const token_of_head<number> t = mixed_token(c, token, head);
                step_back(t.decay, t.strength, c.output_grad(token, head, v), t.query, t.key, c.keys,
                          Kind::zero(), grad);
                if (c.begins_sequence(token))
                    fill(grad, Kind::zero(), c.keys);
            }
            copy(c.row_of(c.entry_grad, head, v), grad, c.keys);
        });
    }
};

/* A block a head. What it shares: the gradient of the state, the state before the token, and three numbers for each of their rows. */
template <class Kind> struct run_back_job {
    using number = typename Kind::number;
    view<Kind> c;

    struct places {
        number *grads, *before, *sums;
    };
    static int64_t words(const delta_chunk *c) {
        return 2 * c->values * padded(c->keys) + 3 * c->values;
    }
    DELTA_JOB places places_in(uint32_t *shared) const {
        number *all = reinterpret_cast<number *>(shared);
        const int64_t size = c.values * padded(c.keys);
        return {all, all + size, all + 2 * size};
    }
    DELTA_JOB number *state(int64_t head, int64_t in_segment) const {
        return static_cast<number *>(c.states) + (head * c.segment + in_segment) * c.matrix();
    }
    DELTA_JOB number *part(int64_t head, int64_t in_segment) const {
        return static_cast<number *>(c.parts) + (head * c.segment + in_segment) * (c.values + c.keys);
    }

    /* The states before each token of a segment: those that run_job went through. */
    DELTA_JOB void find_states(delta_team &team, int64_t head, int64_t begin, int64_t count,
                               const places &at) const {
        team.each(c.values, [&](int64_t v) {
            number *row = at.before + v * padded(c.keys);
            get_row(c, c.checkpoint(begin / c.segment, head), v, row);
            for (int64_t i = 0; i < count; i++) {
                const token_of_head<number> t = mixed_token(c, begin + i, head);
                if (c.begins_sequence(begin + i))
                    fill(row, Kind::zero(), c.keys);
                put_row(c, row, v, state(head, i));
                step(t.decay, t.strength, t.value[v], t.key, c.keys, Kind::zero(), row);
            }
        });
    }

    DELTA_JOB void bring_state(delta_team &team, int64_t head, int64_t token, const places &at) const {
        const number *from = state(head, token % c.segment);
        team.each(c.matrix(),
                  [&](int64_t i) { at.before[i % c.values * padded(c.keys) + i / c.values] = from[i]; });
    }

    /* What sums along a row, and the value. */
    DELTA_JOB void along_rows(delta_team &team, int64_t head, int64_t token, const places &at) const {
        team.each(c.values, [&](int64_t v) {
            const token_of_head<number> t = mixed_token(c, token, head);
            const number *before = at.before + v * padded(c.keys);
            const number output_grad = c.output_grad(token, head, v);
            number *grad = at.grads + v * padded(c.keys);
            number read = Kind::zero(), written_grad = Kind::zero();
            for (int64_t i = 0; i < c.keys; i++) {
                read = read + (t.decay * before[i]) * t.key[i];
                grad[i] = grad[i] + output_grad * t.query[i];
                written_grad = written_grad + grad[i] * t.key[i];
            }
            const number missing = t.value[v] - read, missing_grad = t.strength * written_grad;
            at.sums[v] = output_grad;
            at.sums[c.values + v] = t.strength * missing;
            at.sums[2 * c.values + v] = missing_grad;
            c.mixed_grad_at(token, head)[2 * c.keys + v] = missing_grad;
            part(head, token % c.segment)[v] = written_grad * missing;
        });
    }

    /* What sums across rows; then the gradient goes to before the token. */
    DELTA_JOB void across_rows(delta_team &team, int64_t head, int64_t token, const places &at) const {
        const bool begins = c.begins_sequence(token);
        team.each(c.keys, [&](int64_t k) {
            const token_of_head<number> t = mixed_token(c, token, head);
            const number *output_grad = at.sums, *written = output_grad + c.values,
                         *missing_grad = written + c.values;
            number query_grad = Kind::zero(), key_grad = Kind::zero(), decay_grad = Kind::zero();
            for (int64_t v = 0; v < c.values; v++) {
                number *grad = &at.grads[v * padded(c.keys) + k];
                const number before = at.before[v * padded(c.keys) + k], decayed = t.decay * before;
                query_grad = query_grad + output_grad[v] * (decayed + written[v] * t.key[k]);
                key_grad = key_grad + written[v] * *grad;
                key_grad = key_grad - missing_grad[v] * decayed;
                *grad = *grad - missing_grad[v] * t.key[k];
                decay_grad = decay_grad + *grad * before;
                *grad = begins ? Kind::zero() : *grad * t.decay;
            }
            c.mixed_grad_at(token, head)[k] = query_grad;
            c.mixed_grad_at(token, head)[c.keys + k] = key_grad;
            part(head, token % c.segment)[c.values + k] = decay_grad;
        });
    }

    DELTA_JOB void sum_gates(delta_team &team, int64_t head, int64_t begin, int64_t count) const {
        team.each(count, [&](int64_t i) {
            const number *own = part(head, i);
            number strength_grad = Kind::zero(), decay_grad = Kind::zero();
            for (int64_t v = 0; v < c.values; v++)
                strength_grad = strength_grad + own[v];
            for (int64_t k = 0; k < c.keys; k++)
                decay_grad = decay_grad + own[c.values + k];
            c.mixed_grad_at(begin + i, head)[c.channels()] = decay_grad;
            c.mixed_grad_at(begin + i, head)[c.channels() + 1] = strength_grad;
        });
    }

    DELTA_JOB void operator()(delta_team &team, int64_t head, uint32_t *shared) const {
        const places at = places_in(shared);
        team.each(c.values, [&](int64_t v) {
            copy(at.grads + v * padded(c.keys), c.row_of(c.exit_grad, head, v), c.keys);
        });
        for (int64_t end = c.count; end > 0;) {
            const int64_t begin = (end - 1) / c.segment * c.segment;
            find_states(team, head, begin, end - begin, at);
            for (int64_t token = end - 1; token >= begin; token--) {
                bring_state(team, head, token, at);
                along_rows(team, head, token, at);
                across_rows(team, head, token, at);
            }
            sum_gates(team, head, begin, end - begin);
            end = begin;
        }
    }
};

/*==============================================================================
 * MARK: - Numbers and bytes
 *============================================================================*/

template <class Kind> struct store_job {
    view<Kind> c;
    DELTA_JOB void operator()(delta_team &team, int64_t token, uint32_t *) const {
        const typename Kind::number *from =
            static_cast<const typename Kind::number *>(c.row_grads) + (c.halo + token) * c.width();
        typename Kind::stored *to =
            static_cast<typename Kind::stored *>(c.stored_row_grads) + token * c.width();
        team.each(c.width(), [&](int64_t at) { to[at] = Kind::store(from[at]); });
    }
};

template <class Number> struct sum_job {
    const Number *parts;
    int64_t count, size;
    Number *to;
    DELTA_JOB void operator()(delta_team &team, int64_t block, uint32_t *) const {
        const int64_t begin = block * THREADS, left = size - begin;
        team.each(left < THREADS ? left : THREADS, [&](int64_t lane) {
            const int64_t i = begin + lane;
            Number sum = parts[(count - 1) * size + i];
            for (int64_t part = count - 2; part >= 0; part--)
                sum = sum + parts[part * size + i];
            to[i] = sum;
        });
    }
};

template <class Number> struct add_job {
    const Number *from;
    int64_t size;
    Number *to;
    DELTA_JOB void operator()(delta_team &team, int64_t block, uint32_t *) const {
        const int64_t begin = block * THREADS, left = size - begin;
        team.each(left < THREADS ? left : THREADS,
                  [&](int64_t lane) { to[begin + lane] = to[begin + lane] + from[begin + lane]; });
    }
};

template <class Unit> struct columns_job {
    delta_columns c;
    DELTA_JOB void operator()(delta_team &team, int64_t row, uint32_t *) const {
        const int64_t source = c.from_list ? c.from_list[row] : row,
                      target = c.to_list ? c.to_list[row] : row;
        const Unit *from = static_cast<const Unit *>(c.from) +
                           source * static_cast<int64_t>(c.from_row_bytes / sizeof(Unit));
        Unit *to = static_cast<Unit *>(c.to) + target * static_cast<int64_t>(c.to_row_bytes / sizeof(Unit));
        team.each(static_cast<int64_t>(c.bytes / sizeof(Unit)), [&](int64_t i) { to[i] = from[i]; });
    }
};

/*==============================================================================
 * MARK: - Launches
 *============================================================================*/

/* Fields that a job lets stand: value initialisation would read no differently. */
template <class Kind> view<Kind> view_of(const delta_chunk *c) {
    view<Kind> v;
    static_cast<delta_chunk &>(v) = *c;
    return v;
}

template <template <class> class Job, class Kind>
cudaError_t launch_rows(const delta_chunk *c, int64_t rows_of_head, int64_t places, cudaStream_t stream) {
    const row_blocks rows = {rows_of_head};
    return delta_launch(Job<Kind>{view_of<Kind>(c), rows}, c->heads * rows.of_head(), ROWS_OF_A_BLOCK,
                        ROWS_OF_A_BLOCK * places * padded(c->keys), stream);
}

template <template <class> class Job, class Kind>
cudaError_t launch(const delta_chunk *c, int64_t blocks, int64_t threads, int64_t words,
                   cudaStream_t stream) {
    return delta_launch(Job<Kind>{view_of<Kind>(c)}, blocks, threads, words, stream);
}

} // namespace

/* One launch for each kind. */
#define OF_KIND(c, call)                                                                                     \
    do {                                                                                                     \
        switch ((c)->kind) {                                                                                 \
        case DELTA_FP32:                                                                                     \
            return call(kind_fp32);                                                                          \
        case DELTA_BF16:                                                                                     \
            return call(kind_bf16);                                                                          \
        default:                                                                                             \
            return call(kind_field);                                                                         \
        }                                                                                                    \
    } while (0)

cudaError_t delta_mix_rows(const delta_chunk *c, cudaStream_t stream) {
#define CALL(kind) launch<mix_job, kind>(c, c->count, THREADS, 0, stream)
    OF_KIND(c, CALL);
#undef CALL
}

cudaError_t delta_find_map(const delta_chunk *c, cudaStream_t stream) {
#define CALL(kind) launch_rows<map_job, kind>(c, c->values + c->keys, 1, stream)
    OF_KIND(c, CALL);
#undef CALL
}

cudaError_t delta_fold_maps(const delta_chunk *c, cudaStream_t stream) {
#define CALL(kind) launch_rows<fold_job, kind>(c, c->values, 2, stream)
    OF_KIND(c, CALL);
#undef CALL
}

cudaError_t delta_run(const delta_chunk *c, cudaStream_t stream) {
#define CALL(kind) launch_rows<run_job, kind>(c, c->values, 1, stream)
    OF_KIND(c, CALL);
#undef CALL
}

cudaError_t delta_find_grad(const delta_chunk *c, cudaStream_t stream) {
#define CALL(kind) launch_rows<grad_job, kind>(c, c->values, 1, stream)
    OF_KIND(c, CALL);
#undef CALL
}

cudaError_t delta_fold_grads(const delta_chunk *c, cudaStream_t stream) {
#define CALL(kind) launch_rows<fold_back_job, kind>(c, c->values, 2, stream)
    OF_KIND(c, CALL);
#undef CALL
}

cudaError_t delta_run_back(const delta_chunk *c, cudaStream_t stream) {
#define CALL(kind) launch<run_back_job, kind>(c, c->heads, THREADS, run_back_job<kind>::words(c), stream)
    OF_KIND(c, CALL);
#undef CALL
}

cudaError_t delta_unmix_rows(const delta_chunk *c, cudaStream_t stream) {
#define CALL(kind) launch<unmix_job, kind>(c, c->halo + c->count, THREADS, 0, stream)
    OF_KIND(c, CALL);
#undef CALL
}

cudaError_t delta_store_grads(const delta_chunk *c, cudaStream_t stream) {
#define CALL(kind) launch<store_job, kind>(c, c->count, THREADS, 0, stream)
    OF_KIND(c, CALL);
#undef CALL
}

cudaError_t delta_sum_parameters(const delta_chunk *c, cudaStream_t stream) {
#define CALL(kind) launch<parameters_job, kind>(c, DELTA_SLICES, THREADS, 0, stream)
    const int64_t size = view_of<kind_fp32>(c).parameter_count();
    const cudaError_t result = [&] { OF_KIND(c, CALL); }();
    return result == cudaSuccess
               ? delta_sum(c->kind, c->parameter_parts, DELTA_SLICES, c->parameter_grads, size, stream)
               : result;
#undef CALL
}

cudaError_t delta_sum(delta_kind kind, const void *parts, int64_t count, void *to, int64_t size,
                      cudaStream_t stream) {
    const int64_t blocks = blocks_of(size, THREADS);
    if (kind == DELTA_FIELD)
        return delta_launch(sum_job<field_number>{static_cast<const field_number *>(parts), count, size,
                                                  static_cast<field_number *>(to)},
                            blocks, THREADS, 0, stream);
    return delta_launch(
        sum_job<float>{static_cast<const float *>(parts), count, size, static_cast<float *>(to)}, blocks,
        THREADS, 0, stream);
}

cudaError_t delta_add(delta_kind kind, const void *from, void *to, int64_t size, cudaStream_t stream) {
    const int64_t blocks = blocks_of(size, THREADS);
    if (kind == DELTA_FIELD)
        return delta_launch(add_job<field_number>{static_cast<const field_number *>(from), size,
                                                  static_cast<field_number *>(to)},
                            blocks, THREADS, 0, stream);
    return delta_launch(add_job<float>{static_cast<const float *>(from), size, static_cast<float *>(to)},
                        blocks, THREADS, 0, stream);
}

cudaError_t delta_move_columns(const delta_columns *c, cudaStream_t stream) {
    const uintptr_t all = reinterpret_cast<uintptr_t>(c->from) | reinterpret_cast<uintptr_t>(c->to) |
                          c->from_row_bytes | c->to_row_bytes | c->bytes;
    if (all % 16 == 0)
        return delta_launch(columns_job<uint4>{*c}, c->rows, THREADS, 0, stream);
    if (all % 4 == 0)
        return delta_launch(columns_job<uint32_t>{*c}, c->rows, THREADS, 0, stream);
    return delta_launch(columns_job<uint16_t>{*c}, c->rows, THREADS, 0, stream);
}

size_t delta_stored_bytes(delta_kind kind) {
    return kind == DELTA_BF16 ? sizeof(kind_bf16::stored) : sizeof(kind_fp32::stored);
}
