/* SPDX-License-Identifier: Apache-2.0 */
/* Writes docs/cache-guards.md to standard output. */
#include "guards/guard.h"

int main(void) {
    return !guards_write(stdout, GUARD_SCRIPTS);
}
