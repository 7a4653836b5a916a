/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if defined(PQ_ARCH_AARCH64)

#  include <arm_neon.h>
#  include <math.h>
#  include <string.h>

#  include "arm/simd_neon.h"

#  define PQ_QDQ pq_neon_fake_quantize
#  include "kernels/fake_quantize.inc"

#else
typedef int pq_no_neon_fake_quantize; /* ISO C wants something in every file */
#endif
