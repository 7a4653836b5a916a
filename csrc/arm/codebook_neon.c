/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if defined(PQ_ARCH_AARCH64)

#  include <arm_neon.h>
#  include <string.h>

#  include "arm/codes_neon.h"
#  include "math/scalar_math.h"

#  define PQ_BOOKS pq_neon_books
#  include "kernels/codebook.inc"

#else
typedef int pq_no_neon_codebook; /* ISO C wants something in every file */
#endif
