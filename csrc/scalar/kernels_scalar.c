/* SPDX-License-Identifier: Apache-2.0 */
#define PQ_ISA scalar
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

#include "scalar/simd_scalar.h"

/* These kernels are up to 1.5 times faster in one file with the general kernels. */
#include "kernels/affine.inc"
#include "kernels/int64.inc"
#include "kernels/kernels.inc"
