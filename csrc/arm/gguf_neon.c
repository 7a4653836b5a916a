/* SPDX-License-Identifier: Apache-2.0 */
#define PQ_ISA neon
#include "kernels/kernels.h"

#if defined(PQ_ARCH_AARCH64)

#  include <arm_neon.h>

#  include "arm/codes_neon.h"
#  include "arm/searches_neon.h"

#  include "kernels/records.inc"

#endif
