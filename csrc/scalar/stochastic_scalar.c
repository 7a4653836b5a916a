/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "scalar/simd_scalar.h"

#define PQ_TABLE pq_kernels_scalar
#define PQ_DRAWN(name) pq_scalar_stochastic_##name
#define PQ_WIDE(name) pq_scalar_wide_##name
#include "kernels/stochastic.inc"
