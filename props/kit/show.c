/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS = 80,
    MOST_CELLS = 64,
    MOST_LINES = 64,         /* ranks of a picture */
    MOST_RANKS_OF_CASE = 16, /* above them, a case shows its own rank alone */
    MOST_ENTRIES = 256,      /* listed, the rest is counted */
    LEAST_LIST = 12,         /* columns that a list of intervals is worth beginning in */
    NAME_SIZE = 24
};

/*==============================================================================
 * MARK: - Names
 *============================================================================*/

static const char *name_or_number(const char *name, int number, char text[NAME_SIZE]) {
    if (strcmp(name, "unknown") != 0)
        return name;
    snprintf(text, NAME_SIZE, "#%d", number);
    return text;
}

static const char *layout_text(cpr_layout layout, char text[NAME_SIZE]) {
    return name_or_number(cpr_layout_name(layout), (int)layout, text);
}

static const char *dtype_text(cpr_dtype dtype, char text[NAME_SIZE]) {
    return name_or_number(cpr_dtype_name(dtype), (int)dtype, text);
}

static const char *device_text(cpr_device device, char text[NAME_SIZE]) {
    static const char *const names[] = {"cpu", "cuda", "other"};
    const bool known = (int)device >= 0 && (size_t)device < sizeof names / sizeof *names;
    return name_or_number(known ? names[device] : "unknown", (int)device, text);
}

/*==============================================================================
 * MARK: - Bars
 *============================================================================*/

/* The stream cut into cells of equally many tokens, and the sequence that each cell shows, or -1. */
typedef struct bar {
    int64_t tokens_per_cell;
    int count;
    int64_t cells[MOST_CELLS];
} bar;

static bar bar_of(int64_t tokens, int columns) {
    bar b = {.tokens_per_cell = 1};
    const int64_t most = columns < MOST_CELLS ? columns : MOST_CELLS;
    if (tokens > most)
        b.tokens_per_cell = (tokens - 1) / most + 1;
    b.count = tokens > 0 ? (int)((tokens - 1) / b.tokens_per_cell + 1) : 0;
    return b;
}

static int64_t sequence_of(const route_case *c, int64_t token) {
    int64_t low = 0, high = c->entries - 1;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (c->cu[middle] <= token)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void paint(bar *b, const route_case *c, const cpr_intervals *share) {
    for (int i = 0; i < b->count; i++)
        b->cells[i] = -1;
    for (int64_t i = 0; i < share->count; i++) {
        const cpr_interval own = share->items[i];
        for (int64_t cell = own.begin / b->tokens_per_cell; cell <= (own.end - 1) / b->tokens_per_cell;
             cell++) {
            const int64_t first = cell * b->tokens_per_cell;
            if (b->cells[cell] < 0)
                b->cells[cell] = sequence_of(c, first > own.begin ? first : own.begin);
        }
    }
}

/* A letter of the sequence's own among its neighbours: empty slots have none. */
static int64_t number_among_filled(const route_case *c, int64_t sequence) {
    int64_t number = 0;
    for (int64_t i = 0; i < sequence; i++)
        number += c->cu[i + 1] > c->cu[i];
    return number;
}

static void write_bar(FILE *out, const bar *b, const route_case *c, bool colour) {
    static const int backgrounds[] = {117, 215, 150, 183, 229, 174, 116, 252};
    const size_t count = sizeof backgrounds / sizeof *backgrounds;
    int64_t shown = -1, number = 0;
    for (int i = 0; i < b->count; i++) {
        if (b->cells[i] != shown) {
            shown = b->cells[i];
            number = shown < 0 ? 0 : number_among_filled(c, shown);
            if (colour && shown < 0)
                fputs("\x1b[0;2m", out);
            else if (colour)
                fprintf(out, "\x1b[0;30;48;5;%dm", backgrounds[(size_t)number % count]);
        }
        fputc(shown < 0 ? '.' : 'a' + (int)(number % 26), out);
    }
    if (colour)
        fputs("\x1b[0m", out);
}

/* As many intervals as fit. */
static void write_intervals(FILE *out, const cpr_intervals *share, int columns) {
    for (int64_t i = 0; i < share->count; i++) {
        char text[48];
        const cpr_interval own = share->items[i];
        int length = own.end - own.begin == 1
                         ? snprintf(text, sizeof text, " %" PRId64, own.begin)
                         : snprintf(text, sizeof text, " %" PRId64 "-%" PRId64, own.begin, own.end - 1);
        const int reserve = i + 1 < share->count ? 3 : 0;
        if (length + reserve > columns) {
            fputs(" ..", out);
            return;
        }
        fputs(text, out);
        columns -= length;
    }
}

static void write_rank(FILE *out, const route_case *c, const cpr_intervals *share, int64_t rank, int digits,
                       bool colour, int columns) {
    const int label = fprintf(out, "  rank %*" PRId64 "  ", digits, rank);
    bar b = bar_of(route_case_tokens(c), columns - label);
    paint(&b, c, share);
    write_bar(out, &b, c, colour);
    const int room = columns - label - b.count - 1;
    if (room >= LEAST_LIST) {
        fputc(' ', out);
        write_intervals(out, share, room);
    }
    fputc('\n', out);
}

static bool show_rank(FILE *out, const route_case *c, const cpr_cu_seqlens *cu, cpr_layout layout,
                      int64_t rank, int digits, bool colour, int columns) {
    cpr_intervals *share;
    const cpr_geometry geometry = {c->geometry.cp_size, rank};
    if (cpr_layout_intervals(cu, CPR_ROWS_UNCHECKED, geometry, layout, NULL, &share, NULL) != CPR_OK)
        return false;
    write_rank(out, c, share, rank, digits, colour, columns);
    cpr_intervals_free(share);
    return true;
}

void show_layout(FILE *out, const route_case *c, cpr_layout layout, int64_t rank, bool colour, int columns) {
    char name[NAME_SIZE];
    boundaries b = boundaries_make(c);
    const int64_t first = rank < 0 ? 0 : rank;
    int64_t end = rank < 0 ? c->geometry.cp_size : rank + 1;
    const int64_t hidden = end - first > MOST_LINES ? end - first - MOST_LINES : 0;
    end -= hidden;
    const int digits = end > 0 ? snprintf(NULL, 0, "%" PRId64, end - 1) : 1;
    const bar scale = bar_of(route_case_tokens(c), columns - 9 - digits);
    fputs(layout_text(layout, name), out);
    if (scale.tokens_per_cell > 1)
        fprintf(out, ", a letter is %" PRId64 " tokens", scale.tokens_per_cell);
    fputc('\n', out);
    for (int64_t r = first;
         r < end && show_rank(out, c, &b.request.cu_seqlens, layout, r, digits, colour, columns); r++) {
    }
    if (hidden)
        fprintf(out, "  and %" PRId64 " ranks more\n", hidden);
    boundaries_free(&b);
}

/*==============================================================================
 * MARK: - Cases
 *============================================================================*/

/* Words put together to lines, and one word that an arrow points at. */
typedef struct paragraph {
    FILE *out;
    int length; /* of the line so far */
    int blamed; /* column of the word to blame in this line, -1: it is in another */
} paragraph;

static void end_line(paragraph *p) {
    if (p->length > 0)
        fputc('\n', p->out);
    if (p->blamed >= 0)
        fprintf(p->out, "%*s^\n", p->blamed, "");
    p->length = 0;
    p->blamed = -1;
}

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static void
add_word(paragraph *p, bool blamed, const char *format, ...) {
    char word[96];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(word, sizeof word, format, arguments);
    va_end(arguments);
    if (p->length > 0 && p->length + 1 + length > COLUMNS)
        end_line(p);
    const int indent = p->length > 0 ? 1 : 2;
    if (blamed)
        p->blamed = p->length + indent;
    fprintf(p->out, "%*s%s", indent, "", word);
    p->length += indent + length;
}

static void show_numbers(FILE *out, const route_case *c) {
    char text[NAME_SIZE], other[NAME_SIZE];
    paragraph p = {.out = out, .blamed = -1};
    add_word(&p, false, "rank %" PRId64 " of %" PRId64 ",", c->geometry.cp_rank, c->geometry.cp_size);
    add_word(&p, false, "%s -> %s,", layout_text(c->source, text), layout_text(c->target, other));
    add_word(&p, false, "%s", dtype_text(c->dtype, text));
    if (c->stride != 1)
        add_word(&p, false, "every %" PRId64, c->stride);
    if (c->device != CPR_CPU)
        add_word(&p, false, "on device %s", device_text(c->device, text));
    if (c->rows != CPR_ROWS_UNCHECKED)
        add_word(&p, false, "for %" PRId64 " rows", c->rows);
    if (c->tp_size != 0)
        add_word(&p, false, "and tp_size %" PRId64, c->tp_size);
    if (c->salt != 0)
        add_word(&p, false, "(salt %" PRIu64 ")", c->salt);
    end_line(&p);
}

static int64_t blamed_entry(const cpr_error *e) {
    switch (e->status) {
    case CPR_NONZERO_START:
    case CPR_DECREASING:
        return e->index;
    case CPR_NOT_DIVISIBLE_2CP:
        return e->index < 0 ? -1 : e->index + 1;
    default:
        return -1;
    }
}

static void show_entries(FILE *out, const route_case *c) {
    const int64_t blamed = blamed_entry(&c->expected);
    const int64_t listed = c->entries < MOST_ENTRIES ? c->entries : MOST_ENTRIES;
    paragraph p = {.out = out, .blamed = -1};
    add_word(&p, false, "cu_seqlens%s", c->entries ? "" : " []");
    for (int64_t i = 0; i < listed; i++)
        add_word(&p, i == blamed, "%s%" PRId64 "%s", i ? "" : "[", c->cu[i], i + 1 < c->entries ? "," : "]");
    if (listed < c->entries)
        add_word(&p, false, "and %" PRId64 " more]", c->entries - listed);
    end_line(&p);
}

static void show_expected(FILE *out, const route_case *c) {
    paragraph p = {.out = out, .blamed = -1};
    add_word(&p, false, "expected: %s", cpr_status_name(c->expected.status));
    if (c->expected.status != CPR_OK && c->expected_known) {
        add_word(&p, false, "(index %" PRId64 ", got %" PRId64 ", want %" PRId64 ")", c->expected.index,
                 c->expected.got, c->expected.wanted);
    }
    end_line(&p);
}

void show_case(FILE *out, const route_case *c, bool colour) {
    show_numbers(out, c);
    show_entries(out, c);
    show_expected(out, c);
    if (c->expected.status != CPR_OK)
        return;
    const int64_t rank = c->geometry.cp_size > MOST_RANKS_OF_CASE ? c->geometry.cp_rank : -1;
    show_layout(out, c, c->source, rank, colour, COLUMNS);
    if (c->target != c->source)
        show_layout(out, c, c->target, rank, colour, COLUMNS);
}
