/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if defined(PQ_ARCH_AARCH64)

#  include <arm_neon.h>
#  include <math.h>
#  include <string.h>

#  include "simd_neon.h"

#  define PQ_QDQ pq_neon_qdq
#  include "kernels/qdq.inc"

#else
typedef int pq_no_neon_qdq; /* ISO C wants something in every file */
#endif
