/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if defined(PQ_ARCH_AARCH64)

#  include <arm_neon.h>
#  include <math.h>
#  include <string.h>

#  include "arm/simd_neon.h"

#  define PQ_WIDE(name) pq_neon_wide_##name
#  include "kernels/int64.inc"

#else
typedef int pq_no_neon_wide; /* ISO C wants something in every file */
#endif
