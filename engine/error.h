/* SPDX-License-Identifier: Apache-2.0 */
/* How an error is filled in. */
#ifndef CPROUTE_ERROR_H
#define CPROUTE_ERROR_H

#include "cproute/cproute.h"

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
