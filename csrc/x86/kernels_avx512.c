/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if PQ_KNOWS_AVX512

#  include <immintrin.h>
#  include <math.h>
#  include <string.h>

PQ_TARGET_BEGIN(
    "avx2,fma,f16c,avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,avx512bf16,gfni")

#  include "simd_avx512.h"

/* AVX2's are: integers of real numbers, whatever needs float64, extrema and transposes. */
#  define PQ_SHARED(name) pq_avx2_##name
#  define PQ_TAKES_SHARED
#  define PQ_TABLE pq_kernels_avx512
#  define PQ_TABLE_NAME "avx512"
#  include "kernels.inc"

PQ_TARGET_END

#else
typedef int pq_no_avx512; /* ISO C wants something in every file */
#endif
