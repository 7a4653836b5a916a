/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "simd_scalar.h"

#define PQ_QDQ pq_scalar_qdq
#include "kernels/qdq.inc"
