/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "scalar/codes_scalar.h"

#define PQ_BOOKS pq_scalar_books
#include "kernels/codebook.inc"
