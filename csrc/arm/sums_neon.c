/* SPDX-License-Identifier: Apache-2.0 */
#define PQ_ISA neon
#include "kernels/kernels.h"

#if defined(PQ_ARCH_AARCH64)

#  include <arm_neon.h>

#  include "arm/lanes_neon.h"
#  include "arm/requantize_neon.h"

#  include "kernels/requantize.inc"
#  include "kernels/sums.inc"

#endif
