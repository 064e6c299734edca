/* SPDX-License-Identifier: Apache-2.0 */
#include "conform_hello.h"
#include "printable.h"
#include "text/mistake.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const question_op_names[QUESTION_OPS] = {
    "route", "layout", "exchange", "flat", "two_view", "fused", "chunks", "pad", "real", "outcome", "cache"};

enum { USUAL_MAX_TOKENS = 1 << 16, USUAL_MAX_CP_SIZE = 1 << 10 };

typedef struct reader {
    hello *h;
    mistake_place mistake;
} reader;

/*------------------------------------------------------------------------------
 * Reading
 *----------------------------------------------------------------------------*/

/* Flags of names in a list. */
typedef struct named_flag {
    const char *name;
    bool *flag;
} named_flag;

static bool take_names(const reader *r, const char *field, json_t *list, const named_flag *flags,
                       size_t count) {
    size_t i;
    json_t *item;
    if (list && !json_is_array(list))
        return mistaken(&r->mistake, "%s: a list of names is wanted", field);
    json_array_foreach(list, i, item) {
        const char *name = json_string_value(item);
        size_t which = 0;
        while (name && which < count && strcmp(name, flags[which].name) != 0)
            which++;
        if (!name || which == count)
            return mistaken(&r->mistake, "%s: '%.40s' is none", field, name ? name : "what is no text");
        *flags[which].flag = true;
    }
    return true;
}

static bool take_ops(const reader *r, json_t *list) {
    named_flag flags[QUESTION_OPS];
    for (size_t i = 0; i < QUESTION_OPS; i++)
        flags[i] = (named_flag){question_op_names[i], &r->h->ops[i]};
    if (!json_array_size(list) && !r->h->skipped[0])
        return mistaken(&r->mistake, "ops: there is nothing that it can be asked, and no reason in skipped");
    return take_names(r, "ops", list, flags, QUESTION_OPS);
}

static bool take_layouts(const reader *r, json_t *list) {
    named_flag flags[CPR_LAYOUT_COUNT];
    for (size_t i = 0; i < CPR_LAYOUT_COUNT; i++)
        flags[i] = (named_flag){cpr_layout_name((cpr_layout)i), &r->h->layouts[i]};
    if (!list)
        r->h->layouts[CPR_ZIGZAG] = r->h->layouts[CPR_CONTIGUOUS] = true;
    return take_names(r, "layouts", list, flags, CPR_LAYOUT_COUNT);
}

static bool take_options(const reader *r, json_t *list) {
    const named_flag flags[] = {{"dtype", &r->h->reads_dtype},
                                {"device", &r->h->reads_device},
                                {"rows", &r->h->reads_rows},
                                {"tp", &r->h->reads_tp}};
    return take_names(r, "options", list, flags, sizeof flags / sizeof *flags);
}

static bool take_operations(const reader *r, json_t *list) {
    enum { ALL = CACHE_OP_KINDS + TEXT_CASE_OPS };
    named_flag flags[ALL];
    for (size_t i = 0; i < CACHE_OP_KINDS; i++)
        flags[i] = (named_flag){cache_op_name((cache_op_kind)i), &r->h->knows_operation[i]};
    for (size_t i = 0; i < TEXT_CASE_OPS; i++)
        flags[CACHE_OP_KINDS + i] = (named_flag){text_case_op_name(i), &r->h->knows_case_operation[i]};
    for (size_t i = 0; i < ALL; i++)
        *flags[i].flag = !list;
    return take_names(r, "operations", list, flags, ALL);
}

static bool take_routes(const reader *r, json_t *list) {
    size_t i;
    json_t *item;
    r->h->routes_listed = list != NULL;
    if (list && !json_is_array(list))
        return mistaken(&r->mistake, "routes: a list of pairs is wanted");
    json_array_foreach(list, i, item) {
        const char *from, *to;
        cpr_layout source, target;
        if (json_unpack_ex(item, NULL, JSON_STRICT, "[s,s]", &from, &to) ||
            !cpr_layout_from_name(from, &source) || !cpr_layout_from_name(to, &target))
            return mistaken(&r->mistake, "routes: entry %zu is not a pair of layouts", i);
        r->h->routes[source][target] = true;
    }
    return true;
}

static bool take_errors(const reader *r, const char *text) {
    static const char *const grades[ERROR_GRADES] = {"details", "kind", "any"};
    size_t which = 0;
    while (which < ERROR_GRADES && strcmp(text, grades[which]) != 0)
        which++;
    r->h->errors = (error_grade)which;
    return which < ERROR_GRADES || mistaken(&r->mistake, "errors: '%.40s' is not details, kind or any", text);
}

/* Names come from anybody, and are printed. */
static void take_text(char *to, size_t size, const char *text) {
    snprintf(to, size, "%s", text);
    make_printable(to);
}

static bool take_hello(const reader *r, json_t *object) {
    json_error_t error;
    const char *name, *errors = "details", *skipped = "";
    json_t *ops, *layouts = NULL, *routes = NULL, *options = NULL, *operations = NULL;
    json_int_t max_tokens = USUAL_MAX_TOKENS, max_cp_size = USUAL_MAX_CP_SIZE;
    if (json_unpack_ex(object, &error, JSON_STRICT, "{s:s, s:o, s?o, s?o, s?o, s?s, s?I, s?I, s?s, s?o}",
                       "hello", &name, "ops", &ops, "layouts", &layouts, "routes", &routes, "options",
                       &options, "errors", &errors, "max_tokens", &max_tokens, "max_cp_size", &max_cp_size,
                       "skipped", &skipped, "operations", &operations))
        return mistaken(&r->mistake, "%s", error.text);
    take_text(r->h->name, sizeof r->h->name, name);
    take_text(r->h->skipped, sizeof r->h->skipped, skipped);
    if (max_tokens < 0 || max_cp_size < 1)
        return mistaken(&r->mistake, "max_tokens is at least 0, max_cp_size at least 1");
    r->h->max_tokens = max_tokens;
    r->h->max_cp_size = max_cp_size;
    return take_ops(r, ops) && take_layouts(r, layouts) && take_routes(r, routes) &&
           take_options(r, options) && take_operations(r, operations) && take_errors(r, errors);
}

bool hello_parse(hello *h, const char *line, size_t length, char *mistake, size_t size) {
    json_error_t error;
    json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
    reader r = {.h = h, .mistake = {mistake, size}};
    *h = (hello){.errors = ERRORS_DETAILS};
    bool good = object ? take_hello(&r, object) : mistaken(&r.mistake, "not JSON: %.40s", line);
    json_decref(object);
    return good;
}

/*------------------------------------------------------------------------------
 * What it is asked
 *----------------------------------------------------------------------------*/

static bool is_layout(cpr_layout layout) {
    return (int)layout >= 0 && layout < CPR_LAYOUT_COUNT;
}

/* A layout that nobody knows must be refused, unless all is listed that may be asked for. */
static bool knows(const hello *h, cpr_layout layout) {
    return is_layout(layout) ? h->layouts[layout] : !h->routes_listed;
}

static bool allows_layouts(const hello *h, question_op op, const route_case *c) {
    const bool of_source = op == ASK_LAYOUT || op == ASK_REAL;
    if (op == ASK_TWO_VIEW || op == ASK_PAD) /* they say which layouts they are for */
        return true;
    if (of_source || !h->routes_listed)
        return knows(h, c->source) && (of_source || knows(h, c->target));
    return is_layout(c->source) && is_layout(c->target) && h->routes[c->source][c->target];
}

/* Fields that it does not read may only say what is so without them. A layout has no tensor parallelism. */
static bool allows_options(const hello *h, question_op op, const route_case *c) {
    const bool integer = c->dtype == CPR_INT32 || c->dtype == CPR_INT64;
    const int64_t last = c->entries ? c->cu[c->entries - 1] : 0;
    const bool rows_as_usual = c->rows == CPR_ROWS_UNCHECKED || c->rows == last;
    return (h->reads_dtype || integer) && (h->reads_device || c->device == CPR_CPU) &&
           (h->reads_rows || rows_as_usual) &&
           (h->reads_tp || c->tp_size == 0 || c->tp_size == 1 || op == ASK_LAYOUT || asks_with_text(op));
}

/* What has no name cannot be asked for. */
static bool has_names(const route_case *c) {
    return (int)c->source >= 0 && (int)c->target >= 0 && (int)c->dtype >= 0 && c->dtype < CPR_OTHER_DTYPE &&
           (int)c->device >= 0 && c->device <= CPR_OTHER_DEVICE;
}

bool hello_allows(const hello *h, question_op op, const route_case *c) {
    const int64_t last = c->entries ? c->cu[c->entries - 1] : 0;
    return h->ops[op] && has_names(c) && last <= h->max_tokens && c->geometry.cp_size <= h->max_cp_size &&
           allows_layouts(h, op, c) && allows_options(h, op, c);
}

bool hello_knows_operation(const hello *h, const char *name) {
    static const char *const asked_elsewhere[] = {"layouts", "dtype", "device", "rows", "tp"};
    for (size_t i = 0; i < sizeof asked_elsewhere / sizeof *asked_elsewhere; i++)
        if (!strcmp(name, asked_elsewhere[i]))
            return true;
    for (size_t i = 0; i < TEXT_CASE_OPS; i++)
        if (!strcmp(name, text_case_op_name(i)))
            return h->knows_case_operation[i];
    return false;
}

bool hello_allows_script(const hello *h, const cache_case *c) {
    bool known = h->ops[ASK_CACHE];
    for (int64_t i = 0; i < c->op_count && known; i++)
        known = h->knows_operation[c->ops[i].kind];
    return known;
}
