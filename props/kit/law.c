/* SPDX-License-Identifier: Apache-2.0 */
#include "law.h"
#include "show.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool law_fail(verdict *v, const char *reason, const char *format, ...) {
    if (v->outcome == LAW_FAILED)
        return false;
    v->outcome = LAW_FAILED;
    v->reason = reason;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(v->details, sizeof v->details, format, arguments);
    va_end(arguments);
    return false;
}

bool law_skip(verdict *v, const char *reason) {
    if (v->outcome != LAW_FAILED) {
        v->outcome = LAW_NOT_APPLICABLE;
        v->reason = reason;
    }
    return false;
}

/*==============================================================================
 * MARK: - Families
 *============================================================================*/

static void draw_route_case(choices *from, void *subject) {
    route_case_draw(from, &CASE_BOUNDS_DRAWN, subject);
}

static void show_route_case(FILE *out, const void *subject, bool colour) {
    show_case(out, subject, colour);
}

static void write_route_case(FILE *out, const void *subject, const char *law_id, const char *note) {
    write_case_text(out, subject, law_id, note);
}

const family route_family = {.name = "route",
                             .size = sizeof(route_case),
                             .draw = draw_route_case,
                             .show = show_route_case,
                             .write_text = write_route_case};

static void draw_tensor_case(choices *from, void *subject) {
    tensor_case_draw(from, subject);
}

static void show_tensor_case(FILE *out, const void *subject, bool colour) {
    (void)colour;
    tensor_case_show(out, subject);
}

static void write_tensor_case(FILE *out, const void *subject, const char *law_id, const char *note) {
    tensor_case_write_text(out, subject, law_id, note);
}

const family tensor_family = {.name = "tensor",
                              .size = sizeof(tensor_case),
                              .draw = draw_tensor_case,
                              .show = show_tensor_case,
                              .write_text = write_tensor_case};

static void draw_delta_case(choices *from, void *subject) {
    delta_case_draw(from, subject);
}

static void show_delta_case(FILE *out, const void *subject, bool colour) {
    (void)colour;
    delta_case_show(out, subject);
}

static void write_delta_case(FILE *out, const void *subject, const char *law_id, const char *note) {
    delta_case_write_text(out, subject, law_id, note);
}

const family delta_family = {.name = "delta",
                             .size = sizeof(delta_case),
                             .draw = draw_delta_case,
                             .show = show_delta_case,
                             .write_text = write_delta_case};

/*==============================================================================
 * MARK: - Registry
 *============================================================================*/

/* `family` in laws.def names the type of a case and the family: route -> route_case, route_family. */
#define LAW(id, family, meaning)                                                                             \
    void law_##id(const family##_case *c, verdict *v);                                                       \
    static void call_##id(const void *subject, verdict *v) {                                                 \
        law_##id(subject, v);                                                                                \
    }
#include "laws/laws.def"
#undef LAW

const law laws[] = {
#define LAW(name, kind, sentence)                                                                            \
    {.id = #name, .meaning = sentence, .family = &kind##_family, .judge = call_##name},
#include "laws/laws.def"
#undef LAW
};

const size_t law_count = sizeof laws / sizeof *laws;

const law *law_named(const char *id) {
    for (size_t i = 0; i < law_count; i++) {
        if (strcmp(laws[i].id, id) == 0)
            return &laws[i];
    }
    return NULL;
}

void law_judge(const law *l, const void *subject, verdict *v) {
    v->outcome = LAW_PASSED;
    v->reason = "";
    v->details[0] = '\0';
    l->judge(subject, v);
}

void law_judge_bytes(const law *l, const uint8_t *bytes, size_t length, void *subject, verdict *v) {
    void *own = subject ? NULL : malloc(l->family->size);
    void *drawn = subject ? subject : own;
    choices from = choices_from_bytes(bytes, length, NULL);
    if (drawn) {
        l->family->draw(&from, drawn);
        law_judge(l, drawn, v);
    } else {
        *v = (verdict){.outcome = LAW_NOT_APPLICABLE, .reason = "no memory for a case"};
    }
    free(own);
}
