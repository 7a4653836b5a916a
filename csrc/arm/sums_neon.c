/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if defined(PQ_ARCH_AARCH64)

#  include <arm_neon.h>
#  include <string.h>

#  include "arm/lanes_neon.h"

#  define PQ_SUMS pq_neon_sums
#  include "kernels/sums.inc"

#else
typedef int pq_no_neon_sums; /* ISO C wants something in every file */
#endif
