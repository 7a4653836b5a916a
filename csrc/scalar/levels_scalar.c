/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "scalar/simd_scalar.h"

#define PQ_LEVELS pq_scalar_levels
#include "kernels/levels.inc"

#define PQ_MAGNITUDE pq_scalar_magnitude
#include "kernels/magnitude.inc"
