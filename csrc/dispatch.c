/* SPDX-License-Identifier: Apache-2.0 */
/* Level -> table: the one file that knows both CPU levels and kernels. */
#include <string.h>

#include "cpu.h"
#include "kernels/kernels.h"
#include "pq_compiler.h"

static const struct {
    unsigned needs;
    const struct pq_kernels *kernels;
} tables[] = {
/* best first */
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
    const unsigned levels = pq_cpu_levels();
    for (int t = 0; t < TABLES && i >= 0; t++) {
        if ((levels & tables[t].needs) == tables[t].needs && i-- == 0) {
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
    const unsigned levels = pq_cpu_levels();
    for (int t = 0; t < TABLES; t++) {
        if ((levels & tables[t].needs) == tables[t].needs &&
            strcmp(tables[t].kernels->name, name) == 0) {
            return tables[t].kernels;
        }
    }
    return NULL;
}
