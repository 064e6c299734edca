/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_double.h"

#include <cuda_runtime_api.h>

#include "cuda/deadline.h"
#include "cuda/direct.h"
#include "cuda/lsa.h"
#include "cuda/move_rows.h"
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void insist(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "cuda_double: %s\n", what);
        abort();
    }
}

static void *zeroed(size_t size) {
    void *memory = calloc(1, size);
    insist(memory != NULL, "no memory");
    return memory;
}

/*==============================================================================
 * MARK: - Work
 *============================================================================*/

typedef enum work_kind { COPY, MOVE, RECORD, AWAIT, TALK, CALL, FILL, TABLE, DIRECT } work_kind;

/* How far a rank's part of a conversion without a route is. */
typedef enum direct_phase { TELLS, MOVES, ENDS, ENDED } direct_phase;
typedef struct direct_part {
    cpr_direct_member member;
    cpr_deadline deadline; /* once it waits */
    size_t unit;
    direct_phase phase;
    cpr_error own;
} direct_part;

/* A message to, or from, a peer. */
typedef struct talk {
    bool sends;
    void *memory;
    size_t bytes;
    int peer;
} talk;

enum { MOST_TALKS = 64 };

typedef struct work {
    struct work *next;
    work_kind kind;
    const void *from; /* COPY, MOVE */
    void *to;
    size_t bytes; /* of all, or of a row */
    cpr_moves moves;
    void *staged; /* COPY, out of memory that is not pinned */
    void (*call)(void *context);
    void *context;            /* CALL */
    struct CUevent_st *event; /* RECORD, AWAIT */
    int64_t number;           /* of the record that is made, or awaited */
    ncclComm_t comm;          /* TALK: all of one group, which goes on until everything has arrived */
    talk talks[MOST_TALKS];
    int talk_count;
    bool sent;
    int value;                         /* FILL */
    void *entries[CPR_DIRECT_MEMBERS]; /* TABLE */
    direct_part *parts;                /* DIRECT: of `part_count` ranks; owned by the work */
    int part_count;
} work;

struct graph {
    struct CUstream_st *origin;
    bool relaxed;
    work *first, **end;
};

struct CUstream_st {
    struct CUstream_st *next;
    work *first, **end;
    struct graph *capture;
    bool worked_on; /* right now, further up the stack */
    bool unjoined;  /* work captured that the origin does not wait for yet */
};

struct CUevent_st {
    int64_t enqueued, done;          /* numbers of records */
    struct graph *capture;           /* of the last record */
    struct CUstream_st *recorded_on; /* last */
};

struct pinned {
    struct pinned *next;
    const char *begin;
    size_t size;
};

/* What a rank's thread knows. */
static _Thread_local struct {
    struct CUstream_st *streams;
    struct pinned *pinned;
    int current; /* device; there are any number, and nothing but calls tells them apart */
    int64_t held, synchronisations, allocations;
    int64_t fail_at;
    cudaError_t fail_with, query;
    bool failing, failed;
    ncclComm_t group_comm;
    work *group;
    bool in_group;
    int captures; /* under way, in which only enqueuing is allowed */
    enum cudaStreamCaptureMode mode;
    char ranges[2048], ranges_told[2048];
} device;

void double_fail_call(int64_t at, cudaError_t result) {
    device.failing = at >= 0;
    device.fail_at = at;
    device.fail_with = result;
    device.failed = false;
}

void double_fail_queries(cudaError_t result) {
    device.query = result;
}

bool double_failed_call(void) {
    return device.failed;
}

int64_t double_held(void) {
    return device.held;
}

int64_t double_synchronisations(void) {
    return device.synchronisations;
}

int64_t double_allocations(void) {
    return device.allocations;
}

static cudaError_t outcome(void) {
    if (device.failing && device.fail_at-- == 0) {
        device.failing = false;
        device.failed = true;
        return device.fail_with;
    }
    return cudaSuccess;
}

/* While this thread captures, unless it set that aside. */
static bool forbidden(void) {
    return device.captures > 0 && device.mode != cudaStreamCaptureModeRelaxed;
}

static void append(struct CUstream_st *stream, work *w) {
    struct graph *capture = stream->capture;
    work ***end = capture != NULL ? &capture->end : &stream->end;
    **end = w;
    *end = &w->next;
    if (capture != NULL && stream != capture->origin)
        stream->unjoined = true;
}

static work *make_work(work_kind kind) {
    work *w = zeroed(sizeof *w);
    w->kind = kind;
    return w;
}

/*==============================================================================
 * MARK: - NCCL
 *============================================================================*/

/* Messages under way from one rank to another. */
typedef struct letter {
    struct letter *next;
    size_t bytes;
    char content[];
} letter;

enum { MOST_WINDOWS = 64 };

typedef struct double_window {
    struct double_window *same; /* itself: it is mapped */
    void **memory;              /* of every rank */
    double_world *world;
} double_window;

struct double_world {
    pthread_mutex_t lock;
    pthread_cond_t registered;
    int ranks;
    bool reachable;
    double_window windows[MOST_WINDOWS];
    letter **boxes; /* [from * ranks + to] */
};

struct ncclComm {
    double_world *world;
    int rank;
    int windows, windows_held; /* registered by this rank, and not given back */
    int64_t *held;             /* of the thread that registered them */
    atomic_bool aborted, cleared;
    atomic_int captured; /* groups in graphs that are not destroyed */
    bool in_group;
    ncclResult_t met;
    int askings, left;
    void **unwritten, *window; /* a window that is told when nothing is left */
};

double_world *double_world_make(int ranks) {
    double_world *world = zeroed(sizeof *world);
    world->ranks = ranks;
    world->boxes = zeroed((size_t)(ranks * ranks) * sizeof *world->boxes);
    pthread_mutex_init(&world->lock, NULL);
    pthread_cond_init(&world->registered, NULL);
    return world;
}

void double_world_free(double_world *world) {
    for (int i = 0; i < world->ranks * world->ranks; i++)
        while (world->boxes[i] != NULL) {
            letter *next = world->boxes[i]->next;
            free(world->boxes[i]);
            world->boxes[i] = next;
        }
    for (int i = 0; i < MOST_WINDOWS; i++)
        free(world->windows[i].memory);
    pthread_cond_destroy(&world->registered);
    pthread_mutex_destroy(&world->lock);
    free(world->boxes);
    free(world);
}

ncclComm_t double_comm_make(double_world *world, int rank) {
    ncclComm_t comm = zeroed(sizeof *comm);
    comm->world = world;
    comm->rank = rank;
    return comm;
}

static void sleep_a_while(void) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void double_comm_free(ncclComm_t comm) {
    while (comm->aborted && !comm->cleared)
        sleep_a_while();
    free(comm);
}

void double_comm_slow(ncclComm_t comm, int askings) {
    comm->askings = askings;
}

void double_comm_meets(ncclComm_t comm, ncclResult_t result) {
    comm->met = result;
}

bool double_comm_aborted(ncclComm_t comm) {
    return comm->aborted;
}

static void alive(ncclComm_t comm) {
    insist(!comm->aborted, "a communicator is used after its abort");
}

static letter **box_of(ncclComm_t comm, const talk *t) {
    const int from = t->sends ? comm->rank : t->peer;
    const int to = t->sends ? t->peer : comm->rank;
    return &comm->world->boxes[from * comm->world->ranks + to];
}

static void post(ncclComm_t comm, const talk *t) {
    letter *posted = zeroed(sizeof *posted + t->bytes);
    posted->bytes = t->bytes;
    memcpy(posted->content, t->memory, t->bytes);
    letter **last = box_of(comm, t);
    while (*last != NULL)
        last = &(*last)->next;
    *last = posted;
}

static bool fetch(ncclComm_t comm, talk *t) {
    letter **box = box_of(comm, t);
    letter *arrived = *box;
    if (arrived == NULL)
        return false;
    insist(arrived->bytes == t->bytes, "a message of another size than its receiver expects");
    memcpy(t->memory, arrived->content, t->bytes);
    *box = arrived->next;
    free(arrived);
    t->memory = NULL;
    return true;
}

static bool talk_all(work *w) {
    bool done = true;
    if (w->comm->aborted)
        return true;
    pthread_mutex_lock(&w->comm->world->lock);
    for (int i = 0; i < w->talk_count && !w->sent; i++)
        if (w->talks[i].sends)
            post(w->comm, &w->talks[i]);
    w->sent = true;
    for (int i = 0; i < w->talk_count; i++)
        if (!w->talks[i].sends && w->talks[i].memory != NULL)
            done &= fetch(w->comm, &w->talks[i]);
    pthread_mutex_unlock(&w->comm->world->lock);
    return done;
}

ncclResult_t ncclGroupStart(void) {
    insist(!device.in_group, "a group within a group");
    device.in_group = true;
    return ncclSuccess;
}

static ncclResult_t add_talk(talk t, ncclComm_t comm, cudaStream_t stream) {
    alive(comm);
    insist(comm->left == 0, "a communicator is used before it is done with what came before");
    insist(device.in_group, "a message outside a group");
    insist(t.bytes > 0 && t.peer != comm->rank, "a message of nothing, or to itself");
    if (device.group == NULL) {
        device.group = make_work(TALK);
        device.group->comm = comm;
        device.group->to = stream;
    }
    insist(device.group->talk_count < MOST_TALKS, "too many messages for the double");
    comm->in_group = true;
    device.group->talks[device.group->talk_count++] = t;
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *memory, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    insist(type == ncclInt8, "bytes are sent");
    return add_talk((talk){true, (void *)(uintptr_t)memory, count, peer}, comm, stream);
}

ncclResult_t ncclRecv(void *memory, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    insist(type == ncclInt8, "bytes are received");
    return add_talk((talk){false, memory, count, peer}, comm, stream);
}

ncclResult_t ncclGroupEnd(void) {
    work *group = device.group;
    insist(device.in_group, "the end of no group");
    device.in_group = false;
    device.group = NULL;
    if (group == NULL)
        return ncclSuccess;
    append(group->to, group);
    group->comm->in_group = false;
    if (((struct CUstream_st *)group->to)->capture != NULL)
        group->comm->captured++;
    group->comm->left = group->comm->askings;
    return group->comm->askings > 0 ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
    char *const places = to;
    (void)cudaMemcpyAsync(places + (size_t)comm->rank * count, from, count, cudaMemcpyDeviceToDevice, stream);
    (void)ncclGroupStart();
    for (int peer = 0; peer < comm->world->ranks; peer++)
        if (peer != comm->rank) {
            (void)ncclSend(from, count, type, peer, comm, stream);
            (void)ncclRecv(places + (size_t)peer * count, count, type, peer, comm, stream);
        }
    return ncclGroupEnd();
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *met) {
    alive(comm);
    *met = comm->met != ncclSuccess ? comm->met : comm->left > 0 ? ncclInProgress : ncclSuccess;
    comm->left -= comm->left > 0;
    if (comm->left == 0 && comm->unwritten != NULL) {
        *comm->unwritten = comm->window;
        comm->unwritten = NULL;
    }
    return ncclSuccess;
}

/* Like NCCL's, it ends work at once, but does not return while a graph has captured the communicator. */
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    enum { MOST_MS = 20000 };
    alive(comm);
    insist(!comm->in_group, "an abort within a group");
    if (comm->windows_held > 0) { /* they go with it */
        *comm->held -= comm->windows_held;
        comm->windows_held = 0;
    }
    comm->aborted = true;
    for (int ms = 0; comm->captured > 0; ms++) {
        insist(ms < MOST_MS, "an abort waits for ever for a graph that nobody destroys");
        sleep_a_while();
    }
    comm->cleared = true;
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count) {
    *count = comm->world->ranks;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) {
    *rank = comm->rank;
    return ncclSuccess;
}

/*==============================================================================
 * MARK: - Windows
 *============================================================================*/

void double_world_reachable(double_world *world) {
    world->reachable = true;
}

int cpr_lsa_team_size(ncclComm_t comm) {
    alive(comm);
    return comm->world->reachable ? comm->world->ranks : 1;
}

/* Waits for all ranks, and succeeds at once on a communicator that does not block, though the window comes later: both as NCCL does. */
ncclResult_t cpr_lsa_register(ncclComm_t comm, void *memory, size_t bytes, void **window) {
    double_world *world = comm->world;
    alive(comm);
    insist(bytes > 0 && comm->windows < MOST_WINDOWS, "a window of nothing, or too many for the double");
    pthread_mutex_lock(&world->lock);
    double_window *w = &world->windows[comm->windows++];
    if (w->memory == NULL)
        w->memory = zeroed((size_t)world->ranks * sizeof *w->memory);
    w->same = w;
    w->world = world;
    w->memory[comm->rank] = memory;
    pthread_cond_broadcast(&world->registered);
    for (int r = 0; r < world->ranks; r++)
        while (w->memory[r] == NULL)
            pthread_cond_wait(&world->registered, &world->lock);
    pthread_mutex_unlock(&world->lock);
    *window = comm->askings > 0 ? NULL : w;
    if (comm->askings > 0) {
        comm->left = comm->askings;
        comm->unwritten = window;
        comm->window = w;
    }
    comm->windows_held++;
    comm->held = &device.held;
    device.held++;
    return ncclSuccess;
}

ncclResult_t cpr_lsa_deregister(ncclComm_t comm, void *window) {
    alive(comm);
    insist(window != NULL, "no window is deregistered");
    comm->windows_held--;
    device.held--;
    return ncclSuccess;
}

bool cpr_lsa_is_mapped(const void *window) {
    return window != NULL && ((const double_window *)window)->same == window;
}

cudaError_t cpr_lsa_bases(void *window, int ranks, void **bases, cudaStream_t stream) {
    double_window *w = window;
    return cpr_direct_write_table(bases, w->memory, ranks, stream);
}

/* Memory that outlives its rank's thread: others may write to it until all have come to their end. */
ncclResult_t ncclMemAlloc(void **memory, size_t size) {
    device.allocations++;
    if (outcome() != cudaSuccess)
        return ncclUnhandledCudaError;
    *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    insist(*memory != NULL, "no memory");
    memset(*memory, 0xEE, size);
    device.held++;
    return ncclSuccess;
}

/*==============================================================================
 * MARK: - Conversions without a route
 *============================================================================*/

static pthread_mutex_t boards = PTHREAD_MUTEX_INITIALIZER;

static cpr_direct_slot *slot_of(const cpr_direct_member *m, int64_t at, int64_t from) {
    return (cpr_direct_slot *)(void *)((char *)m->boards[at] +
                                       cpr_direct_slot_at(m->facts.ranks, m->channel, 0, from));
}

static uint64_t *own_step(const cpr_direct_member *m) {
    return (uint64_t *)(void *)((char *)m->boards[m->rank] +
                                cpr_direct_step_at(m->facts.ranks, m->channel, 0));
}

static uint64_t *lost_word(const cpr_direct_member *m) {
    return (uint64_t *)(void *)((char *)m->boards[m->rank] + cpr_direct_lost_at(m->facts.ranks));
}

static void tell_all(const cpr_direct_member *m, uint64_t step, const cpr_direct_note *note) {
    for (int64_t peer = 0; peer < m->facts.ranks; peer++) {
        cpr_direct_slot *slot = slot_of(m, peer, m->rank);
        if (note != NULL)
            slot->note = *note;
        slot->step = step;
    }
}

static bool all_are_at(const cpr_direct_member *m, uint64_t step) {
    for (int64_t peer = 0; peer < m->facts.ranks; peer++)
        if (slot_of(m, m->rank, peer)->step < step)
            return false;
    return true;
}

static void judge(direct_part *part) {
    const cpr_direct_member *m = &part->member;
    cpr_offsets_scan scan = {0, 0, 0};
    part->own = m->refusal;
    if (part->own.status == CPR_OK) {
        scan = cpr_offsets_scanned(&m->offsets, &m->facts, 0, 1);
        part->own = cpr_offsets_judged(&m->offsets, &m->facts, &scan);
    }
    const cpr_direct_note note = {part->own.status, cpr_direct_digest(m->call_digest, &scan)};
    tell_all(m, *own_step(m) + 1, &note);
}

static void move_directly(const direct_part *part) {
    const cpr_direct_member *m = &part->member;
    const cpr_places places = cpr_places_of(&m->offsets, &m->facts, m->rank);
    const int64_t units_per_row = (int64_t)(m->row_bytes / part->unit);
    for (int64_t unit = 0; unit < cpr_places_rows(&places) * units_per_row; unit++) {
        const cpr_direct_place place = cpr_direct_by_lookup(&places, units_per_row, unit);
        memcpy((char *)m->targets[place.peer] + m->target_offset + (size_t)place.unit * part->unit,
               (const char *)m->source + (size_t)unit * part->unit, part->unit);
    }
}

static void answer(const direct_part *part) {
    const cpr_direct_member *m = &part->member;
    cpr_direct_findings all = {INT64_MAX, INT64_MAX};
    for (int64_t r = 0; r < m->facts.ranks; r++) {
        const cpr_direct_findings one =
            cpr_direct_found_in(r, &slot_of(m, m->rank, r)->note, &slot_of(m, m->rank, 0)->note);
        all.failed = one.failed < all.failed ? one.failed : all.failed;
        all.different = one.different < all.different ? one.different : all.different;
    }
    const cpr_error found = cpr_direct_answer(
        part->own, &all, &slot_of(m, m->rank, all.failed == INT64_MAX ? 0 : all.failed)->note,
        &slot_of(m, m->rank, all.different == INT64_MAX ? 0 : all.different)->note,
        &slot_of(m, m->rank, 0)->note);
    if (found.status == CPR_OK)
        move_directly(part);
    else {
        m->report->begun++;
        m->report->error = found;
        m->report->raised++;
    }
}

/* As far as other ranks allow; true at the end. */
static bool go_on(direct_part *part) {
    const cpr_direct_member *m = &part->member;
    if (*lost_word(m) != 0)
        part->phase = ENDED;
    if (part->phase == TELLS) {
        judge(part);
        part->deadline = cpr_deadline_in(m->timeout_ms);
        part->phase = MOVES;
    }
    if (part->phase == MOVES && all_are_at(m, *own_step(m) + 1)) {
        answer(part);
        tell_all(m, *own_step(m) + 2, NULL);
        part->phase = ENDS;
    }
    if (part->phase == ENDS && all_are_at(m, *own_step(m) + 2)) {
        *own_step(m) += 2;
        part->phase = ENDED;
    }
    if (part->phase != ENDED && (m->watch->given_up != 0 || cpr_deadline_passed(&part->deadline))) {
        *lost_word(m) = 1;
        m->watch->waited_ms = cpr_deadline_waited_ms(&part->deadline);
        part->phase = ENDED;
    }
    return part->phase == ENDED;
}

/* Twice: the last one of a launch sets the others free. */
static bool convert_directly(work *w) {
    bool done = false;
    pthread_mutex_lock(&boards);
    for (int round = 0; round < 3; round++) {
        done = true;
        for (int i = 0; i < w->part_count; i++)
            done &= go_on(&w->parts[i]);
    }
    pthread_mutex_unlock(&boards);
    return done;
}

cudaError_t cpr_direct_launch_together(const cpr_direct_member *members, int count, size_t unit_bytes,
                                       int blocks, cudaStream_t stream) {
    const cudaError_t result = outcome();
    insist(blocks > 0 && count > 0 && count <= CPR_DIRECT_MEMBERS, "a grid of no blocks or too many ranks");
    if (result != cudaSuccess)
        return result;
    work *w = make_work(DIRECT);
    w->parts = zeroed((size_t)count * sizeof *w->parts);
    w->part_count = count;
    for (int i = 0; i < count; i++)
        w->parts[i] = (direct_part){.member = members[i], .unit = unit_bytes};
    append(stream, w);
    return cudaSuccess;
}

cudaError_t cpr_direct_launch(const cpr_direct_member *member, size_t unit_bytes, int blocks,
                              cudaStream_t stream) {
    return cpr_direct_launch_together(member, 1, unit_bytes, blocks, stream);
}

int cpr_direct_blocks(int64_t bytes, int multiprocessors) {
    return bytes > 0 ? multiprocessors : 1;
}

cudaError_t cpr_direct_write_table(void **table_on_device, void *const *entries, int count,
                                   cudaStream_t stream) {
    const cudaError_t result = outcome();
    if (result == cudaSuccess) {
        work *w = make_work(TABLE);
        w->to = table_on_device;
        w->bytes = (size_t)count * sizeof *entries;
        memcpy(w->entries, entries, w->bytes);
        append(stream, w);
    }
    return result;
}

/*==============================================================================
 * MARK: - Doing the work
 *============================================================================*/

static void free_work(work *w) {
    free(w->staged);
    free(w->parts);
    free(w);
}

static void move_units(const work *w) {
    const size_t unit = cpr_move_unit_bytes(w->bytes, w->from, w->to);
    const int64_t units_per_row = (int64_t)(w->bytes / unit);
    const int64_t chunks = cpr_move_chunks(&w->moves, units_per_row);
    for (int64_t number = 0; number < chunks; number++) {
        const cpr_move_chunk chunk = cpr_move_chunk_at(&w->moves, units_per_row, number);
        for (int lane = 0; lane < CPR_MOVE_LANES; lane++)
            for (int step = 0; step < cpr_move_steps(&chunk, lane); step++) {
                const cpr_unit_move move =
                    cpr_move_in_many_runs(&w->moves, units_per_row, &chunk, lane, step);
                memcpy((char *)w->to + (size_t)move.to * unit,
                       (const char *)w->from + (size_t)move.from * unit, unit);
            }
    }
}

static bool do_work(work *w) {
    if (device.query != cudaSuccess) /* the device does nothing any more */
        return true;
    switch (w->kind) {
    case COPY:
        memcpy(w->to, w->staged != NULL ? w->staged : w->from, w->bytes);
        return true;
    case MOVE:
        move_units(w);
        return true;
    case CALL:
        w->call(w->context);
        free(w->context);
        return true;
    case FILL:
        memset(w->to, w->value, w->bytes);
        return true;
    case TABLE:
        memcpy(w->to, w->entries, w->bytes);
        return true;
    case DIRECT:
        return convert_directly(w);
    case RECORD:
        w->event->done = w->number;
        return true;
    case AWAIT:
        return w->event->done >= w->number;
    default:
        return talk_all(w);
    }
}

static void work_on(struct CUstream_st *stream);

/* What it waits for on another stream is worked on first. */
static bool do_in_order(work *w) {
    if (w->kind == AWAIT && w->event->done < w->number)
        work_on(w->event->recorded_on);
    return do_work(w);
}

/* Only what is asked for is done, and what that waits for. */
static void work_on(struct CUstream_st *stream) {
    if (stream == NULL || stream->worked_on)
        return;
    stream->worked_on = true;
    while (stream->first != NULL && do_in_order(stream->first)) {
        work *done = stream->first;
        stream->first = done->next;
        if (stream->first == NULL)
            stream->end = &stream->first;
        free_work(done);
    }
    stream->worked_on = false;
}

static bool idle(void) {
    bool all = true;
    for (struct CUstream_st *s = device.streams; s != NULL; s = s->next) {
        work_on(s);
        all &= s->first == NULL;
    }
    return all;
}

cudaError_t cpr_move_rows_load(void) {
    return outcome();
}

cudaError_t cpr_direct_load(void) {
    return outcome();
}

cudaError_t cpr_move_rows(const cpr_moves *moves, size_t row_bytes, const void *from, void *to,
                          int most_blocks, cudaStream_t stream) {
    if (moves->rows == 0)
        return cudaSuccess;
    insist(most_blocks > 0, "a grid of no blocks");
    const cudaError_t result = outcome();
    if (result == cudaSuccess) {
        work *w = make_work(MOVE);
        w->moves = *moves;
        w->bytes = row_bytes;
        w->from = from;
        w->to = to;
        append(stream, w);
    }
    return result;
}

cudaError_t double_enqueue(cudaStream_t stream, void (*call)(void *context), void *context) {
    insist(stream->capture == NULL, "a call is captured, whose context is there for one");
    work *w = make_work(CALL);
    w->call = call;
    w->context = context;
    append(stream, w);
    return cudaSuccess;
}

/*==============================================================================
 * MARK: - The runtime
 *============================================================================*/

cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *number) {
    *number = device.current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int number) {
    device.current = number;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int number) {
    insist(attribute == cudaDevAttrMultiProcessorCount && number >= 0,
           "an attribute that the double does not know");
    *value = 8;
    return outcome();
}

static cudaError_t allocate(void **memory, size_t size) {
    const cudaError_t result = forbidden() ? cudaErrorStreamCaptureUnsupported : outcome();
    device.allocations++;
    if (result == cudaSuccess) {
        *memory = malloc(size);
        insist(*memory != NULL, "no memory");
        memset(*memory, 0xEE, size);
        device.held++;
    }
    return result;
}

cudaError_t cudaMalloc(void **memory, size_t size) {
    return allocate(memory, size);
}

cudaError_t cudaMallocHost(void **memory, size_t size) {
    const cudaError_t result = allocate(memory, size);
    if (result == cudaSuccess) {
        struct pinned *made = zeroed(sizeof *made);
        *made = (struct pinned){.next = device.pinned, .begin = *memory, .size = size};
        device.pinned = made;
    }
    return result;
}

static bool is_pinned(const void *memory) {
    for (const struct pinned *p = device.pinned; p != NULL; p = p->next)
        if ((const char *)memory >= p->begin && (const char *)memory < p->begin + p->size)
            return true;
    return false;
}

/* Both wait for the device. */
static cudaError_t release(void *memory) {
    if (memory != NULL) {
        insist(!forbidden(), "memory is freed in a capture, which that ends");
        insist(idle(), "memory is freed under work that waits for ever");
        device.held--;
        free(memory);
    }
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory) {
    return release(memory);
}

cudaError_t cudaFreeHost(void *memory) {
    for (struct pinned **at = &device.pinned; *at != NULL; at = &(*at)->next)
        if ((*at)->begin == (const char *)memory) {
            struct pinned *gone = *at;
            *at = gone->next;
            free(gone);
            break;
        }
    return release(memory);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    const cudaError_t result = outcome();
    insist(flags == cudaStreamNonBlocking, "streams of the library wait for no others");
    device.allocations++;
    if (result == cudaSuccess) {
        struct CUstream_st *made = zeroed(sizeof *made);
        made->end = &made->first;
        made->next = device.streams;
        device.streams = made;
        device.held++;
        *stream = made;
    }
    return result;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    struct CUstream_st **at = &device.streams;
    work_on(stream);
    insist(stream->first == NULL, "a stream is destroyed under work");
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    device.held--;
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    const cudaError_t result = outcome();
    insist(flags == cudaEventDisableTiming, "events that are not for timing");
    device.allocations++;
    if (result == cudaSuccess) {
        *event = zeroed(sizeof **event);
        device.held++;
    }
    return result;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    (void)idle();
    device.held--;
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    const cudaError_t result = outcome();
    if (result == cudaSuccess) {
        work *w = make_work(RECORD);
        w->event = event;
        w->number = ++event->enqueued;
        event->capture = stream->capture;
        event->recorded_on = stream;
        append(stream, w);
    }
    return result;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    const cudaError_t result = outcome();
    insist(flags == 0, "a wait with flags");
    if (result != cudaSuccess)
        return result;
    if (stream->capture != NULL && event->capture != stream->capture)
        return cudaErrorStreamCaptureIsolation;
    stream->capture = event->capture;
    if (stream->capture != NULL && stream == stream->capture->origin)
        event->recorded_on->unjoined = false;
    work *w = make_work(AWAIT);
    w->event = event;
    w->number = event->enqueued;
    const bool joins = stream->capture != NULL && stream != stream->capture->origin;
    append(stream, w);
    stream->unjoined = joins;
    return result;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    insist(event->capture == NULL, "an event of a capture is asked");
    if (forbidden())
        return cudaErrorStreamCaptureUnsupported;
    work_on(event->recorded_on);
    return event->done == event->enqueued ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    if (stream->capture != NULL || forbidden())
        return cudaErrorStreamCaptureUnsupported;
    work_on(stream);
    return device.query != cudaSuccess ? device.query
           : stream->first == NULL     ? cudaSuccess
                                       : cudaErrorNotReady;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (stream->capture != NULL || forbidden())
        return cudaErrorStreamCaptureUnsupported;
    const cudaError_t result = outcome();
    device.synchronisations++;
    work_on(stream);
    insist(stream->first == NULL, "a stream is waited for that waits for ever");
    return result;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    const cudaError_t result = outcome();
    if (result == cudaSuccess) {
        work *w = make_work(COPY);
        w->to = to;
        w->from = from;
        w->bytes = bytes;
        if (kind == cudaMemcpyHostToDevice && !is_pinned(from)) { /* it has left when the call returns */
            insist(stream->capture == NULL, "a copy out of memory that is not pinned is captured");
            w->staged = zeroed(bytes + 1);
            memcpy(w->staged, from, bytes);
        }
        append(stream, w);
    }
    return result;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    const cudaError_t result = outcome();
    if (result == cudaSuccess) {
        work *w = make_work(FILL);
        w->to = to;
        w->value = value;
        w->bytes = bytes;
        append(stream, w);
    }
    return result;
}

ncclResult_t ncclMemFree(void *memory) {
    return release(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

/* Ranges. */

/* The first of them: as many as there is room for. */
static void log_range(const char *sign, const char *name) {
    const size_t used = strlen(device.ranges);
    snprintf(device.ranges + used, sizeof device.ranges - used, "%s%s", sign, name);
}

static int NVTX_API push_range(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *range) {
    (void)domain;
    log_range(">", range->message.ascii);
    return 0;
}

static int NVTX_API pop_range(nvtxDomainHandle_t domain) {
    (void)domain;
    log_range("<", "");
    return 0;
}

static int NVTX_API listen_to_ranges(NvtxGetExportTableFunc_t tables) {
    const NvtxExportTableCallbacks *callbacks = (const NvtxExportTableCallbacks *)tables(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned size;
    if (callbacks == NULL || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
        return 0;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push_range;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop_range;
    return 1;
}

NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = listen_to_ranges;

const char *double_ranges(void) {
    memcpy(device.ranges_told, device.ranges, sizeof device.ranges);
    device.ranges[0] = '\0';
    return device.ranges_told;
}

/* Graphs. */

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    const enum cudaStreamCaptureMode before = device.mode;
    device.mode = *mode;
    *mode = before;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    *status = stream->capture != NULL ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return outcome();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    struct graph *graph = zeroed(sizeof *graph);
    device.captures += mode != cudaStreamCaptureModeRelaxed;
    graph->relaxed = mode == cudaStreamCaptureModeRelaxed;
    graph->origin = stream;
    graph->end = &graph->first;
    stream->capture = graph;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    device.captures -= !stream->capture->relaxed;
    *graph = (cudaGraph_t)(void *)stream->capture;
    for (struct CUstream_st *s = device.streams; s != NULL; s = s->next)
        if (s->capture == stream->capture && s != stream) {
            insist(!s->unjoined || device.failed, "a capture ends that is not joined");
            s->capture = NULL;
        }
    stream->capture = NULL;
    return cudaSuccess;
}

/* In the order in which it was captured, which is one that its dependencies allow. */
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    const struct graph *graph = (const struct graph *)(void *)executable;
    for (const work *w = graph->first; w != NULL; w = w->next) {
        work *copy = make_work(w->kind);
        *copy = *w;
        copy->next = NULL;
        if (w->parts != NULL) {
            copy->parts = zeroed((size_t)w->part_count * sizeof *w->parts);
            memcpy(copy->parts, w->parts, (size_t)w->part_count * sizeof *w->parts);
        }
        if (w->kind != RECORD && w->kind != AWAIT)
            append(stream, copy);
        else
            free(copy);
    }
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t captured) {
    struct graph *graph = (struct graph *)(void *)captured;
    while (graph->first != NULL) {
        work *next = graph->first->next;
        if (graph->first->kind == TALK)
            graph->first->comm->captured--;
        free_work(graph->first);
        graph->first = next;
    }
    free(graph);
    return cudaSuccess;
}
