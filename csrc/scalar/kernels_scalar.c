/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "scalar/simd_scalar.h"

#define PQ_TABLE pq_kernels_scalar
#define PQ_TABLE_NAME "scalar"
#define PQ_AFFINE(name) pq_scalar_affine_##name
#define PQ_DRAWN(name) pq_scalar_stochastic_##name
#define PQ_WIDE(name) pq_scalar_wide_##name
#define PQ_REQUANTIZE pq_scalar_requantize
#define PQ_LEVELS pq_scalar_levels
#define PQ_QDQ pq_scalar_fake_quantize
#define PQ_MAGNITUDE pq_scalar_magnitude
#define PQ_SUMS pq_scalar_sums
#define PQ_RECORDS pq_scalar_records
#define PQ_BOOKS pq_scalar_books
#include "kernels/affine.inc"
#include "kernels/int64.inc"
#include "kernels/kernels.inc"
