/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if defined(PQ_ARCH_AARCH64)

#  include <arm_neon.h>
#  include <math.h>
#  include <string.h>

#  include "arm/simd_neon.h"

#  define PQ_DIRECT pq_neon_direct_quantize
#  include "kernels/direct.inc"

#  define PQ_PIXELS(name) pq_neon_pixels_##name
#  include "kernels/pixels.inc"

#else
typedef int pq_no_neon_direct; /* ISO C wants something in every file */
#endif
