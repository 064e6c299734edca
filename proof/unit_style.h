/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A baseline: the tests that implementations of such routes were published with (Megatron-LM 3282 and 5664). A few packs that
 * a person chose; every rank's rows are sent there and back, and must be the same again; shapes must be right.
 */
#ifndef CPROUTE_PROOF_UNIT_STYLE_H
#define CPROUTE_PROOF_UNIT_STYLE_H

#include "kit/law.h"

void unit_style_tests(verdict *v);

#endif
