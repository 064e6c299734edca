/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the device and the processor both run, so that the laws hold for the very code of the kernels. */
#ifndef CPROUTE_ANYWHERE_H
#define CPROUTE_ANYWHERE_H

#ifdef __CUDACC__
#define CPR_ANYWHERE __host__ __device__ static inline
#else
#define CPR_ANYWHERE static inline
#endif

#endif
