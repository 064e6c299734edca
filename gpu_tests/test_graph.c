/* SPDX-License-Identifier: Apache-2.0 */
/* Forward and backward of two exchanges, as layers have them, captured in one CUDA graph; each replay moves other rows. */
#include "tests.h"
#include "trip.h"

#include <inttypes.h>
#include <stdlib.h>

enum { REPLAYS = 5 };

typedef struct layers {
    trip there, back; /* zigzag -> contiguous and contiguous -> zigzag, each forward and backward */
    cudaGraph_t graph;
    cudaGraphExec_t instance;
} layers;

static bool enqueue_layers(layers *l) {
    return trip_forward(&l->there) && trip_forward(&l->back) && trip_backward(&l->back) &&
           trip_backward(&l->there);
}

static bool capture(layers *l, const stage *s) {
    stage_step(s, "capture");
    if (!CUDA_TRY(s, cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal)))
        return false;
    const bool enqueued = enqueue_layers(l);
    return CUDA_TRY(s, cudaStreamEndCapture(s->stream, &l->graph)) && enqueued &&
           CUDA_TRY(s, cudaGraphInstantiate(&l->instance, l->graph, 0));
}

static bool replay(layers *l, const stage *s, uint64_t salt) {
    stage_step(s, "replay %" PRIu64, salt);
    return trip_paint(&l->there, salt) && trip_paint(&l->back, salt + 1000) &&
           CUDA_TRY(s, cudaGraphLaunch(l->instance, s->stream)) && trip_judge(&l->there, salt) &&
           trip_judge(&l->back, salt + 1000);
}

bool test_graph(stage *s) {
    pack *p = malloc(sizeof *p);
    if (!p)
        return stage_fail(s, "no memory for a pack");
    pack_make(PACK_RAGGED, s->cp_size, p);
    layers l = {0};
    const trip_plan there = {p, CPR_ZIGZAG, CPR_CONTIGUOUS, 96, 0},
                    back = {p, CPR_CONTIGUOUS, CPR_ZIGZAG, 80, 0};
    bool good = trip_open(&l.there, s, &there) && trip_open(&l.back, s, &back) && trip_paint(&l.there, 77) &&
                trip_paint(&l.back, 78) && enqueue_layers(&l) && stage_wait(s) && capture(&l, s);
    for (uint64_t salt = 1; good && salt <= REPLAYS; salt++)
        good = replay(&l, s, salt);
    /* the exchanges still work outside the graph */
    good = good && trip_there_and_back(&l.there, 99);
    if (l.instance)
        cudaGraphExecDestroy(l.instance);
    if (l.graph)
        cudaGraphDestroy(l.graph);
    trip_close(&l.there);
    trip_close(&l.back);
    free(p);
    return good;
}
