/* SPDX-License-Identifier: Apache-2.0 */
/* The cproute command: picks the subcommand. */
#include "arguments.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const command *const commands[] = {
    &route_command,  &layout_command, &explain_command, &replay_command, &check_command,
    &shrink_command, &seeds_command,  &conform_command, &serve_command,
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void help(FILE *out) {
    fprintf(out, "Usage: cproute SUBCOMMAND [options]\n\n"
                 "Context-parallel routes for packed batches: which row of which rank goes where.\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(out, "\n  --help     this text; 'cproute SUBCOMMAND --help' tells about a subcommand\n"
                 "  --version  the version\n\n"
                 "Example: cproute route --cu 0,4,16 --cp 2 --json\n\n"
                 "Exit status: 0 good, 1 refused or something found, 2 wrong use, 130 interrupted.\n");
}

static const command *command_named(const char *name) {
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(name, commands[i]->name))
            return commands[i];
    return NULL;
}

/* Whoever closed a standard stream must not get a pipe or a file of ours in its place. What is opened there instead is open the
 * wrong way, so that using it fails as before. */
static void keep_standard_streams(void) {
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
        if (fcntl(file, F_GETFD) < 0)
            open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv) {
    keep_standard_streams();
    /* A reader that went away is told as any other failed write. */
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        help(stderr);
        return EXIT_WRONG_USE;
    }
    const command *c = command_named(argv[1]);
    if (c)
        return command_run(c, argv[0], argc - 1, argv + 1);
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        help(stdout);
        return finish_output(EXIT_GOOD);
    }
    if (!strcmp(argv[1], "--version")) {
        printf("cproute %s\n", cpr_version_string());
        return finish_output(EXIT_GOOD);
    }
    fprintf(stderr, "cproute: there is no subcommand '%s'\nTry 'cproute --help'.\n", argv[1]);
    return EXIT_WRONG_USE;
}
