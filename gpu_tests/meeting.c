/* SPDX-License-Identifier: Apache-2.0 */
#include "meeting.h"
#include "stage.h"

#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DEFAULT_PORT = 29501, RETRY_US = 20000, PATH_BYTES = 600 };

/* What a rank says when it knocks, so that a rank that is late, or somebody else, gets no id. */
typedef struct knock {
    uint64_t magic, test, rank, ranks;
} knock;
static const uint64_t MAGIC = UINT64_C(0x6370726f75746531);

static bool number_of(const char *name, int64_t *value) {
    const char *text = getenv(name);
    if (!text || !*text)
        return false;
    char *end;
    const long long number = strtoll(text, &end, 10);
    *value = number;
    return *end == '\0' && number >= 0;
}

started_by meeting_launcher(void) {
    static const struct {
        const char *launcher, *rank, *ranks, *local_rank;
    } known[] = {
        {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
        {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
        {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
        {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        started_by by = {.launcher = known[i].launcher};
        if (number_of(known[i].rank, &by.rank) && number_of(known[i].ranks, &by.ranks) &&
            number_of(known[i].local_rank, &by.local_rank) && by.ranks > 1 && by.rank < by.ranks)
            return by;
    }
    return (started_by){0};
}

/*==============================================================================
 * MARK: - By a file
 *============================================================================*/

static bool leave_in_folder(const char *path, const ncclUniqueId *id, const char **why) {
    char unfinished[PATH_BYTES + 8];
    snprintf(unfinished, sizeof unfinished, "%s.new", path);
    FILE *file = fopen(unfinished, "wb");
    const bool written = file && fwrite(id, sizeof *id, 1, file) == 1;
    if (file)
        fclose(file);
    *why = "the folder of CPROUTE_RENDEZVOUS cannot be written to";
    return written && rename(unfinished, path) == 0;
}

static bool find_in_folder(const char *path, double until, ncclUniqueId *id, const char **why) {
    *why = "no file of rank 0 appeared in the folder of CPROUTE_RENDEZVOUS";
    while (seconds_now() < until) {
        FILE *file = fopen(path, "rb");
        const bool there = file && fread(id, sizeof *id, 1, file) == 1;
        if (file)
            fclose(file);
        if (there)
            return true;
        usleep(RETRY_US);
    }
    return false;
}

/* A folder serves one run: job numbers tell runs apart where there are any. */
static bool share_by_folder(const char *folder, const started_by *by, int64_t test, double until,
                            ncclUniqueId *id, const char **why) {
    const char *job = getenv("SLURM_JOB_ID") ? getenv("SLURM_JOB_ID") : getenv("TORCHELASTIC_RUN_ID");
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/cproute-%s-%" PRId64, folder, job ? job : "run", test);
    return by->rank == 0 ? leave_in_folder(path, id, why) : find_in_folder(path, until, id, why);
}

/*==============================================================================
 * MARK: - By TCP
 *============================================================================*/

/* Without a host: to listen. */
static struct addrinfo *resolve(const char *host, int address_family) {
    int64_t port = DEFAULT_PORT;
    if (number_of("MASTER_PORT", &port))
        port++;
    number_of("CPROUTE_PORT", &port);
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, port);
    const struct addrinfo hints = {
        .ai_family = address_family, .ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE};
    struct addrinfo *found = NULL;
    return getaddrinfo(host, text, &hints, &found) == 0 ? found : NULL;
}

static bool whole(ssize_t got, size_t wanted) {
    return got == (ssize_t)wanted;
}

/* Answers until every other rank has been here, each once. */
static bool give_out(int listener, const started_by *by, int64_t test, double until, const ncclUniqueId *id) {
    bool seen[MAX_RANKS] = {false};
    for (int64_t left = by->ranks - 1; left > 0;) {
        struct pollfd wait = {.fd = listener, .events = POLLIN};
        const double seconds = until - seconds_now();
        if (seconds <= 0 || poll(&wait, 1, (int)(seconds * 1e3) + 1) <= 0)
            return false;
        const int peer = accept(listener, NULL, NULL);
        const struct timeval patience = {.tv_sec = 5};
        setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        knock k;
        if (peer >= 0 && whole(recv(peer, &k, sizeof k, MSG_WAITALL), sizeof k) && k.magic == MAGIC &&
            k.test == (uint64_t)test && k.ranks == (uint64_t)by->ranks && k.rank < k.ranks &&
            k.rank < MAX_RANKS && whole(send(peer, id, sizeof *id, MSG_NOSIGNAL), sizeof *id) &&
            !seen[k.rank]) {
            seen[k.rank] = true;
            left--;
        }
        if (peer >= 0)
            close(peer);
    }
    return true;
}

static bool serve(const char *host, const started_by *by, int64_t test, double until, const ncclUniqueId *id,
                  const char **why) {
    struct addrinfo *self = resolve(host, AF_UNSPEC);
    struct addrinfo *address = resolve(NULL, self ? self->ai_family : AF_INET);
    const int listener = address ? socket(address->ai_family, SOCK_STREAM, 0) : -1;
    const int yes = 1;
    *why = "rank 0 cannot listen at CPROUTE_PORT, or MASTER_PORT + 1";
    bool good = listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                bind(listener, address->ai_addr, address->ai_addrlen) == 0 &&
                listen(listener, MAX_RANKS) == 0;
    if (good) {
        *why = "not every rank asked rank 0 for the id in time";
        good = give_out(listener, by, test, until, id);
    }
    if (listener >= 0)
        close(listener);
    if (address)
        freeaddrinfo(address);
    if (self)
        freeaddrinfo(self);
    return good;
}

static bool ask_once(const struct addrinfo *address, const knock *k, ncclUniqueId *id) {
    const int wire = socket(address->ai_family, SOCK_STREAM, 0);
    const struct timeval patience = {.tv_sec = 5};
    const bool good = wire >= 0 &&
                      setsockopt(wire, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
                      connect(wire, address->ai_addr, address->ai_addrlen) == 0 &&
                      whole(send(wire, k, sizeof *k, MSG_NOSIGNAL), sizeof *k) &&
                      whole(recv(wire, id, sizeof *id, MSG_WAITALL), sizeof *id);
    if (wire >= 0)
        close(wire);
    return good;
}

static bool ask(const char *host, const started_by *by, int64_t test, double until, ncclUniqueId *id,
                const char **why) {
    const knock k = {MAGIC, (uint64_t)test, (uint64_t)by->rank, (uint64_t)by->ranks};
    *why = "rank 0 at MASTER_ADDR did not answer at CPROUTE_PORT, or MASTER_PORT + 1";
    bool good = false;
    while (!good && seconds_now() < until) {
        struct addrinfo *addresses = resolve(host, AF_UNSPEC);
        for (const struct addrinfo *a = addresses; a && !good; a = a->ai_next)
            good = ask_once(a, &k, id);
        if (addresses)
            freeaddrinfo(addresses);
        if (!good)
            usleep(RETRY_US);
    }
    return good;
}

bool meeting_share_id(const started_by *by, int64_t test, double seconds, ncclUniqueId *id,
                      const char **why) {
    const double until = seconds_now() + seconds;
    const char *folder = getenv("CPROUTE_RENDEZVOUS"), *host = getenv("MASTER_ADDR");
    if (folder && *folder)
        return share_by_folder(folder, by, test, until, id, why);
    if (!host || !*host) {
        *why = "neither MASTER_ADDR nor CPROUTE_RENDEZVOUS says where ranks meet";
        return false;
    }
    return by->rank == 0 ? serve(host, by, test, until, id, why) : ask(host, by, test, until, id, why);
}
