/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tests of kernels, from the columns `program` and `test` of kernels/list.h. A test
 * program includes this header. At its end, the program redefines the macro of its name:
 *
 *     #undef SUMS
 *     #define SUMS TEST
 *     #include "program.h"
 *
 * The program calls the test of each row. Two errors do not compile: a row without a test,
 * and a test for kernels of another type.
 */
#ifndef DRIVERS_H
#define DRIVERS_H

#include "check.h"
#include "kernels/kernels.h"

#define KERNEL(member, type, dimensions, presence, program, test)                          \
    program(test, member, type, dimensions)
#define TEST(test, member, ...) test(k, k->member);

/* Define the test of a row by a statement that calls a function with `k` and `kernel`. */
#define DRIVER(test, type, statement)                                                      \
    static void test(const struct pq_kernels *k, type kernel)                              \
    {                                                                                      \
        statement;                                                                         \
    }

#define API(...)
#define CODEBOOK(...)
#define DYNAMIC(...)
#define ENCODE(...)
#define KERNELS(...)
#define PAIRS(...)
#define RECORDS(...)
#define REQUANTIZE(...)
#define SUMS(...)

#endif
