/* SPDX-License-Identifier: Apache-2.0 */
#define PQ_ISA scalar
#include "kernels/kernels.h"

#include "scalar/simd_scalar.h"

/* setup.py compiles this file with additional flags. These flags would slow down the
 * kernels of ops.inc, which are therefore in ops_scalar.c. */
#include "kernels/affine.inc"
#include "kernels/kernels.inc"
