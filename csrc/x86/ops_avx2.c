/* SPDX-License-Identifier: Apache-2.0 */
#define PQ_ISA avx2
#include "kernels/kernels.h"

#if defined(PQ_ARCH_X86_64)

#  include <immintrin.h>

PQ_TARGET_BEGIN("avx2,fma,f16c")

#  include "x86/codes_avx2.h"
#  include "x86/simd_avx2.h"

#  include "kernels/ops.inc"

PQ_TARGET_END

#endif
