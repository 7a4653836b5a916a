/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "scalar/simd_scalar.h"

#define PQ_QDQ pq_scalar_fake_quantize
#include "kernels/fake_quantize.inc"
