/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a test program of drivers.h. The program defines check_alone. The function
 * makes the memory, and checks everything except kernels.
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
