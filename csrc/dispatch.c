/* SPDX-License-Identifier: Apache-2.0 */
/* Find the kernels of an instruction set. Only this file joins CPU detection and kernels.
 */
#include <string.h>

#include "cpu.h"
#include "kernels/kernels.h"
#include "pq_compiler.h"

static const struct {
    unsigned required;
    const struct pq_kernels *kernels;
} tables[] = {
/* fastest first */
#if PQ_KNOWS_AVX512
    {PQ_CPU_AVX512, &pq_kernels_avx512},
#endif
#if defined(PQ_ARCH_X86_64)
    {PQ_CPU_AVX2, &pq_kernels_avx2},
#elif defined(PQ_ARCH_AARCH64)
    {PQ_CPU_NEON, &pq_kernels_neon},
#endif
    {PQ_CPU_BASE, &pq_kernels_scalar},
};

enum { TABLES = sizeof tables / sizeof tables[0] };

const char *pq_isa_name(int i)
{
    const unsigned isas = pq_cpu_isas();
    for (int t = 0; t < TABLES && i >= 0; t++) {
        if ((isas & tables[t].required) == tables[t].required && i-- == 0) {
            return tables[t].kernels->name;
        }
    }
    return NULL;
}

const struct pq_kernels *pq_isa_find(const char *name)
{
    if (name == NULL) {
        return NULL;
    }
    const unsigned isas = pq_cpu_isas();
    for (int t = 0; t < TABLES; t++) {
        if ((isas & tables[t].required) == tables[t].required &&
            strcmp(tables[t].kernels->name, name) == 0) {
            return tables[t].kernels;
        }
    }
    return NULL;
}
