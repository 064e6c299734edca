/* SPDX-License-Identifier: Apache-2.0 */
#include "names.h"

#include <string.h>

const char *cpr_name_of(const char *const *names, int64_t count, int64_t value) {
    return 0 <= value && value < count ? names[value] : "unknown";
}

int cpr_named(const char *const *names, int count, const char *name) {
    for (int value = 0; value < count; value++) {
        if (strcmp(names[value], name) == 0) {
            return value;
        }
    }
    return -1;
}
