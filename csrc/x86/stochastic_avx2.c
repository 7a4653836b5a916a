/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if defined(PQ_ARCH_X86_64)

#  include <immintrin.h>
#  include <math.h>
#  include <string.h>

PQ_TARGET_BEGIN("avx2,fma,f16c")

#  include "x86/simd_avx2.h"

#  define PQ_TABLE pq_kernels_avx2
#  define PQ_DRAWN(name) pq_avx2_stochastic_##name
#  define PQ_WIDE(name) pq_avx2_wide_##name
#  include "kernels/stochastic.inc"

PQ_TARGET_END

#else
typedef int pq_no_avx2_stochastic; /* ISO C wants something in every file */
#endif
