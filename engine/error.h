/* SPDX-License-Identifier: Apache-2.0 */
/* Where an error goes, and how it is filled in. */
#ifndef CPROUTE_ERROR_H
#define CPROUTE_ERROR_H

#include "cproute/cproute.h"

/* Where a public function puts its outcome: with a caller that passes NULL, in an error of its own that lasts as long as the block. */
#define CPR_ERROR_OR_UNWANTED(error) ((error) != NULL ? (error) : &(cpr_error){.status = CPR_OK})

static inline cpr_status cpr_fail(cpr_error *error, cpr_status status, int64_t index, int64_t got,
                                  int64_t wanted) {
    *error = (cpr_error){.status = status, .index = index, .got = got, .wanted = wanted};
    return status;
}

static inline cpr_status cpr_succeed(cpr_error *error) {
    return cpr_fail(error, CPR_OK, -1, 0, 0);
}

static inline cpr_status cpr_fail_no_memory(cpr_error *error) {
    return cpr_fail(error, CPR_NO_MEMORY, -1, 0, 0);
}

#endif
