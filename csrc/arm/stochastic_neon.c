/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if defined(PQ_ARCH_AARCH64)

#  include <arm_neon.h>
#  include <math.h>
#  include <string.h>

#  include "arm/simd_neon.h"

#  define PQ_TABLE pq_kernels_neon
#  define PQ_DRAWN(name) pq_neon_stochastic_##name
#  define PQ_WIDE(name) pq_neon_wide_##name
#  include "kernels/stochastic.inc"

#else
typedef int pq_no_neon_stochastic; /* ISO C wants something in every file */
#endif
