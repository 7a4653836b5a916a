/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "codes_scalar.h"

#define PQ_RECORDS pq_scalar_records
#include "kernels/records.inc"
