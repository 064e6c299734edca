/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

void judge_isolated(const law *l, const void *subject, unsigned timeout_s, verdict *v) {
    fflush(NULL);
    const pid_t child = fork();
    if (child < 0) {
        law_judge(l, subject, v);
        return;
    }
    if (child == 0) {
        restore_signals();
        drop_output();
        alarm(timeout_s);
        law_judge(l, subject, v);
        _exit(0);
    }
    const char *reason = failure_of_exit(wait_for(child));
    if (reason)
        verdict_of_lost_law(v, reason);
}
