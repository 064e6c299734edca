/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cproute: context-parallel routes for packed (THD) batches.
 *
 * A packed batch of T tokens is held by P ranks, T/P rows each. Which rows, and in which order, is a
 * *layout*. A *route* is all that one rank needs for the all-to-all-v that turns its rows in a source
 * layout into its rows in a target layout: which local row goes to which row of which rank, and which
 * local row every arriving row belongs to.
 *
 * A route is kept as *runs*, so its size depends on the number of sequences and not on the number of
 * tokens. Rows and split sizes are expansions of the runs, made when asked for.
 *
 *     const int32_t boundaries[] = {0, 4, 16};
 *     cpr_route_request request = {
 *         .cu_seqlens = cpr_cu_seqlens_int32(boundaries, 3),
 *         .rows = CPR_ROWS_UNCHECKED,
 *         .geometry = {.cp_size = 2, .cp_rank = 0},
 *         .source = CPR_ZIGZAG,
 *         .target = CPR_CONTIGUOUS,
 *     };
 *     cpr_route *route;
 *     cpr_error error;
 *     if (cpr_route_build(&request, NULL, &route, &error) != CPR_OK) { ... error.index ... }
 *     cpr_route_free(route);
 *
 * Conventions of every function below, unless it says otherwise:
 *   - Pointers are required and must not be NULL; `allocator` and `error` may be NULL.
 *   - A function that can fail returns a cpr_status, writes `*error` on every return (also on CPR_OK),
 *     and on failure leaves every other output untouched and holds on to no memory.
 *   - Thread-safety: there are no globals. A function may run in any number of threads at once as long
 *     as no thread writes to an object that another one uses.
 *   - Rows and tokens count from 0. Sizes are int64_t, in rows unless named otherwise.
 *
 * Sources: Megatron-LM pull requests 3282 (layouts, per-token index tensors), 5664 (interval builder),
 * 6387 (two-view route), 7545 (TP x CP); TransformerEngine thd_get_partitioned_indices (zigzag).
 */
#ifndef CPROUTE_CPROUTE_H
#define CPROUTE_CPROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define CPR_API
#elif defined(__GNUC__)
#define CPR_API __attribute__((visibility("default")))
#else
#define CPR_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*==============================================================================
 * MARK: - Version
 *============================================================================*/

#define CPR_VERSION_MAJOR  0
#define CPR_VERSION_MINOR  1
#define CPR_VERSION_PATCH  0
#define CPR_VERSION_STRING "0.1.0"
#define CPR_VERSION_NUMBER (CPR_VERSION_MAJOR * 10000 + CPR_VERSION_MINOR * 100 + CPR_VERSION_PATCH)

/* The version of the library that is linked, to be compared with CPR_VERSION_NUMBER of the header. */
CPR_API int cpr_version_number(void);

/* The same as text, "major.minor.patch". Static storage. */
CPR_API const char *cpr_version_string(void);

/*==============================================================================
 * MARK: - Limits
 *============================================================================*/

/* Largest cp_size. Twice as many chunks still have a 32-bit number. */
#define CPR_CP_SIZE_MAX (INT64_C(1) << 30)

/* Most tokens that the definition and per-token builders take; both enumerate every token. */
#define CPR_ENUMERATION_MAX_TOKENS (INT64_C(1) << 24)

/*==============================================================================
 * MARK: - Status and errors
 *============================================================================*/

/*
 * Requests are validated in the order in which the first group is listed, by every builder and on every
 * rank alike, and the first rule that fails is reported. Numbers are stable and lie in [-999, -900].
 */
typedef enum cpr_status {
    CPR_OK = 0,

    /* What is wrong with a request.        cpr_error: index | got | wanted                          */
    CPR_BAD_CP_SIZE = -901,         /* -1 | cp_size | the limit passed: 1 or CPR_CP_SIZE_MAX            */
    CPR_BAD_RANK = -902,            /* -1 | cp_rank | cp_size (ranks lie below it)                      */
    CPR_BAD_LAYOUT = -903,          /* 0 source, 1 target | the value | CPR_LAYOUT_COUNT                */
    CPR_DTYPE = -904,               /* -1 | the dtype | CPR_INT64 (CPR_INT32 is taken too)              */
    CPR_DEVICE = -905,              /* -1 | the device, -1 for data == NULL | CPR_CPU                   */
    CPR_EMPTY_CU_SEQLENS = -906,    /* -1 | number of entries | 1                                       */
    CPR_NONZERO_START = -907,       /* 0 | cu_seqlens[0] | 0                                            */
    CPR_DECREASING = -908,          /* entry | cu_seqlens[entry] | cu_seqlens[entry - 1]                */
    CPR_TOTAL_MISMATCH = -909,      /* -1, the rank or entry | the caller's rows | rows as they must be     */
    CPR_NOT_DIVISIBLE_2CP = -910,   /* sequence, -1 the whole stream | its length | 2 * cp_size         */
    CPR_NOT_DIVISIBLE_CP = -911,    /* -1 | total tokens | cp_size                                      */
    CPR_NOT_DIVISIBLE_CP_TP = -912, /* -1 | rows of one CP rank | tp_size                             */
    CPR_OVERFLOW = -913,            /* -1 | the value | the largest that fits                         */
    CPR_NO_MEMORY = -914,           /* -1 | 0 | 0                                                     */

    /* What is wrong between ranks, found before a byte moves. */
    CPR_SPLIT_MISMATCH = -915,        /* see the exchange functions                                   */
    CPR_DIVERGENT_METADATA = -916,    /* first rank that differs | its value | that of rank 0         */
    CPR_LAYOUT_MISMATCH = -917,       /* rank | the shard's layout | the route's layout               */
    CPR_CAPTURE_LAYOUT_CHANGE = -918, /* a captured route is not right any more: -1 | 0 | 0           */

    /* What is wrong with rows that somebody hands over: out of range, or there twice if got < wanted. */
    CPR_BAD_ROW = -919, /* entry | the row | rows that there are                                     */

    /* What went wrong on GPUs or on other ranks; only functions of cproute_cuda.h return these. What device and bad_row mean of CUDA
     * devices and windows is told there. */
    CPR_CUDA_ERROR = -920,    /* -1 | cudaError_t | 0                                                   */
    CPR_NCCL_ERROR = -921,    /* -1 | ncclResult_t | 0                                                  */
    CPR_TIMEOUT = -922,       /* -1 | milliseconds waited for other ranks | the limit                   */
    CPR_PEER_FAILED = -923,   /* the first rank that could not take part | its status | 0               */
    CPR_UNREACHABLE = -924,   /* -1 | ranks that can write to this rank's memory | cp_size               */
    CPR_BAD_DIRECTION = -925, /* -1 | the direction | 2                                               */

    /* The library contradicts itself: please report it. */
    CPR_INTERNAL = -999
} cpr_status;

/* What is wrong, and where. Fields mean what the table above says; -1 as an index: no entry is to blame.
 * Indices are those of the caller's own array: empty sequences are counted. */
typedef struct cpr_error {
    cpr_status status;
    int64_t index;
    int64_t got;
    int64_t wanted;
} cpr_error;

/* "ok", "bad_cp_size", ... as in text cases and JSON; "unknown" for other numbers. Static storage. */
CPR_API const char *cpr_status_name(cpr_status status);

/* The status with that name, or false where there is none; then *status stays as it was. */
CPR_API bool cpr_status_from_name(const char *name, cpr_status *status);

/* One English sentence without the details. Static storage. */
CPR_API const char *cpr_status_message(cpr_status status);

/* Writes the sentence with its details, cut to `size` bytes with the final NUL. Returns the length that it
 * has uncut, like snprintf. `text` may be NULL if size is 0. */
CPR_API int cpr_error_format(const cpr_error *error, char *text, size_t size);

/*==============================================================================
 * MARK: - Allocator
 *============================================================================*/

/*
 * Where memory comes from. Every function that allocates takes one; NULL means malloc and free.
 * `allocate` returns memory aligned for any type, or NULL, for size > 0. `release` gets the pointer and the
 * size that it was allocated with. An object remembers the allocator that it was made with and is freed
 * through it, so `context` must outlive the object.
 */
typedef struct cpr_allocator {
    void *(*allocate)(void *context, size_t size);
    void (*release)(void *context, void *memory, size_t size);
    void *context;
} cpr_allocator;

/*==============================================================================
 * MARK: - cu_seqlens
 *============================================================================*/

typedef enum cpr_dtype {
    CPR_INT32 = 0,
    CPR_INT64 = 1,
    /* Named so that they can be refused by name: offsets are never rounded. */
    CPR_FLOAT16 = 2,
    CPR_BFLOAT16 = 3,
    CPR_FLOAT32 = 4,
    CPR_FLOAT64 = 5,
    CPR_OTHER_DTYPE = 6
} cpr_dtype;

typedef enum cpr_device { CPR_CPU = 0, CPR_CUDA = 1, CPR_OTHER_DEVICE = 2 } cpr_device;

/*
 * A borrowed view of the packed boundaries: `count` entries of `dtype`, `stride` entries apart (negative and
 * 0 too; `data` is entry 0; no alignment is needed). Entry 0 is 0, entries never decrease, and sequence i is
 * the tokens [entry i, entry i+1). Equal neighbours are empty sequences; they change nothing in a route.
 * The memory is read during a call and never kept.
 */
typedef struct cpr_cu_seqlens {
    const void *data;
    int64_t count;
    int64_t stride;
    cpr_dtype dtype;
    cpr_device device;
} cpr_cu_seqlens;

/* Views of plain host arrays. */
CPR_API cpr_cu_seqlens cpr_cu_seqlens_int32(const int32_t *entries, int64_t count);
CPR_API cpr_cu_seqlens cpr_cu_seqlens_int64(const int64_t *entries, int64_t count);

/* "int32", "int64", "float32", ...; "unknown" for other numbers. Static storage. */
CPR_API const char *cpr_dtype_name(cpr_dtype dtype);
CPR_API bool cpr_dtype_from_name(const char *name, cpr_dtype *dtype);

/*==============================================================================
 * MARK: - Geometry and layouts
 *============================================================================*/

/* Who asks: rank cp_rank of a context-parallel group of cp_size. */
typedef struct cpr_geometry {
    int64_t cp_size;
    int64_t cp_rank;
} cpr_geometry;

/*
 * Which tokens rank r of P holds, in local row order. With P = 1 every layout is the whole stream in order,
 * and no length needs to be divisible by anything.
 */
typedef enum cpr_layout {
    /* Every sequence in 2P equal chunks; chunk r, then chunk 2P-1-r, sequence by sequence. */
    CPR_ZIGZAG = 0,
    /* Tokens [r*T/P, (r+1)*T/P) of the stream; boundaries play no part. */
    CPR_CONTIGUOUS = 1,
    /* Every sequence in 2P equal chunks; chunks 2r and 2r+1 (first version of Megatron-LM 3282). */
    CPR_PER_SEQUENCE_CONTIGUOUS = 2,
    /* Zigzag over the whole stream as if it were one sequence (flash-linear-attention 1221). */
    CPR_FLAT_ZIGZAG = 3,
    /* As zigzag, but all first chunks, then all mirrored chunks. The one layout that does not ascend. */
    CPR_HEADS_THEN_TAILS = 4,
    CPR_LAYOUT_COUNT = 5
} cpr_layout;

/* "zigzag", "contiguous", ...; "unknown" for other numbers. Static storage. */
CPR_API const char *cpr_layout_name(cpr_layout layout);
CPR_API bool cpr_layout_from_name(const char *name, cpr_layout *layout);

/* Tokens [begin, end) of the stream; begin < end. */
typedef struct cpr_interval {
    int64_t begin;
    int64_t end;
} cpr_interval;

/* A rank's share of a layout: its intervals in local row order. No interval begins where the one before it
 * ended, so equal shares have equal lists. */
typedef struct cpr_intervals {
    cpr_interval *items;
    int64_t count;
    int64_t rows; /* tokens in all of them */
    cpr_allocator allocator;
} cpr_intervals;

/* Number that stands for "the caller says nothing about rows". */
#define CPR_ROWS_UNCHECKED INT64_MIN

/*
 * What a layout gives to geometry.cp_rank. `rows` is the row count of the packed buffer, which must be
 * T, or CPR_ROWS_UNCHECKED. Fails as a route from `layout` to itself would. O(entries).
 * The caller frees *intervals with cpr_intervals_free.
 */
CPR_API cpr_status cpr_layout_intervals(const cpr_cu_seqlens *cu_seqlens, int64_t rows, cpr_geometry geometry,
                                        cpr_layout layout, const cpr_allocator *allocator,
                                        cpr_intervals **intervals, cpr_error *error);

/* NULL is allowed. */
CPR_API void cpr_intervals_free(cpr_intervals *intervals);

/*==============================================================================
 * MARK: - Routes
 *============================================================================*/

/* A request for the route of one rank. */
typedef struct cpr_route_request {
    cpr_cu_seqlens cu_seqlens;
    int64_t rows; /* rows of the whole packed buffer: must be T; CPR_ROWS_UNCHECKED: not known here */
    cpr_geometry geometry;
    cpr_layout source;
    cpr_layout target;
    int64_t tp_size; /* rows of a rank must divide by it (sequence parallelism); 0 and 1: no such rule */
} cpr_route_request;

/* `length` rows that stay together: rows source_row, source_row+1, ... of the sending rank become rows
 * target_row, target_row+1, ... of the receiving rank. `peer` is the other rank: the receiver in a list of
 * sends, the sender in a list of receives. */
typedef struct cpr_run {
    int64_t peer;
    int64_t source_row;
    int64_t target_row;
    int64_t length; /* > 0 */
} cpr_run;

/* One side of a route. Runs are ordered by peer, then by target_row. They are maximal: no run goes on, in both
 * rows and at the same peer, where the one before it ended, so equal sides have equal lists. */
typedef struct cpr_run_list {
    cpr_run *runs;
    int64_t count;
    int64_t rows; /* sum of the lengths */
    bool
        identity; /* the local rows, in list order, are 0, 1, 2, ...: no index and no copy is needed. An empty
                      list is an identity too. */
} cpr_run_list;

/*
 * The route of rank geometry.cp_rank. Read only; made by the builders, or by hand to have a foreign route
 * validated and compared, and, if cpr_route_validate takes it, expanded or used to move rows.
 */
typedef struct cpr_route {
    cpr_layout source;
    cpr_layout target;
    cpr_geometry geometry;
    int64_t total_tokens;
    uint64_t boundaries_digest; /* of the boundaries without empty sequences; equal on all ranks */
    cpr_run_list send;          /* local rows: source_row */
    cpr_run_list recv;          /* local rows: target_row */
    cpr_allocator allocator;
} cpr_route;

/* Which side of a route. */
typedef enum cpr_side { CPR_SEND = 0, CPR_RECV = 1 } cpr_side;

/*
 * Builds a route. The caller frees *route with cpr_route_free.
 *
 * cpr_route_build intersects the intervals of both layouts: O(entries + runs) time for one rank, no matter
 * how many tokens. It allocates the route and nothing else, save between a layout that cuts sequences and one that cuts
 * the whole stream, other than zigzag and contiguous: there, a list to sort with among more than 1,024 ranks, and what
 * heads_then_tails needs. The two others are oracles to test against. They give the same route and the same errors,
 * share no code with it or with each other, and take at most CPR_ENUMERATION_MAX_TOKENS tokens (overflow):
 *   - definition: who owns a token, as the layouts' definitions read; O(P * T)
 *   - per_token: index tensors, owner and row of every token, sorted; the method of Megatron-LM 3282;
 *     O(T log T + P * entries)
 */
CPR_API cpr_status cpr_route_build(const cpr_route_request *request, const cpr_allocator *allocator,
                                   cpr_route **route, cpr_error *error);
CPR_API cpr_status cpr_route_build_definition(const cpr_route_request *request,
                                              const cpr_allocator *allocator, cpr_route **route,
                                              cpr_error *error);
CPR_API cpr_status cpr_route_build_per_token(const cpr_route_request *request, const cpr_allocator *allocator,
                                             cpr_route **route, cpr_error *error);

/* NULL is allowed. */
CPR_API void cpr_route_free(cpr_route *route);

/* The routes of all ranks: for one process that holds a whole group, for tests, or to exchange on the host. */
typedef struct cpr_route_group {
    cpr_route **routes; /* routes[r] is that of rank r, and belongs to the group */
    int64_t size;       /* cp_size */
    cpr_allocator allocator;
} cpr_route_group;

/*
 * Builds the routes of all ranks, as cpr_route_build does one by one; boundaries are validated once. O(entries +
 * runs of all ranks) between zigzag and contiguous, else O(cp_size * entries + runs of all ranks). geometry.cp_rank
 * is not looked at. Fails as cpr_route_build does. The caller frees *group with cpr_route_group_free.
 */
CPR_API cpr_status cpr_route_group_build(const cpr_route_request *request, const cpr_allocator *allocator,
                                         cpr_route_group **group, cpr_error *error);

/* NULL is allowed. */
CPR_API void cpr_route_group_free(cpr_route_group *group);

/* The same layouts, geometry, tokens, boundaries and runs; allocators do not matter. */
CPR_API bool cpr_route_equal(const cpr_route *a, const cpr_route *b);

/*
 * Does a route hold together: layouts and geometry legal, runs in order, maximal and in range, every local row
 * exactly once, rows and identity flags true, what is sent to oneself received from oneself? On false *why
 * (may be NULL) is a sentence in static storage. It allocates while it runs and answers false without memory.
 * It cannot tell whether the boundaries were right: compare with a route built from them for that.
 * O(n log n) in runs.
 */
CPR_API bool cpr_route_validate(const cpr_route *route, const cpr_allocator *allocator, const char **why);

/*
 * The local rows of a side in list order: for CPR_SEND the rows to send, grouped by destination; for CPR_RECV
 * the row that each arriving row is scattered to. `rows` is an array of `count` numbers of `dtype`, aligned as
 * such, and count must be the rows of that side (total_mismatch). dtype: CPR_INT64, or CPR_INT32 where every
 * row fits (overflow). An identity is written out too.
 */
CPR_API cpr_status cpr_route_rows(const cpr_route *route, cpr_side side, cpr_dtype dtype, void *rows,
                                  int64_t count, cpr_error *error);

/*
 * Rows sent to (CPR_SEND: input splits) or received from (CPR_RECV: output splits) every rank. count must be
 * cp_size (split_mismatch: -1 | count | cp_size).
 */
CPR_API cpr_status cpr_route_splits(const cpr_route *route, cpr_side side, int64_t *splits, int64_t count,
                                    cpr_error *error);

/*==============================================================================
 * MARK: - Validity cache
 *============================================================================*/

/*
 * A training loop asks for the same route in every layer, in both directions, and again for recompute. The cache
 * returns a route if and only if it is still right, builds it otherwise, and never serves a stale one under the
 * guard that was chosen. What a key of addresses, of attribute presence, or of identity and version misses, and
 * with which shortest sequence of operations, is listed in docs/cache-guards.md.
 *
 * Any number of threads may call any function below on one cache at once, cpr_cache_free excepted; its allocator and
 * callbacks must allow that. Boundaries are routed without a lock held, and two threads that miss the same route
 * build it once: the second waits and hits.
 */

/* What a framework can tell about the tensor that holds the boundaries. */
typedef struct cpr_tensor {
    uint64_t
        handle; /* identity of the tensor object, not of its memory: no two live tensors share one, and it may
                        be used again only after cpr_cache_tensor_freed. See also cpr_cache_options.hold. */
    uint64_t storage;       /* identity of the memory behind it */
    int64_t storage_offset; /* of entry 0 in the storage, in entries */
    int64_t stride;         /* of the tensor, in entries; that of `view` differs if it reads a copy */
    cpr_device device;      /* where the tensor lives; `view` may be a copy on the host */
    int64_t device_index;
    uint64_t generation; /* counts tracked writes; 64 bits, so that it does not wrap */
    bool has_generation; /* false: not counted here (inference tensors) */
    cpr_cu_seqlens view; /* its entries and their dtype; data == NULL where contents cannot be read here */
} cpr_tensor;

/* When a route that was built before is taken to be right still. */
typedef enum cpr_guard {
    /* The strongest that the tensor allows: content if its view can be read, else version. */
    CPR_GUARD_DEFAULT = 0,
    /* Same handle, storage, offset, length, stride, dtype, device and generation as when the same was last asked about
     * the tensor; an older state is never found again, not even if the generation comes back to its value. Contents are not read on a hit,
     * so it is blind to writes that the generation does not count (raw kernels, aliases, graph replays), also where
     * they made the boundaries invalid: announce them with cpr_cache_invalidate. A tensor without a generation is never
     * cached: every lookup builds (a bypass). */
    CPR_GUARD_VERSION = 1,
    /* The boundaries are compared on every lookup: never stale, whatever happened. Needs readable contents. They are
     * the key, so tensors with the same sequences share a route, and identities play no part. */
    CPR_GUARD_CONTENT = 2
} cpr_guard;

/* Why a lookup is made. A route that is used while a graph is captured stays in the cache, neither evicted nor
 * replaced, until cpr_cache_capture_released; only cpr_cache_clear, and under CPR_GUARD_VERSION cpr_cache_invalidate
 * and cpr_cache_tensor_freed, end it sooner, and then a replay is refused. */
typedef enum cpr_use {
    CPR_USE_EAGER = 0,   /* also beside a captured route: other contents get a route of their own */
    CPR_USE_CAPTURE = 1, /* the route goes into a graph */
    CPR_USE_REPLAY =
        2 /* the graph runs again: capture_layout_change unless `captured` is right for this lookup */
} cpr_use;

typedef struct cpr_lookup {
    cpr_tensor tensor;
    int64_t rows; /* of the packed buffer; checked on hits too */
    cpr_geometry geometry;
    cpr_layout source;
    cpr_layout target;
    int64_t tp_size;
    cpr_guard guard; /* a replay needs the one that the capture had */
    cpr_use use;
    const cpr_route *captured; /* for CPR_USE_REPLAY: the route that the capture got; else ignored */
    bool not_packed;           /* the batch is not THD: nothing to route */
} cpr_lookup;

typedef struct cpr_cache_options {
    int64_t max_entries; /* least recently used entries beyond it are evicted; > 0 */
    int64_t max_bytes;   /* the same for the memory of routes and keys; 0: no limit */
    /* Every entry that trusts an identity (CPR_GUARD_VERSION) calls hold before it is stored and drop after it is gone, each
     * time for every tensor that it knows: lets a binding keep a reference, so that an identity cannot be used again
     * while the cache knows it. Either may be NULL. Called without locks held; drop may call back into the cache, hold must
     * not. */
    void (*hold)(void *context, uint64_t handle);
    void (*drop)(void *context, uint64_t handle);
    void *context;
} cpr_cache_options;

/* A lookup that succeeds is one hit, miss or bypass; one that fails counts as nothing. */
typedef struct cpr_cache_stats {
    uint64_t hits;
    uint64_t misses;
    uint64_t builds;   /* boundaries read and routed; prebuild makes both directions in one */
    uint64_t bypasses; /* lookups that built without looking: no generation under the version guard */
    uint64_t checks;   /* verdicts of cpr_cache_resolve that had to be reached; none of the above */
    uint64_t evictions;
    int64_t entries;  /* routes and verdicts */
    int64_t captured; /* of them, kept for a graph */
    int64_t bytes;    /* of entries; routes that callers still hold after eviction are not counted */
} cpr_cache_stats;

typedef struct cpr_cache cpr_cache;

/* The caller frees *cache with cpr_cache_free. overflow: -1 | max_entries | 1 if it is not positive, -1 | max_bytes | 0
 * if it is negative. */
CPR_API cpr_status cpr_cache_create(const cpr_cache_options *options, const cpr_allocator *allocator,
                                    cpr_cache **cache, cpr_error *error);

/* Routes handed out stay valid until they are released. No other call on the cache may be running. NULL is allowed. */
CPR_API void cpr_cache_free(cpr_cache *cache);

/* Other bounds from now on. Fails as cpr_cache_create does. Captured entries stay, also beyond the bounds. */
CPR_API cpr_status cpr_cache_set_limits(cpr_cache *cache, int64_t max_entries, int64_t max_bytes,
                                        cpr_error *error);

/*
 * The route for a lookup. *route stays valid, also after eviction, until cpr_route_release. *hit (may be NULL) tells whether
 * it was there. A route that does not fit the bounds is handed out and not kept.
 *
 * *route is NULL with CPR_OK where there is nothing to exchange: not packed, or cp_size 1. For cp_size 1 boundaries that
 * can be read are validated, once as any route is built once; that alone is what *hit then says.
 *
 * Fails as cpr_route_build does, on hits as on misses (device if there is something to read and it cannot be read), or with
 *   - capture_layout_change: -1 | 0 | 0: a replay whose route is not the one for these contents, or no longer kept
 *   - overflow: -1 | captured entries that this would make | max_entries: a capture that does not fit the bounds
 * A failure leaves the cache as it was, statistics and order of eviction included.
 */
CPR_API cpr_status cpr_cache_get(cpr_cache *cache, const cpr_lookup *lookup, const cpr_route **route,
                                 bool *hit, cpr_error *error);

/* Gives back one reference of a route that cpr_cache_get handed out, and of no other. The memory goes with the last one, through the
 * allocator of the cache. NULL is allowed. */
CPR_API void cpr_route_release(const cpr_route *route);

/* Builds and stores source->target and target->source, so that every later lookup of both hits. One build, none if both
 * are there or if nothing can be kept: not packed, or a bypass. Fails as an eager lookup does. */
CPR_API cpr_status cpr_cache_prebuild(cpr_cache *cache, const cpr_lookup *lookup, cpr_error *error);

/* The tensor was written in a way that its generation does not show: what trusts its identity goes. */
CPR_API void cpr_cache_invalidate(cpr_cache *cache, uint64_t handle);

/* The tensor is gone and its handle may be used again: what trusts its identity goes, and its captures are released. */
CPR_API void cpr_cache_tensor_freed(cpr_cache *cache, uint64_t handle);

/* The graphs that captured routes of this tensor are gone: its entries may be evicted and replaced again. */
CPR_API void cpr_cache_capture_released(cpr_cache *cache, uint64_t handle);

/* All entries go; statistics stay. */
CPR_API void cpr_cache_clear(cpr_cache *cache);

CPR_API cpr_cache_stats cpr_cache_get_stats(cpr_cache *cache);

/* The boundaries of a packed batch. has_* tells which are present. */
typedef struct cpr_packed_params {
    cpr_tensor q, q_padded, kv, kv_padded;
    bool has_q, has_q_padded, has_kv, has_kv_padded;
} cpr_packed_params;

/*
 * Picks the boundaries that a batch is routed by, padded over plain for q and for kv alike (kv may be absent), and checks that both
 * are legal for `layout`, cp_size and `rows`, q first, and equal in value. *resolved is the chosen tensor of q, *hit (may be
 * NULL) whether it was known.
 *
 * The verdict is kept under `guard`: for as long as all four tensors stay what they were, or while the contents of the two chosen ones
 * do. So a micro-batch pays for the check once. The default guard is content if both chosen ones can be read.
 *
 * Fails as cpr_layout_intervals does, or with
 *   - empty_cu_seqlens: -1 | 0 | 1: neither q nor q_padded is present
 *   - divergent_metadata: entry of kv | its value | q's value, where the sequences first differ; or, if one has them all and
 *     more, -1 | number of kv's sequences | number of q's; empty ones do not count
 */
CPR_API cpr_status cpr_cache_resolve(cpr_cache *cache, const cpr_packed_params *params, int64_t rows,
                                     int64_t cp_size, cpr_layout layout, cpr_guard guard,
                                     cpr_tensor *resolved, bool *hit, cpr_error *error);

/*==============================================================================
 * MARK: - Exchange on the host
 *============================================================================*/

/* One rank's rows: `rows` rows of row_bytes each at `data`, ordered by `layout`. `data` may be NULL if there are
 * no bytes. */
typedef struct cpr_shard {
    void *data;
    int64_t rows;
    cpr_layout layout;
} cpr_shard;

/*
 * Moves rows between all ranks of a group inside one process: pack, all-to-all, scatter. routes[r] and
 * sources[r] belong to rank r; targets[r].data receives its rows, and targets[r].layout is set on success.
 * Sources and targets must not overlap. Everything is checked before a byte moves, in this order:
 *   - bad_rank: routes[r] is not the route of rank r of `cp_size`: r | its cp_rank | r
 *   - divergent_metadata: the routes differ in layouts, tokens or boundaries, as cpr_digests_check finds; or, after
 *     split_mismatch, in the runs of a message
 *   - split_mismatch: what a sends to b is not what b receives from a: a * cp_size + b | rows sent | rows received
 *   - layout_mismatch: sources[r].layout is not the routes' source: r | it | the source
 *   - total_mismatch: a shard's rows are not the route's: r | its rows | rows of the route
 *   - overflow: a shard's bytes do not fit: -1 | rows | most rows of row_bytes that fit
 */
CPR_API cpr_status cpr_exchange_host(const cpr_route *const *routes, int64_t cp_size, size_t row_bytes,
                                     const cpr_shard *sources, cpr_shard *targets,
                                     const cpr_allocator *allocator, cpr_error *error);

/*
 * A fingerprint of all that must be equal on all ranks: layouts, group, tokens, boundaries. Ranks gather
 * the digests of all before the first exchange, which no rank may enter if cpr_digests_check refuses them;
 * so each learns of a difference, and none is left waiting. NULL stands for a route that was refused: that
 * rank takes part too, so the others learn of it.
 */
CPR_API uint64_t cpr_route_digest(const cpr_route *route);

/*
 * Of `count` ranks.
 *   - bad_cp_size: there is none: -1 | count | 1
 *   - divergent_metadata: first rank that differs from rank 0 | its digest | that of rank 0; or all are those of NULL, so nobody
 *     has a route: 0 | 0 | 0
 */
CPR_API cpr_status cpr_digests_check(const uint64_t *digests, int64_t count, cpr_error *error);

/* Copies the source rows into `message` in sending order. Both hold route->send.rows rows. */
CPR_API void cpr_pack(const cpr_route *route, size_t row_bytes, const void *source, void *message);

/* Copies arrived rows from `message` to where they belong. Both hold route->recv.rows rows. */
CPR_API void cpr_scatter(const cpr_route *route, size_t row_bytes, const void *message, void *target);

/*
 * Are hand-made split sizes the ones that `route` needs on that side? split_mismatch otherwise, with the first
 * entry that differs: entry | its value | the right value; a wrong number of entries: -1 | count | cp_size.
 */
CPR_API cpr_status cpr_splits_check(const cpr_route *route, cpr_side side, const int64_t *splits,
                                    int64_t count, cpr_error *error);

/*
 * Do the largest message between any two ranks, in elements, and therefore every count of the collective, fit
 * a transport with signed counts of count_bits (8 to 64) bits? A row has row_width elements. Every rank comes
 * to the same answer, because all ranks' routes are built: O(P * (entries + runs)). geometry.cp_rank must still be
 * a legal rank. Fails as the builders do, or with overflow: -1 | elements, INT64_MAX if more | largest count.
 */
CPR_API cpr_status cpr_transport_check(const cpr_route_request *request, int64_t row_width, int count_bits,
                                       const cpr_allocator *allocator, cpr_error *error);

/*==============================================================================
 * MARK: - Shapes: one flat tensor
 *============================================================================*/

/*
 * A route as one int64 tensor (Megatron-LM 5664). P is cp_size, r is cp_rank:
 *
 *     [P, r, source rows, target rows, n_send, n_recv] input splits[P] output splits[P] send rows[n_send] recv rows[n_recv]
 *
 * n_send is 0 if the rows to send are an identity, which is then left out, and the rows of the rank
 * otherwise; n_recv likewise. So a route has exactly one tensor. It does not say which layouts and
 * boundaries it is for.
 */

/* Entries of a route's tensor. overflow: -1 | INT64_MAX | INT64_MAX where there are too many to count. */
CPR_API cpr_status cpr_flat_size(const cpr_route *route, int64_t *count, cpr_error *error);

/* Writes it. count must be cpr_flat_size (total_mismatch: -1 | count | the size). */
CPR_API cpr_status cpr_flat_encode(const cpr_route *route, int64_t *flat, int64_t count, cpr_error *error);

/* A tensor taken apart; its lists lie in the tensor. */
typedef struct cpr_flat_view {
    cpr_geometry geometry;
    int64_t rows;                                /* of the rank, in both layouts */
    const int64_t *input_splits, *output_splits; /* cp_size each */
    const int64_t *send_rows, *recv_rows;        /* `rows` each; NULL: an identity */
} cpr_flat_view;

/*
 * Takes any tensor of any length, believing nothing. `geometry` is the one that it must be for, and is
 * validated as in a request. Checked in this order, with entry numbers of the tensor as indices:
 *   - total_mismatch: fewer than 6 entries: -1 | count | 6
 *   - bad_cp_size, bad_rank: the tensor of another group or rank: 0 or 1 | value | wanted
 *   - total_mismatch: rows below 0: 2 | value | 0; target rows that are not as many: 3 | value | source
 *     rows
 *   - total_mismatch: n_send or n_recv neither 0 nor the rows: 4 or 5 | value | rows
 *   - total_mismatch: another length than the header says: -1 | count | length, INT64_MAX if more
 *   - split_mismatch: a split below 0 or beyond what its list has left: entry | value | rows left; a list
 *     that ends too early: its last entry | value | the value that would complete it; the rank does not
 *     receive from itself what it sends to itself: that output split | value | the input split
 *   - bad_row: out of range, or there twice: entry | row | rows
 *   - total_mismatch: an identity written out: 4 or 5 | value | 0
 * What is accepted is a route's tensor in form, and exactly the one that its view describes. It needs
 * memory for a bit a row if there are rows.
 */
CPR_API cpr_status cpr_flat_decode(const int64_t *flat, int64_t count, cpr_geometry geometry,
                                   const cpr_allocator *allocator, cpr_flat_view *view, cpr_error *error);

/*
 * The route that a tensor stands for, once boundaries and layouts are known: builds the route of `request`,
 * decodes the tensor, and takes it only if it is the tensor of that route. Fails as cpr_route_build, then
 * as cpr_flat_decode, then with
 *   - layout_mismatch: it is for the opposite direction: -1 | request->target | request->source
 *   - divergent_metadata: it is not the tensor of the request: first entry that differs | its value | the
 *     right one
 * The caller frees *route with cpr_route_free.
 */
CPR_API cpr_status cpr_flat_route(const int64_t *flat, int64_t count, const cpr_route_request *request,
                                  const cpr_allocator *allocator, cpr_route **route, cpr_error *error);

/*==============================================================================
 * MARK: - Shapes: two views
 *============================================================================*/

/*
 * The route of a rank between zigzag and contiguous as upstream's modules take it (Megatron-LM 6387). One
 * object serves both directions: the source layout's index and split sizes send, the target layout's
 * receive. Arriving rows are scattered by the target layout's index.
 */
typedef struct cpr_two_view {
    cpr_geometry geometry; /* this and the digest are ours: whose route it is cannot be told from the lists */
    uint64_t boundaries_digest;
    int64_t rows;                    /* of the rank */
    int64_t *zigzag_index;           /* `rows` local rows by peer; NULL: an identity */
    int64_t *zigzag_split_sizes;     /* cp_size */
    int64_t *contiguous_index;       /* as zigzag_index */
    int64_t *contiguous_split_sizes; /* cp_size */
    cpr_allocator allocator;
} cpr_two_view;

/*
 * Makes it of a route in either direction; both give the same. bad_layout if the route is not between these
 * two: 0 source, 1 target | the layout | one that would do. The caller frees *view with cpr_two_view_free.
 */
CPR_API cpr_status cpr_two_view_make(const cpr_route *route, const cpr_allocator *allocator,
                                     cpr_two_view **view, cpr_error *error);

/* NULL is allowed. */
CPR_API void cpr_two_view_free(cpr_two_view *view);

/*==============================================================================
 * MARK: - Shapes: tensor and context parallel in one exchange
 *============================================================================*/

/*
 * Sequence parallelism cuts the local rows of every CP rank into tp_size equal windows; TP rank t holds
 * window t. The logical rank cp_rank * tp_size + tp_rank is rank group_ranks[logical] of the group that
 * exchanges.
 */
typedef struct cpr_tensor_ranks {
    int64_t tp_size; /* 0 as 1 */
    int64_t tp_rank;
    const int64_t *group_ranks; /* a permutation of 0 .. cp_size * tp_size - 1; NULL: in order */
} cpr_tensor_ranks;

/*
 * The route of one of cp_size * tp_size ranks, windows to windows, without a gather and a scatter around it
 * (Megatron-LM 7545). request->geometry is the CP geometry, and tp->tp_size takes the place of
 * request->tp_size. The route is one like any other, for a group of cp_size * tp_size ranks: its geometry
 * is that group and the rank's place in it, peers are group ranks, rows count from the start of a window.
 * Messages go by group rank; in a message rows ascend in the stream, which is the target's order too, as
 * layouts must ascend. With tp_size 1 and ranks in order it is the plain route. boundaries_digest covers
 * tp_size and group_ranks too.
 *
 * Fails as cpr_route_build, with these in between:
 *   - bad_cp_size, after the geometry: the group is too large: -1 | cp_size * tp_size, INT64_MAX if more |
 *     CPR_CP_SIZE_MAX
 *   - bad_rank, after that: no such TP rank: -1 | tp_rank | tp_size
 *   - bad_layout, with the layouts: heads_then_tails, which does not ascend: 0 or 1 | layout |
 *     CPR_LAYOUT_COUNT
 *   - not_divisible_cp_tp: -1 | rows of a CP rank | tp_size
 *   - bad_rank, at last: group_ranks is no permutation: logical rank | group rank | ranks of the group
 * O(entries + runs of the CP rank + cp_size * tp_size with group_ranks).
 */
CPR_API cpr_status cpr_route_build_fused(const cpr_route_request *request, const cpr_tensor_ranks *tp,
                                         const cpr_allocator *allocator, cpr_route **route, cpr_error *error);

/*==============================================================================
 * MARK: - Shapes: chunks of one sequence (SBHD)
 *============================================================================*/

/* A chunk that stays together: number `chunk` of this rank goes to, or comes from, `peer`. */
typedef struct cpr_chunk_move {
    int64_t peer;
    int64_t chunk; /* 0 or 1: rows chunk * chunk_rows and on */
} cpr_chunk_move;

/*
 * A batch that is not packed is one sequence, of which zigzag and contiguous give every CP rank two equal
 * chunks; under an even tp_size a window of those is (part of) a chunk, and every rank has one. Moves are
 * in the order of messages. It is the route of the single sequence [0, rows], counted in chunks.
 */
typedef struct cpr_chunk_plan {
    cpr_geometry geometry; /* of the group that exchanges, as in a fused route */
    int64_t chunks;        /* of every rank: 2, or 1 under an even tp_size or in a group of one */
    int64_t chunk_rows;
    cpr_chunk_move send[2], recv[2];
} cpr_chunk_plan;

/*
 * Plans without looking at rows: O(1) and no memory; with group_ranks O(cp_size * tp_size) and a bit for each
 * of them. Any layout will do, because of one sequence there are but these two. Fails as
 * cpr_route_build_fused of a request with cu_seqlens [0, rows], but takes heads_then_tails, and has
 *   - decreasing: rows below 0: 1 | rows | 0
 *   - not_divisible_cp_tp: tp_size is odd and above 1: -1 | tp_size | 2
 *   - not_divisible_2cp: not two equal chunks a rank, also from contiguous to contiguous: 0 | rows | 2 * cp_size
 */
CPR_API cpr_status cpr_chunk_plan_make(int64_t rows, cpr_geometry geometry, const cpr_tensor_ranks *tp,
                                       cpr_layout source, cpr_layout target, const cpr_allocator *allocator,
                                       cpr_chunk_plan *plan, cpr_error *error);

/*==============================================================================
 * MARK: - Shapes: padding
 *============================================================================*/

/*
 * Two boundaries of the same sequences. The padded ones are routed; of sequence i only its first tokens, as
 * many as `real` says, are real, the others are padding. Sequences that `real` does not reach have no real
 * token. With real.count 0 all tokens are real. Padded tokens are numbered by the padded boundaries, real
 * tokens by the real ones.
 */
typedef struct cpr_padding {
    cpr_cu_seqlens padded;
    cpr_cu_seqlens real;
} cpr_padding;

/* Do they go together? Fails as a request does for the padded ones, then for the real ones, from dtype to
 * decreasing; then total_mismatch: a sequence has more real tokens than it has tokens: sequence | real
 * length | padded length. */
CPR_API cpr_status cpr_padding_check(const cpr_padding *padding, cpr_error *error);

/* The boundaries of the same sequences, each lengthened to a multiple of `multiple`, which must be above 0
 * (overflow: -1 | multiple | 1). `padded` holds real->count entries (total_mismatch: -1 | count |
 * real->count). Fails as a request does, or with overflow: entry | INT64_MAX | INT64_MAX. */
CPR_API cpr_status cpr_pad_cu_seqlens(const cpr_cu_seqlens *real, int64_t multiple, int64_t *padded,
                                      int64_t count, cpr_error *error);

/*
 * Which token is which: real_of_padded[t] is the real token that padded token t is, or -1; padded_of_real
 * is the other direction. Either may be NULL with count 0. Fails as cpr_padding_check, or with
 * total_mismatch: 0 the first, 1 the second list | its count | tokens.
 */
CPR_API cpr_status cpr_padding_map(const cpr_padding *padding, int64_t *real_of_padded, int64_t padded_count,
                                   int64_t *padded_of_real, int64_t real_count, cpr_error *error);

/*
 * The rows that a layout of the padded boundaries gives to geometry.cp_rank, and what is real of them. Each
 * fails as cpr_layout_intervals, then as cpr_padding_check; lists must have an entry for every local row
 * (total_mismatch: -1 | count | rows).
 *   - cpr_real_rows: how many of them are real. O(entries + intervals).
 *   - cpr_real_tokens: the real token of every row, or -1
 *   - cpr_successors: the padded number of the next real token of the same sequence for every row, or -1
 */
CPR_API cpr_status cpr_real_rows(const cpr_padding *padding, cpr_geometry geometry, cpr_layout layout,
                                 const cpr_allocator *allocator, int64_t *real_rows, cpr_error *error);
CPR_API cpr_status cpr_real_tokens(const cpr_padding *padding, cpr_geometry geometry, cpr_layout layout,
                                   const cpr_allocator *allocator, int64_t *tokens, int64_t count,
                                   cpr_error *error);
CPR_API cpr_status cpr_successors(const cpr_padding *padding, cpr_geometry geometry, cpr_layout layout,
                                  const cpr_allocator *allocator, int64_t *successors, int64_t count,
                                  cpr_error *error);

/* How many of a rank's rows lie before each boundary; count must be cu_seqlens->count (total_mismatch: -1 |
 * count | entries). Fails as cpr_layout_intervals. O(entries + intervals). */
CPR_API cpr_status cpr_local_offsets(const cpr_cu_seqlens *cu_seqlens, cpr_geometry geometry,
                                     cpr_layout layout, const cpr_allocator *allocator, int64_t *offsets,
                                     int64_t count, cpr_error *error);

/*==============================================================================
 * MARK: - Shapes: a plan that pads
 *============================================================================*/

/*
 * Between contiguous rows of a packed buffer whose lengths are divisible by nothing, and zigzag rows of the
 * same sequences, each padded to a multiple of 2 * cp_size (Megatron-LM 6764). The two shards of a rank
 * need not be equally long. From contiguous to zigzag, padding comes out zero; from zigzag to contiguous,
 * it is left behind. One plan serves both directions, for in every message rows ascend in the stream. Also
 * with one rank.
 */
typedef struct cpr_padded_plan {
    cpr_geometry geometry;
    int64_t contiguous_rows; /* of the rank */
    int64_t zigzag_rows;     /* of the rank, padding included */
    int32_t *padded_cu;      /* the second cu_seqlens */
    int64_t entries;         /* of both cu_seqlens */
    int64_t longest;         /* sequence, padded */
    bool pads;               /* is there any padding */
    uint64_t digest;         /* of what all ranks must have built it from */
    cpr_run_list contiguous; /* by peer: local rows are source_row, the peer's zigzag rows are target_row */
    cpr_run_list zigzag; /* by peer: local rows are target_row, the peer's contiguous rows are source_row */
    cpr_allocator allocator;
} cpr_padded_plan;

/*
 * Fails as a route from contiguous to contiguous does, but takes int32 only (dtype: -1 | dtype |
 * CPR_INT32), and with overflow: entry | its padded value, INT64_MAX if more | INT32_MAX. The caller frees
 * *plan with cpr_padded_plan_free. O(entries + runs).
 */
CPR_API cpr_status cpr_padded_plan_build(const cpr_cu_seqlens *cu_seqlens, int64_t rows,
                                         cpr_geometry geometry, const cpr_allocator *allocator,
                                         cpr_padded_plan **plan, cpr_error *error);

/* NULL is allowed. */
CPR_API void cpr_padded_plan_free(cpr_padded_plan *plan);

/* `layout` below is the one of the two that this rank has, or is to get, its rows in; bad_layout otherwise:
 * 0 | layout | CPR_CONTIGUOUS. */

/* Rows exchanged with every rank: input splits if the rows are sent, output splits if they are received.
 * count must be cp_size (split_mismatch: -1 | count | cp_size). */
CPR_API cpr_status cpr_padded_splits(const cpr_padded_plan *plan, cpr_layout layout, int64_t *splits,
                                     int64_t count, cpr_error *error);

/* The local rows to send, by peer. Padding is not among them. count must be the rows of that list
 * (total_mismatch: -1 | count | rows). */
CPR_API cpr_status cpr_padded_send_rows(const cpr_padded_plan *plan, cpr_layout layout, int64_t *rows,
                                        int64_t count, cpr_error *error);

/* What to gather from the arrived rows: its number among them for every local row, and -1 for padding.
 * count must be the local rows (total_mismatch: -1 | count | rows). */
CPR_API cpr_status cpr_padded_gather_index(const cpr_padded_plan *plan, cpr_layout layout, int64_t *index,
                                           int64_t count, cpr_error *error);

/* Copies the rows to send into `message`. */
CPR_API void cpr_padded_pack(const cpr_padded_plan *plan, cpr_layout layout, size_t row_bytes,
                             const void *source, void *message);

/* Copies arrived rows from `message` to where they belong, and zeros to padding. */
CPR_API void cpr_padded_receive(const cpr_padded_plan *plan, cpr_layout layout, size_t row_bytes,
                                const void *message, void *target);

/*==============================================================================
 * MARK: - Text and JSON
 *============================================================================*/

/* Takes the next `length` bytes of text (no NUL). Returning false stops the writer. */
typedef bool (*cpr_write_fn)(void *context, const char *text, size_t length);

typedef enum cpr_dump_form {
    CPR_DUMP_JSON_ROWS = 0, /* one JSON object a line; rows written out, null for an identity */
    CPR_DUMP_JSON_RUNS =
        1, /* the same, with "send_runs" and "recv_runs": [[peer,source_row,target_row,length],..] */
    CPR_DUMP_TEXT = 2 /* for people, one line a run */
} cpr_dump_form;

/* Writes a route, ending in a newline. Needs no memory, whatever the size. False if `write` stopped it. */
CPR_API bool cpr_route_dump(const cpr_route *route, cpr_dump_form form, cpr_write_fn write, void *context);

/* {"rank":R,"status":"error","error":KIND,"index":I,"got":G,"want":W} and a newline. */
CPR_API bool cpr_error_dump_json(int64_t rank, const cpr_error *error, cpr_write_fn write, void *context);

#ifdef __cplusplus
}
#endif

#endif
