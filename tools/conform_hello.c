/* SPDX-License-Identifier: Apache-2.0 */
#include "conform_hello.h"
#include "printable.h"
#include "text/mistake.h"

#include <inttypes.h>
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

enum {
    OPTIONS = 4,
    OPERATIONS = CACHE_OP_KINDS + TEXT_CASE_OPS,
    FLAGS_MAX = (int)QUESTION_OPS + (int)CPR_LAYOUT_COUNT + OPTIONS + OPERATIONS
};

static size_t flags_of_ops(hello *h, named_flag *flags) {
    for (size_t i = 0; i < QUESTION_OPS; i++)
        flags[i] = (named_flag){question_op_names[i], &h->ops[i]};
    return QUESTION_OPS;
}

static size_t flags_of_layouts(hello *h, named_flag *flags) {
    for (size_t i = 0; i < CPR_LAYOUT_COUNT; i++)
        flags[i] = (named_flag){cpr_layout_name((cpr_layout)i), &h->layouts[i]};
    return CPR_LAYOUT_COUNT;
}

static size_t flags_of_options(hello *h, named_flag *flags) {
    flags[0] = (named_flag){"dtype", &h->reads_dtype};
    flags[1] = (named_flag){"device", &h->reads_device};
    flags[2] = (named_flag){"rows", &h->reads_rows};
    flags[3] = (named_flag){"tp", &h->reads_tp};
    return OPTIONS;
}

static size_t flags_of_operations(hello *h, named_flag *flags) {
    for (size_t i = 0; i < CACHE_OP_KINDS; i++)
        flags[i] = (named_flag){cache_op_name((cache_op_kind)i), &h->knows_operation[i]};
    for (size_t i = 0; i < TEXT_CASE_OPS; i++)
        flags[CACHE_OP_KINDS + i] = (named_flag){text_case_op_name(i), &h->knows_case_operation[i]};
    return OPERATIONS;
}

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
    flags_of_ops(r->h, flags);
    if (!json_array_size(list) && !r->h->skipped[0])
        return mistaken(&r->mistake, "ops: there is nothing that it can be asked, and no reason in skipped");
    return take_names(r, "ops", list, flags, QUESTION_OPS);
}

static bool take_layouts(const reader *r, json_t *list) {
    named_flag flags[CPR_LAYOUT_COUNT];
    flags_of_layouts(r->h, flags);
    if (!list)
        r->h->layouts[CPR_ZIGZAG] = r->h->layouts[CPR_CONTIGUOUS] = true;
    return take_names(r, "layouts", list, flags, CPR_LAYOUT_COUNT);
}

static bool take_options(const reader *r, json_t *list) {
    named_flag flags[OPTIONS];
    return take_names(r, "options", list, flags, flags_of_options(r->h, flags));
}

static bool take_operations(const reader *r, json_t *list) {
    named_flag flags[OPERATIONS];
    flags_of_operations(r->h, flags);
    for (size_t i = 0; i < OPERATIONS; i++)
        *flags[i].flag = !list;
    return take_names(r, "operations", list, flags, OPERATIONS);
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

static const char *const grades[ERROR_GRADES] = {"details", "kind", "any"};

static bool take_errors(const reader *r, const char *text) {
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
 * What it offers
 *----------------------------------------------------------------------------*/

static json_t *names_set(const named_flag *flags, size_t count) {
    json_t *names = json_array();
    for (size_t i = 0; i < count; i++)
        if (*flags[i].flag)
            json_array_append_new(names, json_string(flags[i].name));
    return names;
}

static json_t *pairs_of(const hello *h) {
    json_t *pairs = json_array();
    for (cpr_layout from = 0; from < CPR_LAYOUT_COUNT; from++)
        for (cpr_layout to = 0; to < CPR_LAYOUT_COUNT; to++)
            if (h->routes[from][to])
                json_array_append_new(pairs, json_pack("[s,s]", cpr_layout_name(from), cpr_layout_name(to)));
    return pairs;
}

json_t *hello_offers(const hello *h) {
    hello copy = *h;
    named_flag flags[FLAGS_MAX];
    json_t *offers = json_object();
    json_object_set_new(offers, "ops", names_set(flags, flags_of_ops(&copy, flags)));
    json_object_set_new(offers, "layouts", names_set(flags, flags_of_layouts(&copy, flags)));
    if (h->routes_listed)
        json_object_set_new(offers, "routes", pairs_of(h));
    json_object_set_new(offers, "options", names_set(flags, flags_of_options(&copy, flags)));
    if (h->ops[ASK_CACHE] || h->ops[ASK_OUTCOME]) /* which alone have operations */
        json_object_set_new(offers, "operations", names_set(flags, flags_of_operations(&copy, flags)));
    json_object_set_new(offers, "errors", json_string(grades[h->errors]));
    json_object_set_new(offers, "max_tokens", json_integer(h->max_tokens));
    json_object_set_new(offers, "max_cp_size", json_integer(h->max_cp_size));
    return offers;
}

bool hello_parse_offers(hello *h, json_t *offers, char *mistake, size_t size) {
    const reader r = {.h = h, .mistake = {mistake, size}};
    json_t *named = json_copy(offers);
    *h = (hello){.errors = ERRORS_DETAILS};
    json_object_set_new(named, "hello", json_string("known"));
    const bool good = take_hello(&r, named);
    json_decref(named);
    return good;
}

static bool offers_routes(const hello *before, const hello *now, const mistake_place *lost) {
    for (int from = 0; now->routes_listed && from < CPR_LAYOUT_COUNT; from++)
        for (int to = 0; to < CPR_LAYOUT_COUNT; to++)
            if (before->routes[from][to] && !now->routes[from][to])
                return mistaken(lost, "routes: %s to %s", cpr_layout_name((cpr_layout)from),
                                cpr_layout_name((cpr_layout)to));
    return !now->routes_listed || before->routes_listed ||
           mistaken(lost, "routes: all were asked for, not those of a list");
}

bool hello_offers_all(const hello *before, const hello *now, char *lost, size_t size) {
    static const struct {
        const char *field;
        size_t (*flags_of)(hello *, named_flag *);
    } lists[] = {{"ops", flags_of_ops},
                 {"layouts", flags_of_layouts},
                 {"options", flags_of_options},
                 {"operations", flags_of_operations}};
    const mistake_place m = {lost, size};
    hello a = *before, b = *now;
    named_flag had[FLAGS_MAX], has[FLAGS_MAX];
    const bool had_operations = before->ops[ASK_CACHE] || before->ops[ASK_OUTCOME];
    const size_t list_count = sizeof lists / sizeof *lists - !had_operations; /* which are the last */
    for (size_t i = 0; i < list_count; i++) {
        const size_t count = lists[i].flags_of(&a, had);
        lists[i].flags_of(&b, has);
        for (size_t k = 0; k < count; k++)
            if (*had[k].flag && !*has[k].flag)
                return mistaken(&m, "%s: %s", lists[i].field, had[k].name);
    }
    if (now->errors > before->errors)
        return mistaken(&m, "errors: %s, not %s", grades[now->errors], grades[before->errors]);
    if (now->max_tokens < before->max_tokens)
        return mistaken(&m, "max_tokens: %" PRId64 ", not %" PRId64, now->max_tokens, before->max_tokens);
    if (now->max_cp_size < before->max_cp_size)
        return mistaken(&m, "max_cp_size: %" PRId64 ", not %" PRId64, now->max_cp_size, before->max_cp_size);
    return offers_routes(before, now, &m);
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
