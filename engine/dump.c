/* SPDX-License-Identifier: Apache-2.0 */
/* Routes and errors as text. It passes through a small buffer, so a route of any size needs no memory. */
#include <string.h>

#include "cproute/cproute.h"
#include "runs.h"

typedef struct text_writer {
    cpr_write_fn write;
    void *context;
    bool stopped;
    size_t filled;
    char buffer[512];
} text_writer;

static void flush(text_writer *writer) {
    if (!writer->stopped && writer->filled > 0) {
        writer->stopped = !writer->write(writer->context, writer->buffer, writer->filled);
    }
    writer->filled = 0;
}

static void put_bytes(text_writer *writer, const char *text, size_t length) {
    if (length > sizeof writer->buffer - writer->filled) {
        flush(writer);
    }
    memcpy(writer->buffer + writer->filled, text, length);
    writer->filled += length;
}

/* Texts here are much shorter than the buffer. */
static void put(text_writer *writer, const char *text) {
    put_bytes(writer, text, strlen(text));
}

static void put_number(text_writer *writer, int64_t number) {
    char digits[20];
    size_t at = sizeof digits;
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0) {
        digits[--at] = '-';
    }
    put_bytes(writer, digits + at, sizeof digits - at);
}

/* Numbers of foreign routes can add up to anything. */
static int64_t sum(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static void put_item(text_writer *writer, bool first, int64_t number) {
    put(writer, first ? "" : ",");
    put_number(writer, number);
}

static void put_member(text_writer *writer, const char *name, int64_t number) {
    put(writer, ",\"");
    put(writer, name);
    put(writer, "\":");
    put_number(writer, number);
}

static void put_rows(text_writer *writer, const cpr_run_list *list, cpr_side side) {
    if (list->identity) {
        put(writer, "null");
        return;
    }
    put(writer, "[");
    for (int64_t i = 0; i < list->count; i++) {
        const int64_t first = cpr_run_local_row(&list->runs[i], side);
        for (int64_t k = 0; k < list->runs[i].length && !writer->stopped; k++) {
            put_item(writer, i == 0 && k == 0, sum(first, k));
        }
    }
    put(writer, "]");
}

static void put_runs(text_writer *writer, const cpr_run_list *list) {
    put(writer, "[");
    for (int64_t i = 0; i < list->count && !writer->stopped; i++) {
        const cpr_run *run = &list->runs[i];
        put(writer, i == 0 ? "[" : ",[");
        put_item(writer, true, run->peer);
        put_item(writer, false, run->source_row);
        put_item(writer, false, run->target_row);
        put_item(writer, false, run->length);
        put(writer, "]");
    }
    put(writer, "]");
}

static void put_splits(text_writer *writer, const cpr_run_list *list, int64_t ranks) {
    int64_t run = 0;
    put(writer, "[");
    for (int64_t peer = 0; peer < ranks && !writer->stopped; peer++) {
        put_item(writer, peer == 0, cpr_message_next(list, peer, &run).rows);
    }
    put(writer, "]");
}

static void put_json(text_writer *writer, const cpr_route *route, bool as_runs) {
    put(writer, "{\"rank\":");
    put_number(writer, route->geometry.cp_rank);
    put(writer, ",\"status\":\"ok\"");
    put_member(writer, "source_rows", route->send.rows);
    put_member(writer, "target_rows", route->recv.rows);
    if (as_runs) {
        put(writer, ",\"send_runs\":");
        put_runs(writer, &route->send);
        put(writer, ",\"recv_runs\":");
        put_runs(writer, &route->recv);
    } else {
        put(writer, ",\"send_rows\":");
        put_rows(writer, &route->send, CPR_SEND);
        put(writer, ",\"recv_rows\":");
        put_rows(writer, &route->recv, CPR_RECV);
    }
    put(writer, ",\"input_splits\":");
    put_splits(writer, &route->send, route->geometry.cp_size);
    put(writer, ",\"output_splits\":");
    put_splits(writer, &route->recv, route->geometry.cp_size);
    put(writer, "}\n");
}

static void put_range(text_writer *writer, int64_t begin, int64_t length) {
    put(writer, "[");
    put_number(writer, begin);
    put(writer, ",");
    put_number(writer, sum(begin, length));
    put(writer, ")");
}

/* "send 8 rows, identity" and a line for each run: "  [0,5) -> rank 0 [0,5)". */
static void put_text_list(text_writer *writer, const cpr_run_list *list, cpr_side side) {
    put(writer, side == CPR_SEND ? "send " : "recv ");
    put_number(writer, list->rows);
    put(writer, list->identity ? " rows, identity\n" : " rows\n");
    for (int64_t i = 0; i < list->count && !writer->stopped; i++) {
        const cpr_run *run = &list->runs[i];
        put(writer, "  ");
        put_range(writer, cpr_run_local_row(run, side), run->length);
        put(writer, side == CPR_SEND ? " -> rank " : " <- rank ");
        put_number(writer, run->peer);
        put(writer, " ");
        put_range(writer, side == CPR_SEND ? run->target_row : run->source_row, run->length);
        put(writer, "\n");
    }
}

static void put_text(text_writer *writer, const cpr_route *route) {
    put(writer, "route of rank ");
    put_number(writer, route->geometry.cp_rank);
    put(writer, " of ");
    put_number(writer, route->geometry.cp_size);
    put(writer, ", ");
    put(writer, cpr_layout_name(route->source));
    put(writer, " -> ");
    put(writer, cpr_layout_name(route->target));
    put(writer, ", ");
    put_number(writer, route->total_tokens);
    put(writer, " tokens\n");
    put_text_list(writer, &route->send, CPR_SEND);
    put_text_list(writer, &route->recv, CPR_RECV);
}

bool cpr_route_dump(const cpr_route *route, cpr_dump_form form, cpr_write_fn write, void *context) {
    text_writer writer = {.write = write, .context = context};
    if (form == CPR_DUMP_TEXT) {
        put_text(&writer, route);
    } else {
        put_json(&writer, route, form == CPR_DUMP_JSON_RUNS);
    }
    flush(&writer);
    return !writer.stopped;
}

bool cpr_error_dump_json(int64_t rank, const cpr_error *error, cpr_write_fn write, void *context) {
    text_writer writer = {.write = write, .context = context};
    put(&writer, "{\"rank\":");
    put_number(&writer, rank);
    put(&writer, ",\"status\":\"error\",\"error\":\"");
    put(&writer, cpr_status_name(error->status));
    put(&writer, "\"");
    put_member(&writer, "index", error->index);
    put_member(&writer, "got", error->got);
    put_member(&writer, "want", error->wanted);
    put(&writer, "}\n");
    flush(&writer);
    return !writer.stopped;
}
