/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if defined(PQ_ARCH_AARCH64)

#  include <arm_neon.h>
#  include <math.h>
#  include <string.h>

#  include "arm/simd_neon.h"

#  define PQ_TABLE pq_kernels_neon
#  define PQ_TABLE_NAME "neon"
#  define PQ_AFFINE(name) pq_neon_affine_##name
#  define PQ_DRAWN(name) pq_neon_stochastic_##name
#  define PQ_WIDE(name) pq_neon_wide_##name
#  define PQ_REQUANTIZE pq_neon_requantize
#  define PQ_LEVELS pq_neon_levels
#  define PQ_QDQ pq_neon_fake_quantize
#  define PQ_MAGNITUDE pq_neon_magnitude
#  define PQ_SUMS pq_neon_sums
#  define PQ_RECORDS pq_neon_records
#  define PQ_BOOKS pq_neon_books
#  define PQ_PIXELS(name) pq_neon_pixels_##name
#  include "kernels/kernels.inc"

#else
typedef int pq_no_neon; /* ISO C wants something in every file */
#endif
