/* SPDX-License-Identifier: Apache-2.0 */
/* A request as the kernel takes it: what real and simulated ranks have in common on the host. */
#ifndef CPROUTE_DIRECT_MEMBER_H
#define CPROUTE_DIRECT_MEMBER_H

#include "cproute/cproute_cuda.h"
#include "direct.h"

/* What is wrong with a request whatever its offsets: CPR_OK, bad_cp_size, bad_rank, bad_layout, total_mismatch (-1 | rows | 0 for negative ones) or overflow. */
cpr_error cpr_direct_request_refused(const cpr_cuda_conversion_request *request, cpr_geometry geometry);

/* The part of a rank in one run, but for where its buffers, boards and reports lie. Refused if its offsets cannot be read, and as
 * cpr_cuda_exchange_run refuses calls. */
cpr_direct_member cpr_direct_member_of(const cpr_cuda_conversion_request *request,
                                       const cpr_cu_seqlens *on_device, cpr_geometry geometry,
                                       cpr_direction direction, const void *source, const void *target);

/* The bytes of a rank's rows. */
int64_t cpr_direct_bytes(const cpr_cuda_conversion_request *request);

/* The last error that was raised since `*told` of them were; CPR_OK if none. */
cpr_error cpr_direct_report_read(const cpr_direct_report *report, uint64_t *told);

#endif
