/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if defined(PQ_ARCH_X86_64)

#  include <immintrin.h>
#  include <math.h>
#  include <string.h>

PQ_TARGET_BEGIN("avx2,fma,f16c")

#  include "x86/simd_avx2.h"

#  define PQ_SHARED(name) pq_avx2_##name
#  define PQ_TABLE pq_kernels_avx2
#  define PQ_TABLE_NAME "avx2"
#  define PQ_AFFINE(name) pq_avx2_affine_##name
#  define PQ_DRAWN(name) pq_avx2_stochastic_##name
#  define PQ_WIDE(name) pq_avx2_wide_##name
#  define PQ_REQUANTIZE pq_avx2_requantize
#  define PQ_LEVELS pq_avx2_levels
#  define PQ_QDQ pq_avx2_fake_quantize
#  define PQ_MAGNITUDE pq_avx2_magnitude
#  define PQ_SUMS pq_avx2_sums
#  define PQ_RECORDS pq_avx2_records
#  define PQ_BOOKS pq_avx2_books
#  define PQ_PIXELS(name) pq_avx2_pixels_##name
#  include "kernels/kernels.inc"

PQ_TARGET_END

#else
typedef int pq_no_avx2; /* ISO C wants something in every file */
#endif
