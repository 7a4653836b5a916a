/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if defined(PQ_ARCH_AARCH64)

#  include <arm_neon.h>
#  include <math.h>
#  include <string.h>

#  include "simd_neon.h"

#  define PQ_TABLE pq_kernels_neon
#  define PQ_TABLE_NAME "neon"
#  define PQ_AFFINE(name) pq_neon_affine_##name
#  include "kernels.inc"

#else
typedef int pq_no_neon; /* ISO C wants something in every file */
#endif
