/* SPDX-License-Identifier: Apache-2.0 */
#include "interruption.h"

#include <signal.h>
#include <stddef.h>

/* Set by a signal, which has no other way to speak. */
static volatile sig_atomic_t requested;

static void request(int signal_number) {
    (void)signal_number;
    requested = 1;
}

void interruption_watch(void) {
    const struct sigaction action = {.sa_handler = request}; /* without SA_RESTART: what waits is woken */
    struct sigaction before;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (!sigaction(SIGHUP, NULL, &before) && before.sa_handler != SIG_IGN) /* as nohup has it */
        sigaction(SIGHUP, &action, NULL);
}

bool interrupted(void) {
    return requested != 0;
}
