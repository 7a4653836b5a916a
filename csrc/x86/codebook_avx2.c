/* SPDX-License-Identifier: Apache-2.0 */
#include "pq_compiler.h"

#if defined(PQ_ARCH_X86_64)

#  include <immintrin.h>
#  include <string.h>

PQ_TARGET_BEGIN("avx2,fma,f16c")

#  include "x86/codes_avx2.h"
#  include "math/scalar_math.h"

#  define PQ_BOOKS pq_avx2_books
#  include "kernels/codebook.inc"

PQ_TARGET_END

#else
typedef int pq_no_avx2_codebook; /* ISO C wants something in every file */
#endif
