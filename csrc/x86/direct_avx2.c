/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if defined(PQ_ARCH_X86_64)

#  include <immintrin.h>
#  include <math.h>
#  include <string.h>

PQ_TARGET_BEGIN("avx2,fma,f16c")

#  include "x86/simd_avx2.h"

#  define PQ_DIRECT pq_avx2_direct_quantize
#  include "kernels/direct.inc"

#  define PQ_PIXELS(name) pq_avx2_pixels_##name
#  include "kernels/pixels.inc"

PQ_TARGET_END

#else
typedef int pq_no_avx2_direct; /* ISO C wants something in every file */
#endif
