/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if defined(PQ_ARCH_AARCH64)

#  include <arm_neon.h>
#  include <math.h>
#  include <string.h>

#  include "arm/simd_neon.h"

#  define PQ_LEVELS pq_neon_levels
#  include "kernels/levels.inc"

#  define PQ_MAGNITUDE pq_neon_magnitude
#  include "kernels/magnitude.inc"

#else
typedef int pq_no_neon_levels; /* ISO C wants something in every file */
#endif
