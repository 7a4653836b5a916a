/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "scalar/lanes_scalar.h"

#define PQ_SUMS pq_scalar_sums
#include "kernels/sums.inc"
