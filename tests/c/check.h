/* SPDX-License-Identifier: Apache-2.0 */
/* Functions for the test programs: named tests, memory between inaccessible pages, random
 * numbers, and values at which wrong methods fail. The functions draw_... return random
 * values. */
#ifndef CHECK_H
#define CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "pq.h"

#define CHECK_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* ---- tests ---- */

/*
 * Read the arguments of a test program, and fill `tables`. Call this function first.
 *
 *     PROGRAM                        run all tests
 *     PROGRAM TEST                   run the tests with the text TEST in the name
 *     PROGRAM TEST CASE [COUNT]      run COUNT cases, or 1 case, of the tests from CASE on
 *
 * If a test fails or crashes, the program prints the command that repeats the first
 * failure.
 */
void check_start(int argc, char **argv);

/* The tables of kernels for each instruction set of the machine. The scalar table is the
 * last table, and NULL follows. check_start() fills the array once, because CPU detection
 * on virtual machines takes longer than most calls. */
extern const struct pq_kernels *tables[8];

/* End the running test, and start a test with the given name. The name sets the seed of
 * random numbers, so that tests are independent. If the program's arguments do not select
 * the test, CASES runs no case, and CHECK ignores failures. */
void check_begin(const char *format, ...) CHECK_PRINTF(1, 2);

/* End the last test, print how many tests passed and failed, and return the exit status. */
int check_finish(void);

/* Run the body for the cases 0 to n - 1. Stop after 5 failures. The name of the test and
 * the index of the case set the seed, so that a case can be repeated alone. */
#define CASES(i, n) for (size_t i = check_first(); check_case(i, n); i++)
size_t check_first(void);
int check_case(size_t i, size_t n);

/* Return the FNV-1a digest of `n` bytes. */
uint64_t digest_of(const void *bytes, size_t n);

void check_fail(const char *file, int line, const char *format, ...) CHECK_PRINTF(3, 4);
/* Return 1 if the running test has 5 or more failures, or is not selected. */
int check_tired(void);
/* Return 1 if the running test has failed. */
int check_failed(void);

#define CHECK(condition, ...)                                                              \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            check_fail(__FILE__, __LINE__, __VA_ARGS__);                                   \
        }                                                                                  \
    } while (0)

/* Check that the call `...` returns the status `due`. */
#define EXPECT(due, ...) EXPECT_OF(#__VA_ARGS__, due, __VA_ARGS__)
#define EXPECT_OF(text, due, ...)                                                          \
    do {                                                                                   \
        const enum pq_status got_ = (__VA_ARGS__);                                         \
        CHECK(got_ == (due), "%s: status %d, expected %d", text, (int)got_, (int)(due));   \
    } while (0)

/* Copy `good` to `args`, and change `args` by a statement. The call `...` must return
 * `due`. */
#define AFTER(due, change, ...)                                                            \
    do {                                                                                   \
        args = good;                                                                       \
        change;                                                                            \
        EXPECT_OF(#change, due, __VA_ARGS__);                                              \
    } while (0)

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Return the number of cases to run instead of `n`: `n` divided by the environment variable
 * CHECK_LIGHT, rounded up. */
size_t check_count(size_t n);

/* ---- random numbers: xorshift64* ---- */

void random_seed(uint64_t seed);
/* Let random_below() use the given bytes first, and random numbers after the last byte.
 * NULL ends the use of bytes. */
void random_from(const unsigned char *bytes, size_t n);
uint64_t random_bits(void);
/* Return rounding mode `i` of the STATIC_ROUNDS modes that are not PQ_STOCHASTIC. */
enum { STATIC_ROUNDS = PQ_ROUND_COUNT - 1 };
enum pq_round static_round(size_t i);
size_t random_below(size_t n);                        /* n > 0 */
ptrdiff_t random_between(ptrdiff_t lo, ptrdiff_t hi); /* both included */
int random_chance(unsigned percent);
double random_unit(void); /* [0, 1) */

/* ---- bits and formats ---- */

uint32_t bits_of_f32(float v);
float f32_of_bits(uint32_t bits);
uint64_t bits_of_f64(double v);
double f64_of_bits(uint64_t bits);

enum { REALS = 4 };
extern const enum pq_type reals[REALS]; /* float64 is the last element */
int is_real_type(enum pq_type type);
int no_type(void); /* a random value that is not a valid type code */
const char *type_name(enum pq_type type);
const char *round_name(enum pq_round round);

struct limits {
    int64_t lo, hi;
};
/* Return the limits of an integer type. For PQ_U64, `hi` is INT64_MAX. */
struct limits limits_of(enum pq_type integer);

/* Return element `i` of an array of reals or of integers in native byte order. */
double get_real(const void *p, enum pq_type type, size_t i);
int64_t get_integer(const void *p, enum pq_type type, size_t i);
/* Return the bits of element `i` as an unsigned integer. */
uint64_t get_bits(const void *p, enum pq_type type, size_t i);
/* Store the low bits of `bits` as element `i` of an array of `type`. */
void put_bits(void *p, enum pq_type type, size_t i, uint64_t bits);

/* Return the bits of the number of a real type that is nearest to `v`. */
uint64_t bits_near(enum pq_type real, double v);

void swap_bytes_of(void *p, size_t size);

/* ---- adversarial values ---- */

/* Return the bits of a random real. Its quotient by `scale` is often near a tie or a limit
 * of codes up to `limit`, or the real is NaN, infinite or subnormal. */
uint64_t draw_real(enum pq_type type, double scale, double limit);
/* Return a random scale: ordinary, at a limit of quotients by a reciprocal, 0, negative,
 * infinite or NaN. */
float draw_scale(void);
double draw_scale_f64(void);
/* Return a random integer from `lo` to `hi`, which often is `lo`, `hi`, 0 or the middle. */
int64_t draw_integer(int64_t lo, int64_t hi);

/* ---- memory between two inaccessible pages, which is never freed ---- */

struct guarded {
    unsigned char *base;
    size_t size; /* number of bytes between the inaccessible pages */
};

struct guarded guarded_make(size_t size);
/* Allocate `size` bytes for each member of a struct at `all`, which has `bytes` bytes and
 * only members of type struct guarded. */
void guarded_make_all(void *all, size_t bytes, size_t size);
/* Return the address of the last `n` bytes before the inaccessible page at the end. */
unsigned char *guarded_end(const struct guarded *memory, size_t n);

#endif
