/* SPDX-License-Identifier: Apache-2.0 */
/* Do messages fit the counts of a transport? */
#include "allocator.h"
#include "error.h"
#include "interval.h"
#include "request.h"
#include "runs.h"

static int64_t largest_message(const cpr_run_list *list) {
    int64_t largest = 0;
    for (int64_t run = 0; run < list->count;) {
        const int64_t rows = cpr_message_next(list, list->runs[run].peer, &run).rows;
        largest = rows > largest ? rows : largest;
    }
    return largest;
}

/* Is rows * row_width at most `limit`? A negative width fits nowhere. */
static bool product_fits(int64_t rows, int64_t row_width, int64_t limit) {
    return row_width == 0 || (row_width > 0 && rows <= limit / row_width);
}

cpr_status cpr_transport_check(const cpr_route_request *request, int64_t row_width, int count_bits,
                               const cpr_allocator *allocator, cpr_error *error) {
    const cpr_allocator chosen = cpr_allocator_chosen(allocator);
    cpr_error *outcome = CPR_ERROR_OR_UNWANTED(error);
    int64_t total_tokens;
    if (cpr_request_validate(request, &total_tokens, outcome) != CPR_OK) {
        return outcome->status;
    }
    if (count_bits < 8 || count_bits > 64) {
        return cpr_fail(outcome, CPR_OVERFLOW, -1, count_bits, 64);
    }
    int64_t rows = 0;
    for (int64_t rank = 0; rank < request->geometry.cp_size; rank++) {
        cpr_route *route = cpr_route_of_rank(request, rank, total_tokens, &chosen);
        if (route == NULL) {
            return cpr_fail_no_memory(outcome);
        }
        const int64_t largest = largest_message(&route->send);
        rows = largest > rows ? largest : rows;
        cpr_route_free(route);
    }
    const int64_t largest_count = (int64_t)(UINT64_MAX >> (65 - count_bits));
    if (!product_fits(rows, row_width, largest_count)) {
        const int64_t elements = product_fits(rows, row_width, INT64_MAX) ? rows * row_width : INT64_MAX;
        return cpr_fail(outcome, CPR_OVERFLOW, -1, elements, largest_count);
    }
    return cpr_succeed(outcome);
}
