/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if defined(PQ_ARCH_X86_64)

#  include <immintrin.h>
#  include <math.h>
#  include <string.h>

PQ_TARGET_BEGIN("avx2,fma,f16c")

#  include "simd_avx2.h"

#  define PQ_SHARED(name) pq_avx2_##name
#  define PQ_TABLE pq_kernels_avx2
#  define PQ_TABLE_NAME "avx2"
#  define PQ_AFFINE(name) pq_avx2_affine_##name
#  include "kernels.inc"

PQ_TARGET_END

#else
typedef int pq_no_avx2; /* ISO C wants something in every file */
#endif
