/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tests of kernels, from the column `test` of kernels/list.h. A test program includes
 * this header, and defines the macro of its name again: `#define SUMS(check) check,`. Then
 * list.h fills an array with the functions of the program. A row without a function does
 * not compile.
 */
#ifndef DRIVERS_H
#define DRIVERS_H

#include "check.h"
#include "kernels/kernels.h"

#define KERNEL(member, type, dimensions, presence, test) test
#define TABLE(member, type, test) test
#define API(check)
#define CODEBOOK(check)
#define DYNAMIC(check)
#define FUZZ(check)
#define KERNELS(check)
#define PAIRS(check)
#define RECORDS(check)
#define REQUANTIZE(check)
#define SUMS(check)

typedef void driver_fn(const struct pq_kernels *kernels);

/* Run each function on each table. If successive rows of list.h name one function, it runs
 * once. The last element of `drivers` is NULL. */
static inline void run_drivers(driver_fn *const *drivers)
{
    for (int i = 0; tables[i] != NULL; i++) {
        for (int d = 0; drivers[d] != NULL; d++) {
            if (d == 0 || drivers[d] != drivers[d - 1]) {
                drivers[d](tables[i]);
            }
        }
    }
}

#endif
