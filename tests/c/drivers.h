/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Macros that call the test of each kernel. The columns `program` and `test` of
 * kernels/list.h name the test program and the test. A test program includes this header,
 * and ends with these lines, here for the program SUMS:
 *
 *     #undef SUMS
 *     #define SUMS TEST
 *     #include "program.h"
 *
 * The program calls the test of each of its rows. The program does not compile if a row has
 * no test, or a test for kernels of another type.
 */
#ifndef DRIVERS_H
#define DRIVERS_H

#include "check.h"
#include "kernels/kernels.h"

#define KERNEL(member, type, dimensions, presence, program, test)                          \
    program(test, member, type, dimensions)
#define TEST(test, member, ...) test(k, k->member);

/* Define `test`, the test of a row of list.h. The statement checks the kernel `kernel` of
 * the table `k`. */
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
