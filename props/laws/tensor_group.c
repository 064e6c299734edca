/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor_group.h"

enum { DRAW_SIZE = 20, DRAW_ORDER = 21, DRAW_SHUFFLE = 22 };

static void shuffle(int64_t *order, int64_t count, uint64_t salt) {
    for (int64_t i = count - 1; i > 0; i--) {
        const int64_t other = (int64_t)salt_below(salt + (uint64_t)i, DRAW_SHUFFLE, (uint64_t)i + 1);
        const int64_t moved = order[i];
        order[i] = order[other];
        order[other] = moved;
    }
}

bool tensor_group_draw(tensor_group *g, const route_case *c, scratch *s) {
    static const int64_t sizes[] = {1, 2, 3, 4, 8};
    enum { UNSAID, NATURAL, SHUFFLED, ORDERS };
    const uint64_t kind = salt_below(c->salt, DRAW_ORDER, ORDERS);
    g->cp_size = c->geometry.cp_size;
    g->tp_size = sizes[salt_below(c->salt, DRAW_SIZE, sizeof sizes / sizeof *sizes)];
    g->ranks = g->cp_size * g->tp_size;
    g->unsaid = kind == UNSAID;
    int64_t *order = scratch_int64(s, g->ranks);
    if (!order)
        return false;
    for (int64_t i = 0; i < g->ranks; i++)
        order[i] = i;
    if (kind == SHUFFLED)
        shuffle(order, g->ranks, c->salt);
    g->order = order;
    return true;
}

cpr_tensor_ranks tensor_ranks_of(const tensor_group *g, int64_t tp_rank) {
    return (cpr_tensor_ranks){g->tp_size, tp_rank, g->unsaid ? NULL : g->order};
}

int64_t tensor_group_rank(const tensor_group *g, int64_t cp_rank, int64_t tp_rank) {
    return g->order[cp_rank * g->tp_size + tp_rank];
}
