/* SPDX-License-Identifier: Apache-2.0 */
#define PQ_ISA scalar
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

#include "scalar/simd_scalar.h"

/* The flags of this file in setup.py suit these kernels, and slow down those of ops.inc. */
#include "kernels/affine.inc"
#include "kernels/int64.inc"
#include "kernels/kernels.inc"
