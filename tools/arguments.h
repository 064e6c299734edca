/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the subcommands share: options, described once for parsing and for help; boundaries from the
 * command line, a file or standard input; and how the command ends.
 */
#ifndef CPROUTE_TOOLS_ARGUMENTS_H
#define CPROUTE_TOOLS_ARGUMENTS_H

#include "cproute/cproute.h"
#include "kit/law.h"
#include "text/text_shape_line.h"
#include <stdio.h>

/* Interrupted: before anything was found; 128 and the number of SIGINT, whichever signal it was. */
enum exit_code { EXIT_GOOD = 0, EXIT_FINDINGS = 1, EXIT_WRONG_USE = 2, EXIT_INTERRUPTED = 130 };

typedef cpr_status builder_fn(const cpr_route_request *request, const cpr_allocator *allocator,
                              cpr_route **route, cpr_error *error);

typedef struct builder {
    const char *name;
    builder_fn *build;
} builder;

enum { BUILDER_COUNT = 3 };
extern const builder builders[BUILDER_COUNT]; /* the one to use first */

/* Every option of every subcommand. A subcommand reads those that its table lists. */
typedef struct arguments {
    const char *program; /* as it was called, for lines that replay something */
    offsets cu;
    bool cu_given, cp_given;
    int64_t cp_size;
    int64_t rank;
    bool every_rank, rank_given;
    cpr_layout source, target, layout;
    cpr_dtype dtype;
    const char *source_word, *target_word, *dtype_word; /* as they were typed, NULL: left out */
    int64_t rows, tp_size;
    const builder *builder;
    bool json, runs;
    bool shape_given;
    route_shape shape;
    offsets order, real;

    const law *law;
    const char *out, *dictionaries;
    bool *laws; /* by their numbers, for subcommands that take several; NULL: all */
    double seconds;
    uint64_t cases, seed;
    bool seed_given, exhaustive, list, verbose;

    const char *cases_path, *known_path, *junit_path;
    bool random_given, update_known;

    char **operands;
    int operand_count;
} arguments;

typedef struct option_spec {
    const char *name;
    const char *value; /* what help calls its value, NULL: it takes none */
    const char *help;  /* one or more lines */
    /* False with a sentence in `mistake` if the value is wrong. */
    bool (*take)(arguments *a, const char *value, char *mistake, size_t size);
} option_spec;

typedef struct command {
    const char *name;
    const char *summary;
    const char *operands; /* as help shows them */
    const char *details;  /* NULL or a paragraph for help */
    const option_spec *const *options;
    int (*run)(arguments *a);
} command;

extern const command route_command, layout_command, replay_command, check_command, explain_command,
    shrink_command, seeds_command, conform_command, serve_command;

/* Options that several subcommands take. */
extern const option_spec option_cu, option_cp, option_rank, option_from, option_to, option_dtype, option_rows,
    option_tp, option_json, option_law, option_laws, option_out, option_findings, option_seed;

/* Where findings go if nobody says so. */
#define FINDINGS_FOLDER "findings"

/* `take` functions for options whose values several options have. */
bool take_list_into(offsets *list, const char *value, char *mistake, size_t size);
bool take_layout_into(cpr_layout *layout, const char *value, char *mistake, size_t size);
bool take_nothing(const char *value, bool *flag);
bool take_json(arguments *a, const char *value, char *mistake, size_t size);
bool take_seconds(arguments *a, const char *value, char *mistake, size_t size);

/* Runs a subcommand with its arguments; argv[0] is the name of the subcommand. */
int command_run(const command *c, const char *program, int argc, char **argv);
void command_help(const command *c, FILE *out);

/* Says what is wrong on standard error; returns EXIT_WRONG_USE. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
int wrong_use(const command *c, const char *format, ...);

/* Flushes standard output; an error there makes `code` a failure with a message. */
int finish_output(int code);

/* A seed for a run that was given none, short enough to be typed again. */
uint64_t fresh_seed(void);

bool parse_int64(const char *text, int64_t *value);
bool parse_uint64(const char *text, uint64_t *value);

/* The request for a route, but for its boundaries. */
cpr_route_request request_of(const arguments *a, cpr_layout source, cpr_layout target);

/* Writer for the dumps of the engine; `context` is a FILE. */
bool write_to_file(void *file, const char *text, size_t length);

/* Whether pictures there should have colour: a terminal that does not ask for none. */
bool has_colour(FILE *out);

#endif
