/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C and its like: long work looks here, ends early, and tells what it found until then. */
#ifndef CPROUTE_TOOLS_INTERRUPTION_H
#define CPROUTE_TOOLS_INTERRUPTION_H

#include <stdbool.h>

/* From now on SIGINT, SIGTERM and SIGHUP are such requests. */
void interruption_watch(void);

bool interrupted(void);

#endif
