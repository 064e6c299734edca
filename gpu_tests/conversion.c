/* SPDX-License-Identifier: Apache-2.0 */
#include "conversion.h"

#include <string.h>

static cpr_route_request request_of(const stage *s, const pack *p, int64_t rank, cpr_layout source,
                                    cpr_layout target) {
    return (cpr_route_request){
        .cu_seqlens = cpr_cu_seqlens_int64(p->cu, p->entries),
        .rows = CPR_ROWS_UNCHECKED,
        .geometry = {.cp_size = s->cp_size, .cp_rank = rank},
        .source = source,
        .target = target,
    };
}

cpr_route *build_route(const stage *s, const pack *p, int64_t rank, cpr_layout source, cpr_layout target) {
    const cpr_route_request request = request_of(s, p, rank, source, target);
    cpr_route *route = NULL;
    cpr_error error;
    stage_cpr(s, cpr_route_build(&request, NULL, &route, &error), &error, p->name);
    return route;
}

static const cpr_route *look_up_route(const stage *s, cpr_cache *cache, const pack *p, int64_t rank,
                                      cpr_layout source, cpr_layout target) {
    const cpr_lookup lookup = {
        .tensor = {.view = cpr_cu_seqlens_int64(p->cu, p->entries), .stride = 1},
        .rows = pack_tokens(p),
        .geometry = {.cp_size = s->cp_size, .cp_rank = rank},
        .source = source,
        .target = target,
    };
    const cpr_route *route = NULL;
    cpr_error error;
    stage_cpr(s, cpr_cache_get(cache, &lookup, &route, NULL, &error), &error, p->name);
    return route;
}

static bool open_transport(conversion *c) {
    const stage *s = c->stage;
    cpr_error error;
    bool built = true;
    for (int64_t i = 0; i < s->count; i++)
        built = built && c->routes[s->first + i];
    if (s->real) /* a rank without its route takes part too */
        return stage_cpr(s,
                         cpr_cuda_exchange_create(s->group, c->routes[s->first], c->row_bytes, NULL,
                                                  &c->exchange, &error),
                         &error, "cpr_cuda_exchange_create") &&
               built;
    return built && stage_cpr(s,
                              cpr_cuda_simulation_create(c->routes, s->cp_size, c->row_bytes, NULL,
                                                         &c->simulation, &error),
                              &error, "cpr_cuda_simulation_create");
}

static bool open_offsets(conversion *c, const pack *p) {
    const stage *s = c->stage;
    const bool wide = (p->entries + (int64_t)c->row_bytes) % 2;
    for (int64_t i = 0; i < s->count; i++)
        if (!device_offsets_make(&c->offsets[i], s, p->cu, p->entries, wide, 1 + (p->entries % 3 == 0),
                                 s->repeat ? s->repeat : 1))
            return false;
    return true;
}

static bool open_direct(conversion *c, const pack *p, cpr_layout source, cpr_layout target) {
    const stage *s = c->stage;
    cpr_cuda_conversion_request request = {.on_host = cpr_cu_seqlens_int64(p->cu, p->entries),
                                           .rows = pack_tokens(p) / s->cp_size,
                                           .row_bytes = c->row_bytes,
                                           .source = source,
                                           .target = target,
                                           .method = s->method};
    cpr_error error;
    if (!open_offsets(c, p))
        return false;
    if (s->real) {
        request.on_device = c->offsets[0].view;
        return stage_cpr(s, cpr_cuda_conversion_create(s->group, &request, NULL, &c->direct, &error), &error,
                         "cpr_cuda_conversion_create");
    }
    cpr_cu_seqlens views[MAX_RANKS];
    for (int64_t i = 0; i < s->count; i++)
        views[i] = c->offsets[i].view;
    return stage_cpr(
        s,
        cpr_cuda_direct_simulation_create(&request, views, s->cp_size, NULL, &c->direct_simulation, &error),
        &error, "cpr_cuda_direct_simulation_create");
}

static bool run_direct(const conversion *c, cpr_direction direction, void *const *from, void *const *to) {
    const stage *s = c->stage;
    cpr_error error;
    if (s->real)
        return stage_cpr(s, cpr_cuda_conversion_run(c->direct, direction, from[0], to[0], s->stream, &error),
                         &error, "cpr_cuda_conversion_run");
    return stage_cpr(s,
                     cpr_cuda_direct_simulation_run(c->direct_simulation, direction,
                                                    (const void *const *)from, to, s->stream, &error),
                     &error, "cpr_cuda_direct_simulation_run");
}

bool conversion_is_direct(const conversion *c) {
    return c->direct_simulation || (c->direct && cpr_cuda_conversion_method(c->direct) == CPR_CUDA_DIRECT);
}

cpr_error conversion_told(const conversion *c, int64_t i) {
    cpr_error error = {CPR_OK, -1, 0, 0};
    if (c->direct)
        (void)cpr_cuda_conversion_check(c->direct, &error);
    else if (c->direct_simulation)
        (void)cpr_cuda_direct_simulation_check(c->direct_simulation, i, &error);
    return error;
}

bool conversion_open(conversion *c, const stage *s, const pack *p, cpr_layout source, cpr_layout target,
                     size_t row_bytes) {
    *c = (conversion){.stage = s, .row_bytes = row_bytes};
    if (s->direct)
        return open_direct(c, p, source, target);
    for (int64_t i = 0; i < s->count; i++)
        c->routes[s->first + i] = build_route(s, p, s->first + i, source, target);
    return open_transport(c);
}

bool conversion_open_cached(conversion *c, const stage *s, cpr_cache *cache, const pack *p, cpr_layout source,
                            cpr_layout target, size_t row_bytes) {
    if (s->direct || s->cp_size == 1) /* a cache has no routes for one rank */
        return conversion_open(c, s, p, source, target, row_bytes);
    *c = (conversion){.stage = s, .row_bytes = row_bytes, .cached = true};
    for (int64_t i = 0; i < s->count; i++)
        c->routes[s->first + i] = look_up_route(s, cache, p, s->first + i, source, target);
    return open_transport(c);
}

void conversion_close(conversion *c) {
    cpr_cuda_exchange_free(c->exchange);
    cpr_cuda_simulation_free(c->simulation);
    cpr_cuda_conversion_free(c->direct);
    if (c->direct_simulation)
        cudaStreamSynchronize(c->stage->stream);
    cpr_cuda_direct_simulation_free(c->direct_simulation);
    for (int64_t i = 0; i < MAX_RANKS; i++)
        device_offsets_free(&c->offsets[i]);
    for (int64_t r = 0; r < MAX_RANKS; r++)
        if (c->cached)
            cpr_route_release(c->routes[r]);
        else
            cpr_route_free((cpr_route *)(uintptr_t)c->routes[r]);
    memset(c, 0, sizeof *c);
}

bool conversion_run(const conversion *c, cpr_direction direction, void *const *from, void *const *to) {
    const stage *s = c->stage;
    cpr_error error;
    if (c->direct || c->direct_simulation)
        return run_direct(c, direction, from, to);
    if (s->real)
        return stage_cpr(s, cpr_cuda_exchange_run(c->exchange, direction, from[0], to[0], s->stream, &error),
                         &error, "cpr_cuda_exchange_run");
    return stage_cpr(
        s,
        cpr_cuda_simulation_run(c->simulation, direction, (const void *const *)from, to, s->stream, &error),
        &error, "cpr_cuda_simulation_run");
}
