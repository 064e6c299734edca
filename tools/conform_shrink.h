/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the case of a difference small, asking the implementation at every step. */
#ifndef CPROUTE_TOOLS_CONFORM_SHRINK_H
#define CPROUTE_TOOLS_CONFORM_SHRINK_H

#include "conform_talk.h"

/* What becomes of the group's case differs in the same way. At most about so many seconds are spent. */
void group_shrink(talk *t, group *g, double seconds);

#endif
