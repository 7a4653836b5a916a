/* SPDX-License-Identifier: Apache-2.0 */
#define PQ_ISA scalar
#include "kernels/kernels.h"

#include "scalar/codes_scalar.h"
#include "scalar/searches_scalar.h"

#include "kernels/records.inc"
