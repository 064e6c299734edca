/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"
#include "files.h"
#include "kit/choice.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const builder builders[BUILDER_COUNT] = {
    {"interval", cpr_route_build},
    {"per-token", cpr_route_build_per_token},
    {"definition", cpr_route_build_definition},
};

/*------------------------------------------------------------------------------
 * Values
 *----------------------------------------------------------------------------*/

bool parse_int64(const char *text, int64_t *value) {
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    if (errno || end == text || *end || strchr(" \t\n+", text[0]))
        return false;
    *value = parsed;
    return true;
}

bool parse_uint64(const char *text, uint64_t *value) {
    char *end;
    errno = 0;
    unsigned long long parsed = strtoull(text, &end, strncmp(text, "0x", 2) ? 10 : 16);
    if (errno || end == text || *end || strchr(" \t\n+-", text[0]))
        return false;
    *value = parsed;
    return true;
}

static bool take_integer(const char *value, int64_t *number, char *mistake, size_t size) {
    if (parse_int64(value, number))
        return true;
    snprintf(mistake, size, "'%s' is not a whole number of 64 bits", value);
    return false;
}

bool take_list_into(offsets *to, const char *value, char *mistake, size_t size) {
    bool from_file = value[0] == '@' || !strcmp(value, "-");
    size_t length = strlen(value);
    char *text = NULL;
    if (from_file) {
        text = read_whole(value[0] == '@' ? value + 1 : value, &length, mistake, size);
        if (!text)
            return false;
    }
    offsets_free(to);
    offsets_mistake where;
    const char *list = text ? text : value;
    bool read = offsets_parse(to, list, length, &where);
    if (!read) {
        int shown = (int)(length - where.position < 20 ? length - where.position : 20);
        snprintf(mistake, size, "entry %" PRId64 ", at character %zu, '%.*s': %s", where.entry,
                 where.position + 1, shown, list + where.position, where.reason);
    }
    free(text);
    return read;
}

static bool take_cu(arguments *a, const char *value, char *mistake, size_t size) {
    a->cu_given = true;
    return take_list_into(&a->cu, value, mistake, size);
}

static bool take_cp(arguments *a, const char *value, char *mistake, size_t size) {
    a->cp_given = true;
    return take_integer(value, &a->cp_size, mistake, size);
}

static bool take_rank(arguments *a, const char *value, char *mistake, size_t size) {
    a->rank_given = true;
    a->every_rank = !strcmp(value, "all");
    return a->every_rank || take_integer(value, &a->rank, mistake, size);
}

/* A layout by name, or by number as "#7"; a name that there is none for is the engine's to refuse. */
bool take_layout_into(cpr_layout *layout, const char *value, char *mistake, size_t size) {
    int64_t number = CPR_LAYOUT_COUNT;
    if (cpr_layout_from_name(value, layout))
        return true;
    if (value[0] == '#' && (!parse_int64(value + 1, &number) || number < 0 || number > INT32_MAX)) {
        snprintf(mistake, size, "'%s' is not the number of a layout", value);
        return false;
    }
    *layout = (cpr_layout)number;
    return true;
}

static bool take_from(arguments *a, const char *value, char *mistake, size_t size) {
    a->source_word = value;
    return take_layout_into(&a->source, value, mistake, size);
}

static bool take_to(arguments *a, const char *value, char *mistake, size_t size) {
    a->target_word = value;
    return take_layout_into(&a->target, value, mistake, size);
}

static bool take_dtype(arguments *a, const char *value, char *mistake, size_t size) {
    (void)mistake;
    (void)size;
    a->dtype_word = value;
    if (!cpr_dtype_from_name(value, &a->dtype))
        a->dtype = CPR_OTHER_DTYPE;
    return true;
}

static bool take_rows(arguments *a, const char *value, char *mistake, size_t size) {
    if (!take_integer(value, &a->rows, mistake, size))
        return false;
    /* The one number that has another meaning; nobody has a negative number of rows, so its neighbour
     * says the same. */
    if (a->rows == CPR_ROWS_UNCHECKED)
        a->rows++;
    return true;
}

static bool take_tp(arguments *a, const char *value, char *mistake, size_t size) {
    if (take_integer(value, &a->tp_size, mistake, size) && a->tp_size >= 1)
        return true;
    snprintf(mistake, size, "'%s' is not a whole number of at least 1", value);
    return false;
}

bool take_nothing(const char *value, bool *flag) {
    (void)value;
    return *flag = true;
}

bool take_json(arguments *a, const char *value, char *mistake, size_t size) {
    (void)mistake;
    (void)size;
    return take_nothing(value, &a->json);
}

static bool take_law(arguments *a, const char *value, char *mistake, size_t size) {
    a->law = law_named(value);
    if (!a->law)
        snprintf(mistake, size, "there is no law '%s'", value);
    return a->law;
}

static bool take_law_of_list(arguments *a, const char *name, size_t length, char *mistake, size_t size) {
    for (size_t i = 0; i < law_count; i++) {
        if (strlen(laws[i].id) == length && !memcmp(laws[i].id, name, length))
            return a->laws[i] = true;
    }
    snprintf(mistake, size, "there is no law '%.*s'", (int)(length < 60 ? length : 60), name);
    return false;
}

static bool take_laws(arguments *a, const char *value, char *mistake, size_t size) {
    free(a->laws);
    a->laws = calloc(law_count, sizeof *a->laws);
    if (!a->laws) {
        snprintf(mistake, size, "out of memory");
        return false;
    }
    for (const char *name = value;; name++) {
        const size_t length = strcspn(name, ",");
        if (!take_law_of_list(a, name, length, mistake, size))
            return false;
        name += length;
        if (!*name)
            return true;
    }
}

static bool take_out(arguments *a, const char *value, char *mistake, size_t size) {
    (void)mistake;
    (void)size;
    a->out = value;
    return true;
}

bool take_seconds(arguments *a, const char *value, char *mistake, size_t size) {
    char *end;
    a->seconds = strtod(value, &end);
    if (end != value && !*end && a->seconds > 0 && a->seconds < 1e9)
        return true;
    snprintf(mistake, size, "'%s' is not a number of seconds above 0", value);
    return false;
}

static bool take_seed(arguments *a, const char *value, char *mistake, size_t size) {
    a->seed_given = true;
    if (parse_uint64(value, &a->seed))
        return true;
    snprintf(mistake, size, "'%s' is not a number of 64 bits", value);
    return false;
}

#define LAYOUT_NAMES "zigzag, contiguous, per_sequence_contiguous,\nflat_zigzag or heads_then_tails"

const option_spec option_cu = {
    "cu", "LIST|@FILE|-",
    "boundaries of the packed sequences: as 0,4,16, from a\nfile, or from standard input", take_cu};
const option_spec option_cp = {"cp", "P", "number of context-parallel ranks", take_cp};
const option_spec option_rank = {"rank", "all|R", "one rank instead of all", take_rank};
const option_spec option_from = {"from", "LAYOUT", "layout of the rows before (zigzag):\n" LAYOUT_NAMES,
                                 take_from};
const option_spec option_to = {"to", "LAYOUT", "layout of the rows after (contiguous)", take_to};
const option_spec option_dtype = {"dtype", "TYPE", "type of the boundaries: int64 (default) or int32",
                                  take_dtype};
const option_spec option_rows = {"rows", "N", "rows of the whole buffer, which must be the last boundary",
                                 take_rows};
const option_spec option_tp = {"tp", "N", "tensor-parallel ranks that share the rows of a rank", take_tp};
const option_spec option_json = {"json", NULL, "one JSON object a line and rank", take_json};
const option_spec option_law = {"law", "LAW", "this law only; 'cproute check --list' names them", take_law};
const option_spec option_laws = {"law", "LAW[,LAW...]", "these laws only; 'cproute check --list' names them",
                                 take_laws};
const option_spec option_findings = {"out", "DIR", "folder to keep findings in (" FINDINGS_FOLDER ")",
                                     take_out};
const option_spec option_out = {"out", "DIR", "folder to write into", take_out};
const option_spec option_seed = {"seed", "X", "draw the cases of that seed again", take_seed};

uint64_t fresh_seed(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t state = (uint64_t)now.tv_sec * UINT64_C(1000000007) + (uint64_t)now.tv_nsec + (uint64_t)getpid();
    return random_next(&state) >> 16;
}

cpr_route_request request_of(const arguments *a, cpr_layout source, cpr_layout target) {
    return (cpr_route_request){
        .rows = a->rows,
        .geometry = {.cp_size = a->cp_size, .cp_rank = a->every_rank ? 0 : a->rank},
        .source = source,
        .target = target,
        .tp_size = a->tp_size,
    };
}

/*------------------------------------------------------------------------------
 * Parsing and help, both from a subcommand's table
 *----------------------------------------------------------------------------*/

enum { MAX_OPTIONS = 20, HELP_OPTION = 256 };

int wrong_use(const command *c, const char *format, ...) {
    va_list details;
    va_start(details, format);
    fprintf(stderr, "cproute %s: ", c->name);
    vfprintf(stderr, format, details);
    fprintf(stderr, "\nTry 'cproute %s --help'.\n", c->name);
    va_end(details);
    return EXIT_WRONG_USE;
}

static void help_on(const char *name, const char *value, const char *help, FILE *out) {
    char head[64];
    snprintf(head, sizeof head, "--%s%s%s", name, value ? " " : "", value ? value : "");
    fprintf(out, "  %-22s", head);
    if (strlen(head) > 21)
        fprintf(out, "\n%24s", "");
    for (const char *line = help; line;) {
        const char *end = strchr(line, '\n');
        fprintf(out, "%.*s\n", end ? (int)(end - line) : (int)strlen(line), line);
        line = end ? end + 1 : NULL;
        if (line)
            fprintf(out, "%24s", "");
    }
}

void command_help(const command *c, FILE *out) {
    fprintf(out, "Usage: cproute %s %s\n\n%s\n\n", c->name, c->operands, c->summary);
    for (const option_spec *const *o = c->options; *o; o++)
        help_on((*o)->name, (*o)->value, (*o)->help, out);
    help_on("help", NULL, "this text", out);
    if (c->details)
        fprintf(out, "\n%s\n", c->details);
    fprintf(out, "\nExit status: 0 good, 1 refused or something found, 2 wrong use, 130 interrupted.\n");
}

static void long_options(const command *c, struct option *options) {
    size_t count = 0;
    for (; c->options[count]; count++)
        options[count] =
            (struct option){.name = c->options[count]->name,
                            .has_arg = c->options[count]->value ? required_argument : no_argument,
                            .val = HELP_OPTION + 1 + (int)count};
    options[count] = (struct option){.name = "help", .val = HELP_OPTION};
    options[count + 1] = (struct option){0};
}

/* Returns -1 to go on, or how to end. */
static int parse(const command *c, int argc, char **argv, arguments *a) {
    struct option options[MAX_OPTIONS + 2];
    long_options(c, options);
    opterr = 0;
    optind = 1;
    for (;;) {
        int option = getopt_long(argc, argv, ":", options, NULL);
        if (option == -1)
            break;
        if (option == HELP_OPTION) {
            command_help(c, stdout);
            return finish_output(EXIT_GOOD);
        }
        if (option == ':')
            return wrong_use(c, "%s needs a value", argv[optind - 1]);
        if (option < HELP_OPTION)
            return wrong_use(c, "unknown option '%s'", argv[optind - 1]);
        const option_spec *spec = c->options[option - HELP_OPTION - 1];
        char mistake[512];
        if (!spec->take(a, optarg, mistake, sizeof mistake))
            return wrong_use(c, "--%s: %s", spec->name, mistake);
    }
    a->operands = argv + optind;
    a->operand_count = argc - optind;
    return -1;
}

int command_run(const command *c, const char *program, int argc, char **argv) {
    arguments a = {
        .program = program,
        .cu = OFFSETS_NONE,
        .order = OFFSETS_NONE,
        .real = OFFSETS_NONE,
        .every_rank = true,
        .source = CPR_ZIGZAG,
        .target = CPR_CONTIGUOUS,
        .layout = CPR_ZIGZAG,
        .dtype = CPR_INT64,
        .rows = CPR_ROWS_UNCHECKED,
        .builder = &builders[0],
    };
    int code = parse(c, argc, argv, &a);
    if (code < 0)
        code = c->run(&a);
    offsets_free(&a.cu);
    offsets_free(&a.order);
    offsets_free(&a.real);
    free(a.laws);
    return code;
}

/*------------------------------------------------------------------------------
 * Output
 *----------------------------------------------------------------------------*/

int finish_output(int code) {
    bool failed = fflush(stdout) != 0;
    int reason = errno;
    if (!failed && !ferror(stdout))
        return code;
    fprintf(stderr, "cproute: cannot write the output: %s\n",
            failed ? strerror(reason) : "an earlier write failed");
    return code == EXIT_WRONG_USE ? code : EXIT_FINDINGS;
}

bool write_to_file(void *file, const char *text, size_t length) {
    return fwrite(text, 1, length, file) == length;
}

bool has_colour(FILE *out) {
    const char *terminal = getenv("TERM");
    return isatty(fileno(out)) && !getenv("NO_COLOR") && terminal && strcmp(terminal, "dumb") != 0;
}
