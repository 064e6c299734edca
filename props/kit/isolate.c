/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const REASON_HANG = "hang: no verdict in time";

void *shared_memory(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void shared_memory_free(void *memory, size_t size) {
    munmap(memory, size);
}

const char *failure_of_exit(int status) {
    if (WIFEXITED(status))
        return WEXITSTATUS(status) == 0 ? NULL : "crash: the process gave up";
    switch (WTERMSIG(status)) {
    case SIGALRM:
        return REASON_HANG;
    case SIGABRT:
        return "crash: signal 6 (abort)";
    case SIGBUS:
        return "crash: signal 7 (bus error)";
    case SIGFPE:
        return "crash: signal 8 (arithmetic)";
    case SIGKILL:
        return "crash: signal 9 (killed)";
    case SIGSEGV:
        return "crash: signal 11 (segmentation fault)";
    case SIGILL:
        return "crash: signal 4 (illegal instruction)";
    case SIGTRAP:
        return "crash: signal 5 (trap)";
    default:
        return "crash: another signal";
    }
}

void restore_signals(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGALRM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_DFL);
}

int wait_for(pid_t process) {
    int status = 0;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

void verdict_of_lost_law(verdict *v, const char *reason) {
    *v = (verdict){.outcome = LAW_FAILED, .reason = reason, .details = "the law did not come back"};
}

static void drop_output(void) {
    const int nowhere = open("/dev/null", O_WRONLY);
    const struct rlimit no_core = {0, 0};
    if (nowhere >= 0) {
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
    }
    setrlimit(RLIMIT_CORE, &no_core);
}

/*==============================================================================
 * MARK: - The workshop
 *============================================================================*/

/* Ends with the law, or when the other end is closed. */
static void work(workshop *w) {
    char order;
    restore_signals();
    drop_output();
    while (recv(w->wire, &order, 1, 0) == 1) {
        alarm(w->timeout_s);
        law_judge(w->l, w->subject, w->answer);
        alarm(0);
        if (send(w->wire, &order, 1, MSG_NOSIGNAL) != 1)
            break;
    }
    _exit(0);
}

static bool hire(workshop *w) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return false;
    fflush(NULL);
    const pid_t worker = fork();
    w->wire = ends[worker == 0];
    close(ends[worker != 0]);
    if (worker == 0)
        work(w);
    if (worker < 0)
        close(w->wire);
    w->worker = worker > 0 ? worker : 0;
    return worker > 0;
}

static int dismiss(workshop *w) {
    close(w->wire);
    const int status = wait_for(w->worker);
    w->worker = 0;
    return status;
}

/* The answer in w->answer. Without a second process the law works in this one. */
static void have_judged(workshop *w) {
    char order = 'j';
    if (!w->worker && !hire(w)) {
        law_judge(w->l, w->subject, w->answer);
        return;
    }
    const bool answered = send(w->wire, &order, 1, MSG_NOSIGNAL) == 1 && recv(w->wire, &order, 1, 0) == 1;
    if (!answered) {
        const char *reason = failure_of_exit(dismiss(w));
        verdict_of_lost_law(w->answer, reason ? reason : "crash: the process ended");
    }
}

bool workshop_open(workshop *w, const law *l, unsigned timeout_s) {
    *w = (workshop){.l = l, .timeout_s = timeout_s};
    w->subject = shared_memory(l->family->size);
    w->answer = shared_memory(sizeof *w->answer);
    if (w->subject && w->answer)
        return true;
    workshop_close(w);
    return false;
}

void workshop_close(workshop *w) {
    if (w->worker)
        dismiss(w);
    if (w->subject)
        shared_memory_free(w->subject, w->l->family->size);
    if (w->answer)
        shared_memory_free(w->answer, sizeof *w->answer);
}

const verdict *workshop_judge(workshop *w) {
    const bool worker_was_new = !w->worker;
    have_judged(w);
    if (w->answer->outcome != LAW_FAILED || worker_was_new)
        return w->answer;
    if (w->worker)
        dismiss(w);
    have_judged(w);
    return w->answer;
}
