/* SPDX-License-Identifier: Apache-2.0 */
/* Find the kernels of an instruction set. No other file uses both CPU detection and
 * kernels. */
#include <string.h>

#include "cpu.h"
#include "kernels/kernels.h"
#include "pq_compiler.h"

static const struct {
    unsigned required;
    const struct pq_kernels *kernels;
} tables[] = {
/* the fastest instruction set first */
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

/* Return the `i`-th of the tables that the CPU can run, or NULL. */
static const struct pq_kernels *table_at(int i)
{
    const unsigned isas = pq_cpu_isas();
    for (int t = 0; t < TABLES && i >= 0; t++) {
        if ((isas & tables[t].required) == tables[t].required && i-- == 0) {
            return tables[t].kernels;
        }
    }
    return NULL;
}

const char *pq_isa_name(int i)
{
    const struct pq_kernels *const kernels = table_at(i);
    return kernels != NULL ? kernels->name : NULL;
}

const struct pq_kernels *pq_isa_find(const char *name)
{
    const struct pq_kernels *kernels = name != NULL ? table_at(0) : NULL;
    for (int i = 1; kernels != NULL && strcmp(kernels->name, name) != 0; i++) {
        kernels = table_at(i);
    }
    return kernels;
}
