/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if defined(PQ_ARCH_AARCH64)

#  include <arm_neon.h>
#  include <math.h>
#  include <string.h>

#  include "arm/simd_neon.h"

#  define PQ_DIRECT pq_neon_direct_quantize
#  define PQ_AFFINE(name) pq_neon_affine_##name
#  define PQ_DRAWN(name) pq_neon_stochastic_##name
#  define PQ_WIDE(name) pq_neon_wide_##name
#  include "kernels/affine.inc"

#else
typedef int pq_no_neon_affine; /* ISO C wants something in every file */
#endif
