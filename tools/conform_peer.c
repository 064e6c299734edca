/* SPDX-License-Identifier: Apache-2.0 */
#include "conform_peer.h"
#include "kit/isolate.h"
#include "progress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char PEER_HANGS[] = "no answer in time", PEER_SAYS_MORE[] = "an answer that nobody asked for";
static const char STOPPED[] = "not waited for";
static const double GRACE_S = 2;        /* to end after its output has ended */
static const double LISTENING_S = 0.05; /* at a time, before it is asked whether to go on */

bool peer_goes_on(peer *p) {
    p->stopped = p->stopped || (p->go_on && !p->go_on(p->context));
    return !p->stopped;
}

/*------------------------------------------------------------------------------
 * Starting
 *----------------------------------------------------------------------------*/

typedef struct plumbing {
    int in[2], out[2], err[2], failure[2];
} plumbing;

static void close_pair(const int pair[2]) {
    if (pair[0] >= 0)
        close(pair[0]);
    if (pair[1] >= 0)
        close(pair[1]);
}

static bool open_pair(int pair[2]) {
    if (pipe(pair)) {
        pair[0] = pair[1] = -1;
        return false;
    }
    fcntl(pair[0], F_SETFD, FD_CLOEXEC);
    fcntl(pair[1], F_SETFD, FD_CLOEXEC);
    return true;
}

static bool open_plumbing(plumbing *t) {
    int *const pairs[] = {t->in, t->out, t->err, t->failure};
    bool good = true;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        good = open_pair(pairs[i]) && good;
    return good;
}

static void close_plumbing(const plumbing *t) {
    close_pair(t->in);
    close_pair(t->out);
    close_pair(t->err);
    close_pair(t->failure);
}

/* In the child: does not return. A group of its own, so that what it starts ends with it. */
static void become(const plumbing *t, char *const *command) {
    setpgid(0, 0);
    restore_signals();
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    dup2(t->in[0], STDIN_FILENO);
    dup2(t->out[1], STDOUT_FILENO);
    dup2(t->err[1], STDERR_FILENO);
    execvp(command[0], command);
    const int reason = errno;
    ssize_t told = write(t->failure[1], &reason, sizeof reason);
    _exit(told == (ssize_t)sizeof reason ? 126 : 127);
}

static void set_nonblocking(int file) {
    fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_NONBLOCK);
}

/* 0 once the command runs, or why it does not. */
static int failure_to_run(int pipe_end) {
    int reason = 0;
    ssize_t got;
    do
        got = read(pipe_end, &reason, sizeof reason);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof reason ? reason : 0;
}

static void take_ends(peer *p, plumbing *t) {
    p->in = t->in[1];
    p->out = t->out[0];
    p->err = t->err[0];
    t->in[1] = t->out[0] = t->err[0] = -1;
    set_nonblocking(p->in);
    set_nonblocking(p->out);
    set_nonblocking(p->err);
}

static void forget(peer *p) {
    p->to_send.taken = p->to_send.filled = 0;
    p->arrived.taken = p->arrived.filled = 0;
    p->searched = p->said_length = 0;
    p->loss = NULL;
    p->heard = seconds_now();
    p->details[0] = '\0';
}

bool peer_start(peer *p) {
    plumbing t;
    forget(p);
    p->process = 0;
    p->in = p->out = p->err = -1;
    if (!open_plumbing(&t)) {
        close_plumbing(&t);
        return false;
    }
    fflush(NULL);
    const pid_t process = fork();
    if (process == 0)
        become(&t, p->command);
    int reason = process < 0 ? errno : 0;
    if (process > 0) {
        setpgid(process, process);
        close(t.failure[1]);
        t.failure[1] = -1;
        reason = failure_to_run(t.failure[0]);
        p->process = process;
        take_ends(p, &t);
    }
    close_plumbing(&t);
    if (reason)
        peer_stop(p);
    errno = reason;
    return !reason;
}

/*------------------------------------------------------------------------------
 * Ending
 *----------------------------------------------------------------------------*/

static void close_end(int *end) {
    if (*end >= 0)
        close(*end);
    *end = -1;
}

static void close_ends(peer *p) {
    close_end(&p->in);
    close_end(&p->out);
    close_end(&p->err);
}

void peer_stop(peer *p) {
    close_ends(p);
    if (p->process) {
        kill(-p->process, SIGKILL);
        kill(p->process, SIGKILL);
        wait_for(p->process);
    }
    p->process = 0;
}

void peer_give_up(peer *p, const char *loss, const char *details) {
    p->loss = loss;
    snprintf(p->details, sizeof p->details, "%.*s", (int)sizeof p->details - 1, details);
    peer_stop(p);
}

/* The last line on standard error is most often the reason. */
static const char *last_words(peer *p) {
    size_t end = p->said_length;
    while (end > 0 && strchr("\r\n", p->said[end - 1]))
        end--;
    size_t begin = end;
    while (begin > 0 && p->said[begin - 1] != '\n')
        begin--;
    p->said[end < sizeof p->said ? end : sizeof p->said - 1] = '\0';
    return p->said + begin;
}

static void hear(peer *p);
static bool receive_some(peer *p);

/* Waits for the end of the process; false if it is still there when the time is over. What it writes is read, or it may
 * wait for somebody to read. */
static bool wait_until(peer *p, double deadline, int *status) {
    for (;;) {
        const pid_t ended = waitpid(p->process, status, WNOHANG);
        if (ended == p->process)
            return true;
        if (ended < 0 && errno != EINTR)
            return true;
        if (seconds_now() > deadline || !peer_goes_on(p))
            return false;
        hear(p);
        if (p->out >= 0 && p->arrived.filled - p->arrived.taken <= PEER_MAX_LINE)
            receive_some(p);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

static const char *name_of_ending(int status) {
    if (!WIFEXITED(status))
        return failure_of_exit(status);
    return WEXITSTATUS(status) ? "it ended with an error" : "it ended";
}

/* Its output has ended: how did it? */
static void lose_ended(peer *p) {
    int status = 0;
    const bool partial = p->arrived.filled > p->arrived.taken;
    if (!wait_until(p, seconds_now() + GRACE_S, &status)) {
        peer_give_up(p, p->stopped ? STOPPED : "it closed its output", "and went on");
        return;
    }
    hear(p);
    kill(-p->process, SIGKILL); /* what it left behind */
    p->process = 0;
    char code[32] = "";
    if (WIFEXITED(status))
        snprintf(code, sizeof code, "status %d", WEXITSTATUS(status));
    p->loss = partial ? "it ended in the middle of a line" : name_of_ending(status);
    const char *words = last_words(p);
    snprintf(p->details, sizeof p->details, "%s%s%s", code, *code && *words ? ", " : "", words);
    close_ends(p);
}

bool peer_finish(peer *p) {
    int status = 0;
    close_end(&p->in);
    if (!wait_until(p, seconds_now() + PEER_PATIENCE * p->timeout_s, &status)) {
        peer_give_up(p, p->stopped ? STOPPED : "it does not end when its input has ended", "");
        return false;
    }
    receive_some(p);
    const bool more = p->arrived.filled > p->arrived.taken;
    kill(-p->process, SIGKILL);
    p->process = 0;
    const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!good) {
        p->loss =
            WIFEXITED(status) ? "it ends with an error when its input has ended" : failure_of_exit(status);
        snprintf(p->details, sizeof p->details, "%s", last_words(p));
    } else if (more) {
        p->loss = PEER_SAYS_MORE;
        snprintf(p->details, sizeof p->details, "%s", "when its input has ended");
    }
    close_ends(p);
    return good && !more;
}

/*------------------------------------------------------------------------------
 * Bytes in and out
 *----------------------------------------------------------------------------*/

/* Room for so many more bytes. */
static bool make_room(peer_bytes *b, size_t more) {
    if (b->taken) { /* there are items then */
        memmove(b->items, b->items + b->taken, b->filled - b->taken);
        b->filled -= b->taken;
        b->taken = 0;
    }
    if (b->filled + more <= b->capacity)
        return true;
    size_t capacity = b->capacity ? b->capacity : 1 << 16;
    while (capacity < b->filled + more)
        capacity *= 2;
    char *items = realloc(b->items, capacity);
    if (!items)
        return false;
    b->items = items;
    b->capacity = capacity;
    return true;
}

bool peer_put(peer *p, const char *line, size_t length) {
    if (!make_room(&p->to_send, length))
        return false;
    memcpy(p->to_send.items + p->to_send.filled, line, length);
    p->to_send.filled += length;
    return true;
}

/* A command that no longer reads may still answer what it has read. */
static void send_some(peer *p) {
    ssize_t sent = write(p->in, p->to_send.items + p->to_send.taken, p->to_send.filled - p->to_send.taken);
    if (sent > 0)
        p->to_send.taken += (size_t)sent;
    else if (sent < 0 && errno != EAGAIN && errno != EINTR)
        close_end(&p->in);
}

/* Standard error; the end of it is kept. */
static void hear(peer *p) {
    char text[4096];
    for (int i = 0; p->err >= 0 && i < 16; i++) {
        const ssize_t got = read(p->err, text, sizeof text);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            close_end(&p->err);
            return;
        }
        const size_t room = sizeof p->said - 1, length = (size_t)got < room ? (size_t)got : room;
        const size_t kept = p->said_length + length > room ? room - length : p->said_length;
        memmove(p->said, p->said + p->said_length - kept, kept);
        memcpy(p->said + kept, text + got - length, length);
        p->said_length = kept + length;
    }
}

/* False at the end of its output. */
static bool receive_some(peer *p) {
    enum { SOME = 1 << 16 };
    if (p->arrived.taken)
        p->searched -= p->arrived.taken;
    if (!make_room(&p->arrived, SOME))
        return false;
    const ssize_t got = read(p->out, p->arrived.items + p->arrived.filled, SOME);
    if (got > 0) {
        p->arrived.filled += (size_t)got;
        p->heard = seconds_now();
    }
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

static char *next_line(peer *p, size_t *length) {
    if (p->searched < p->arrived.taken)
        p->searched = p->arrived.taken;
    const size_t unsearched = p->arrived.filled - p->searched;
    char *end = unsearched ? memchr(p->arrived.items + p->searched, '\n', unsearched) : NULL;
    p->searched = p->arrived.filled;
    if (!end)
        return NULL;
    char *line = p->arrived.items + p->arrived.taken;
    *end = '\0';
    *length = (size_t)(end - line);
    p->arrived.taken += *length + 1;
    p->searched = p->arrived.taken;
    return line;
}

/* Has the process ended, although somebody whom it started holds its output open? */
static bool has_ended(const peer *p) {
    siginfo_t info = {0};
    return !waitid(P_PID, (id_t)p->process, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid == p->process;
}

/* Moves what can be moved. False when there is nothing more to wait for; then p->loss says why. */
static bool converse(peer *p, double deadline) {
    const double left = deadline - seconds_now();
    const bool sending = p->in >= 0 && p->to_send.filled > p->to_send.taken;
    struct pollfd ends[] = {{.fd = p->out, .events = POLLIN},
                            {.fd = p->err, .events = POLLIN},
                            {.fd = sending ? p->in : -1, .events = POLLOUT}};
    if (!peer_goes_on(p)) {
        peer_give_up(p, STOPPED, "");
        return false;
    }
    if (left <= 0) {
        peer_give_up(p, PEER_HANGS, last_words(p));
        return false;
    }
    const double listening = left < LISTENING_S ? left : LISTENING_S;
    const int ready = poll(ends, 3, (int)(listening * 1000) + 1);
    if (ready < 0 && errno != EINTR) {
        peer_give_up(p, "it cannot be listened to", strerror(errno));
        return false;
    }
    if (ready == 0 && has_ended(p)) {
        lose_ended(p);
        return false;
    }
    if (ends[2].revents)
        send_some(p);
    if (ends[1].revents)
        hear(p);
    if (ends[0].revents && !receive_some(p)) {
        lose_ended(p);
        return false;
    }
    return true;
}

char *peer_line(peer *p, double timeout_s, size_t *length) {
    const double deadline = seconds_now() + timeout_s;
    char *line = NULL;
    if (!p->process)
        return NULL;
    while (!(line = next_line(p, length))) {
        if (p->arrived.filled - p->arrived.taken > PEER_MAX_LINE) {
            peer_give_up(p, "a line without an end", "");
            return NULL;
        }
        if (!converse(p, deadline))
            return NULL;
    }
    return line;
}

bool peer_has_more(peer *p) {
    if (p->process && p->arrived.filled == p->arrived.taken && p->out >= 0)
        receive_some(p);
    return p->arrived.filled > p->arrived.taken;
}
