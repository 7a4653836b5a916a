/* SPDX-License-Identifier: Apache-2.0 */
#define PQ_ISA scalar
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

#include "scalar/simd_scalar.h"

/* setup.py has flags for this file, which would slow down the kernels of ops.inc. */
#include "kernels/affine.inc"
#include "kernels/kernels.inc"
