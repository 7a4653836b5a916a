/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "scalar/codes_scalar.h"

#define PQ_SEARCH pq_scalar_block_search
#define PQ_RECORDS pq_scalar_records
#include "kernels/records.inc"
