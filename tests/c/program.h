/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a test program that uses drivers.h. The program must define check_alone(),
 * which allocates the memory, and runs all checks that are not tests of a kernel.
 */
static void check_table(const struct pq_kernels *k)
{
#include "kernels/list.h"
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_alone();
    for (int t = 0; tables[t] != NULL; t++) {
        check_table(tables[t]);
    }
    return check_finish();
}
