/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_GOOD = 0, EXIT_USAGE = 2 };

static const char USAGE[] =
    "cproute_gpu_tests: rows really moved on GPUs, judged by the definition of their layouts\n"
    "\n"
    "One process for each GPU is forked; under torchrun, mpirun or srun this process is one rank.\n"
    "  --ranks N          so many ranks, on the first N GPUs\n"
    "  --oversubscribe N  N ranks that share the GPUs there are, by NCCL's sockets: right or wrong, not "
    "fast\n"
    "  --one-host         with it: by each other's memory, as GPUs of one host do (NCCL 2.30 and later)\n"
    "  --measure          the measurements too\n"
    "  --only A,B         tests whose names begin so\n"
    "  --except A,B       but those whose names begin so\n"
    "  --list             names of the tests\n"
    "  --gpus             how many there are; for none, why; one-host: if ranks that share them can be of "
    "one\n"
    "  --packs N          what --measure converts on N ranks, and how it is timed, as JSON\n"
    "  --cases N          drawn cases of a test (default 300)\n"
    "  --seed N           that they are drawn from (default 1)\n"
    "  --quick            a small part of every test\n"
    "  --in-process       simulated tests only, in this process: for compute-sanitizer and debuggers\n"
    "  --timeout S        of one test, instead of its own\n"
    "  --json FILE        results for programs\n"
    "Environment: MASTER_ADDR, and CPROUTE_PORT or MASTER_PORT + 1, or CPROUTE_RENDEZVOUS=SHARED_FOLDER: "
    "where ranks of\n"
    "several processes meet. Exit code 0: all good, or no GPU; 1: something failed; 2: wrong usage.\n";

static bool wrong(const char *what, const char *which, int *exit_code) {
    fprintf(stderr, "cproute_gpu_tests: %s%s; --help lists the options\n", what, which);
    *exit_code = EXIT_USAGE;
    return false;
}

static bool read_number(const char *text, int64_t minimum, int64_t maximum, int64_t *number) {
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < minimum || value > maximum)
        return false;
    *number = value;
    return true;
}

bool options_read(int count, char **arguments, options *o, int *exit_code) {
    int64_t seed = 1;
    *o = (options){.cases = 300};
    struct {
        const char *name;
        int64_t *number, minimum, maximum;
    } const numbers[] = {
        {"--ranks", &o->ranks, 1, 64},          {"--oversubscribe", &o->oversubscribe, 1, 64},
        {"--timeout", &o->timeout_s, 1, 86400}, {"--cases", &o->cases, 1, 1000000},
        {"--seed", &seed, 0, INT64_MAX},        {"--packs", &o->packs, 1, 64},
    };
    struct {
        const char *name;
        bool *flag;
    } const flags[] = {
        {"--quick", &o->quick},     {"--in-process", &o->in_process},
        {"--measure", &o->measure}, {"--list", &o->list},
        {"--gpus", &o->gpus},       {"--one-host", &o->one_host},
    };
    struct {
        const char *name, **text;
    } const texts[] = {{"--only", &o->only}, {"--except", &o->except}, {"--json", &o->json}};

    for (int i = 1; i < count; i++) {
        const char *name = arguments[i], *value = i + 1 < count ? arguments[i + 1] : NULL;
        bool known = false;
        if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
            fputs(USAGE, stdout);
            *exit_code = EXIT_GOOD;
            return false;
        }
        for (size_t f = 0; f < sizeof flags / sizeof *flags; f++)
            if (!strcmp(name, flags[f].name))
                *flags[f].flag = known = true;
        if (known)
            continue;
        if (!value)
            return wrong("unknown option, or one without its value: ", name, exit_code);
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
            if (!strcmp(name, numbers[n].name)) {
                known = true;
                if (!read_number(value, numbers[n].minimum, numbers[n].maximum, numbers[n].number))
                    return wrong(name, " wants another number", exit_code);
            }
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
            if (!strcmp(name, texts[t].name)) {
                known = true;
                *texts[t].text = value;
            }
        if (!known)
            return wrong("unknown option ", name, exit_code);
        i++;
    }
    if (o->ranks && o->oversubscribe)
        return wrong("--ranks and --oversubscribe exclude each other", "", exit_code);
    if (o->one_host && !o->oversubscribe)
        return wrong("--one-host is about ranks that share GPUs: --oversubscribe says how many", "",
                     exit_code);
    o->seed = (uint64_t)seed;
    return true;
}

static bool is_among(const char *names, const char *name) {
    const char *bare = strchr(name, '/') + 1;
    for (const char *at = names; *at;) {
        const size_t length = strcspn(at, ",");
        if (length > 0 && (!strncmp(name, at, length) || !strncmp(bare, at, length)))
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}

bool options_choose(const options *o, const char *name) {
    if (o->quick && strstr(name, "_blocking"))
        return false;
    return (!o->only || is_among(o->only, name)) && !(o->except && is_among(o->except, name));
}
