/* SPDX-License-Identifier: Apache-2.0 */
/* A writer that collects text, and stops it when told to. */
#ifndef CPROUTE_PROPS_SINK_H
#define CPROUTE_PROPS_SINK_H

#include <stdbool.h>
#include <stddef.h>

typedef struct sink {
    char *text; /* ends in a NUL; NULL while empty */
    size_t length, capacity;
    bool limited;
    size_t limit;           /* if limited: the call that would go beyond is refused */
    bool refused;           /* a call was */
    bool called_after_that; /* and there was one more */
    bool out_of_memory;
} sink;

/* A cpr_write_fn with a sink as context. */
bool sink_write(void *context, const char *text, size_t length);
void sink_free(sink *s);

#endif
