/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "simd_scalar.h"

#define PQ_TABLE pq_kernels_scalar
#define PQ_TABLE_NAME "scalar"
#define PQ_AFFINE(name) pq_scalar_affine_##name
#include "kernels.inc"
#include "kernels/affine.inc"
