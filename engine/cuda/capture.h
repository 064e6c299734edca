/* SPDX-License-Identifier: Apache-2.0 */
/* What is done on streams of the library's own, and questions, are no part of a capture that the caller has under way. CUDA would
 * end that capture with an error unless told so. */
#ifndef CPROUTE_CUDA_CAPTURE_H
#define CPROUTE_CUDA_CAPTURE_H

#include <cuda_runtime_api.h>

typedef enum cudaStreamCaptureMode cpr_capture_mode;

static inline cpr_capture_mode cpr_capture_set_aside(void) {
    cpr_capture_mode mode = cudaStreamCaptureModeRelaxed;
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

static inline void cpr_capture_resume(cpr_capture_mode before) {
    (void)cudaThreadExchangeStreamCaptureMode(&before);
}

#endif
